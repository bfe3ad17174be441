package ring_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	jump "github.com/dgryski/go-jump"

	"github.com/warmroute/warmroute/ring"
)

// The tests of this file are named for defects of other libraries.

func TestDefect_EmptyRing(t *testing.T) {
	zeros := mustNew(t, []ring.Member{{ID: "a"}, {ID: "b"}})
	for name, r := range map[string]*ring.Ring{"zero value": {}, "no members": mustNew(t, nil), "all weights 0": zeros} {
		if got := r.Lookup(7); got != -1 {
			t.Errorf("%s: Lookup = %d, want -1", name, got)
		}
		if got := r.AppendWalk(nil, 7, 3); len(got) != 0 {
			t.Errorf("%s: AppendWalk = %v, want none", name, got)
		}
		for i := range r.Walk(7) {
			t.Errorf("%s: Walk yields %d", name, i)
		}
		if _, err := r.Without("x"); !errors.Is(err, ring.ErrUnknown) {
			t.Errorf("%s: Without(x) = %v, want ErrUnknown", name, err)
		}
		b, err := r.Bound(ring.LoadBound{})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Acquire(7); got != -1 {
			t.Errorf("%s: Acquire = %d, want -1", name, got)
		}
		if got := r.Member(r.Lookup(7)); got != (ring.Member{}) {
			t.Errorf("%s: Member(-1) = %v, want none", name, got)
		}
	}
	if zeros.Len() != 2 || zeros.Index("b") != 1 {
		t.Errorf("members of weight 0 are not known: Len = %d", zeros.Len())
	}
}

func TestDefect_OneMember(t *testing.T) {
	r := mustNew(t, []ring.Member{{ID: "only", Weight: 1}})
	b, err := r.Bound(ring.LoadBound{Factor: 1.01})
	if err != nil {
		t.Fatal(err)
	}
	for key := range uint64(20) {
		if r.Lookup(key) != 0 || b.Acquire(key) != 0 {
			t.Fatalf("key %d is not placed on the only member", key)
		}
	}
	empty, err := r.Without("only")
	if err != nil || empty.Lookup(1) != -1 {
		t.Errorf("Without the only member: Lookup = %d, %v, want -1", empty.Lookup(1), err)
	}
}

func TestDefect_BadMembers(t *testing.T) {
	good := mustNew(t, []ring.Member{{ID: "a", Weight: 1}})
	for _, c := range []struct {
		name   string
		member ring.Member
		says   string
	}{
		{"empty ID", ring.Member{Weight: 3}, "weight 3 has no ID"},
		{"negative weight", ring.Member{ID: "b", Weight: -1}, `"b": weight -1`},
		{"huge weight", ring.Member{ID: "b", Weight: math.MaxInt32}, `"b": weight 2147483647`},
	} {
		if _, err := ring.New([]ring.Member{c.member}); !errors.Is(err, ring.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: New = %v, want one that says %s", c.name, err, c.says)
		}
		if _, err := good.With(c.member); !errors.Is(err, ring.ErrInvalid) {
			t.Errorf("%s: With = %v, want ErrInvalid", c.name, err)
		}
	}
	if _, err := ring.New([]ring.Member{{ID: "a", Weight: 1}, {ID: "b", Weight: 1}, {ID: "a", Weight: 2}}); !errors.Is(err, ring.ErrInvalid) || !strings.Contains(err.Error(), `"a" is listed twice`) {
		t.Errorf("duplicate: New = %v", err)
	}
	for _, c := range []ring.Config{{Slots: 1000}, {Slots: 128}, {Slots: -1}, {Slots: 1 << 21}, {SlotCap: 0.9}, {SlotCap: -1}} {
		if _, err := c.New(nil); !errors.Is(err, ring.ErrInvalid) {
			t.Errorf("%+v.New = %v, want ErrInvalid", c, err)
		}
	}
	if good.Len() != 1 || good.Lookup(1) != 0 {
		t.Error("a failed change changed the ring")
	}
}

// Names that are ambiguous when a number is joined to them, as "w1"+"11" and
// "w11"+"1".
func TestDefect_AmbiguousNames(t *testing.T) {
	before := mustNew(t, []ring.Member{{ID: "w", Weight: 1}, {ID: "w1", Weight: 1}, {ID: "w11", Weight: 1}, {ID: "w1/1", Weight: 1}})
	after, err := before.Without("w11")
	if err != nil {
		t.Fatal(err)
	}
	old, now := homes(before, 10_000), homes(after, 10_000)
	for key := range old {
		if old[key] != "w11" && old[key] != now[key] {
			t.Fatalf("key %d moved from %s to %s when w11 left", key, old[key], now[key])
		}
	}
}

// Members whose hashes collide take turns by ID and stay apart.
func TestDefect_CollidingHashes(t *testing.T) {
	members := []ring.Member{{ID: "a", Weight: 1}, {ID: "b", Weight: 1}, {ID: "c", Weight: 1}}
	r, err := ring.NewWithHash(members, func(string) uint64 { return 42 })
	if err != nil {
		t.Fatal(err)
	}
	for key := range uint64(1000) {
		if got := walkIDs(r, key, 3); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Fatalf("walk of %d = %v, want a b c", key, got)
		}
	}
	heavier, err := ring.NewWithHash([]ring.Member{{ID: "a", Weight: 1}, {ID: "b", Weight: 2}, {ID: "c", Weight: 1}}, func(string) uint64 { return 42 })
	if err != nil {
		t.Fatal(err)
	}
	if got := walkIDs(heavier, 1, 3); !slices.Equal(got, []string{"b", "a", "c"}) {
		t.Errorf("walk with a heavier b = %v, want b a c", got)
	}
}

func TestDefect_OneAtATime(t *testing.T) {
	r := mustNew(t, nil)
	var err error
	for i := range 4096 {
		if r, err = r.With(ring.Member{ID: fmt.Sprint("m", i), Weight: 1}); err != nil {
			t.Fatalf("With member %d: %v", i, err)
		}
		if got := r.Lookup(uint64(i)); got < 0 || got > i {
			t.Fatalf("%d members: Lookup = %d", i+1, got)
		}
	}
	for i := range 4096 {
		if r, err = r.Without(fmt.Sprint("m", i)); err != nil {
			t.Fatalf("Without member %d: %v", i, err)
		}
		if got := r.Lookup(uint64(i)); got < 0 != (r.Len() == 0) {
			t.Fatalf("%d members: Lookup = %d", r.Len(), got)
		}
	}
}

// C17: one of ten members held eight times the others' share, until a restart.
// A ring has no history that a restart could cure.
func TestDefect_UnevenAfterChurn(t *testing.T) {
	fresh := mustNew(t, fleet(10))
	r := fresh
	rng := rand.New(rand.NewPCG(17, 1))
	var err error
	for range 2000 {
		m := r.Member(rng.IntN(r.Len()))
		if r, err = r.Without(m.ID); err != nil {
			t.Fatal(err)
		}
		if r, err = r.With(m); err != nil {
			t.Fatal(err)
		}
	}
	load := make([]int, 10)
	const keys = 100_000
	for key := range uint64(keys) {
		i := r.Lookup(key)
		if want := fresh.Lookup(key); i != want {
			t.Fatalf("after churn Lookup(%d) = %d, fresh %d", key, i, want)
		}
		load[i]++
	}
	if most := slices.Max(load); most > keys/10*105/100 {
		t.Errorf("fullest of 10 members has %d of %d keys, want at most 1.05 of the mean", most, keys)
	}
}

// C45: a retry goes to another member, and the key comes home afterwards.
func TestDefect_RetryOfTheSameMember(t *testing.T) {
	r := mustNew(t, fleet(5))
	for key := range uint64(100) {
		home := r.Lookup(key)
		for i := range r.Walk(key) {
			if i == home {
				continue // it refused the connection
			}
			if without, err := r.Without(r.Member(home).ID); err != nil || without.Member(without.Lookup(key)) != r.Member(i) {
				t.Errorf("second choice of key %d = %s, which is not its home without %s (%v)", key, r.Member(i).ID, r.Member(home).ID, err)
			}
			break
		}
	}
}

func TestJump_IsGoJump(t *testing.T) {
	key := uint64(1)
	for range 2000 {
		key = key*6364136223846793005 + 1442695040888963407
		for _, n := range []int{-1, 0, 1, 2, 7, 8, 64, 1000, 1 << 20} {
			want := -1
			if n > 0 {
				want = int(jump.Hash(key, n))
			}
			if got := ring.Jump(key, n); got != want {
				t.Fatalf("Jump(%#x, %d) = %d, go-jump %d", key, n, got, want)
			}
		}
	}
}

func TestOrdinals_GrowAtTheEnd(t *testing.T) {
	for _, n := range []ring.Ordinals{1, 2, 8, 100} {
		for key := range uint64(2000) {
			small, large := n.Lookup(key), (n + 1).Lookup(key)
			if large != small && large != int(n) {
				t.Fatalf("key %d moved from %d to %d when %d joined", key, small, large, n)
			}
			order := n.AppendWalk(nil, key, int(n)+5)
			slices.Sort(order)
			if len(order) != int(n) || order[0] != 0 || order[n-1] != int(n)-1 || len(slices.Compact(order)) != int(n) {
				t.Fatalf("walk of %d over %d members = %v", key, n, order)
			}
		}
	}
	if got := ring.Ordinals(0).Lookup(1); got != -1 {
		t.Errorf("Ordinals(0).Lookup = %d, want -1", got)
	}
	if got := ring.Ordinals(-5).Len(); got != 0 {
		t.Errorf("Ordinals(-5).Len = %d, want 0", got)
	}
}
