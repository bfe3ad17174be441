package ring_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/ring"
)

// FuzzRing applies changes to a ring and to a plain map: three bytes a change,
// for the member, the weight and whether it leaves. What the ring places must be
// what a new ring of the map's members places, and a change may move only keys
// from or to its member. Few slots make it fast.
func FuzzRing(f *testing.F) {
	f.Add([]byte("a\x01\x00b\x02\x00a\x00\x01"))
	f.Add([]byte("w\x01\x00x\x01\x00y\x01\x00z\x01\x00v\x01\x00u\x03\x00w\x00\x00w\x00\x01w\x05\x00"))
	f.Fuzz(func(t *testing.T, changes []byte) {
		members := map[string]int{}
		config := ring.Config{Slots: 256}
		r, err := config.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		for ; len(changes) >= 3; changes = changes[3:] {
			// Few names, one within another, so that changes meet.
			id := strings.Repeat("w1", int(changes[0]&7)) + string(rune('0'+changes[0]>>5))
			weight := int(int8(changes[1]))
			next, err := change(r, id, weight, changes[2]&1 == 1)
			_, known := members[id]
			switch {
			case changes[2]&1 == 1 && !known:
				if !errors.Is(err, ring.ErrUnknown) {
					t.Fatalf("Without(%q) = %v, want ErrUnknown", id, err)
				}
				continue
			case changes[2]&1 == 1:
				delete(members, id)
			case weight < 0:
				if !errors.Is(err, ring.ErrInvalid) {
					t.Fatalf("With(%q, %d) = %v, want ErrInvalid", id, weight, err)
				}
				continue
			default:
				members[id] = weight
			}
			if err != nil {
				t.Fatal(err)
			}
			for key := range uint64(64) {
				from, to := r.Member(r.Lookup(key)).ID, next.Member(next.Lookup(key)).ID
				if from != to && from != id && to != id {
					t.Fatalf("key %d moved from %q to %q when %q changed", key, from, to, id)
				}
			}
			r = next
		}
		var list []ring.Member
		placed := 0
		for id, weight := range members {
			list = append(list, ring.Member{ID: id, Weight: weight})
			if weight > 0 {
				placed++
			}
		}
		rebuilt, err := config.New(list)
		if err != nil {
			t.Fatal(err)
		}
		for key := range uint64(64) {
			got, want := r.AppendWalk(nil, key, 99), rebuilt.AppendWalk(nil, key, 99)
			if !slices.Equal(got, want) || len(got) != placed {
				t.Fatalf("walk of %d = %v, rebuilt %v, with %d members of weight", key, got, want, placed)
			}
		}
	})
}

func change(r *ring.Ring, id string, weight int, leave bool) (*ring.Ring, error) {
	if leave {
		return r.Without(id)
	}
	return r.With(ring.Member{ID: id, Weight: weight})
}
