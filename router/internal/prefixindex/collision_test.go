package prefixindex_test

import (
	"math/rand/v2"
	"testing"

	"github.com/warmroute/warmroute/router/internal/prefixindex"
)

// Hashes that are not chained, as of a caller who hashes blocks one by one or of
// a client who looks for collisions, cost matches. They must not cost the books.
func TestIndex_SurvivesHashesThatCollide(t *testing.T) {
	for number := range uint64(500) {
		rng := rand.New(rand.NewPCG(1, number))
		x := prefixindex.New()
		slots := []*prefixindex.Slot{{}, {}}
		x.Join(slots[0], 40)
		x.Join(slots[1], 15)
		var pins []prefixindex.Pin
		var m prefixindex.Match
		for step := range 200 {
			now := int64(step)
			chain := make([]uint64, 1+rng.IntN(10))
			for i := range chain {
				chain[i] = uint64(rng.IntN(2 + int(number%8)))
			}
			slot := slots[rng.IntN(2)]
			if rng.IntN(4) > 0 { // else the match is one that is out of date
				x.Match(&m, chain, now)
			} else {
				other := []uint64{9}
				x.Match(&m, chain, now)
				x.Unpin(x.Pin(&m, slots[0], other, 0, now, false), now)
			}
			if d := m.Depth(slot); d > len(chain) {
				t.Fatalf("history %d, step %d: Depth = %d of %d blocks", number, step, d, len(chain))
			}
			pins = append(pins, x.Pin(&m, slot, chain, rng.IntN(3), now, rng.IntN(2) == 0))
			if len(pins) > 3 {
				x.Unpin(pins[0], now)
				pins = pins[1:]
			}
			if rng.IntN(40) == 0 {
				x.Disprove(slot, now-20)
			}
		}
		for _, p := range pins {
			x.Unpin(p, 200)
		}
		for i, s := range slots {
			if u := x.Usage(s); u.Pinned != 0 || u.Own != 0 || u.Blocks < 0 || u.Blocks > u.Capacity {
				t.Fatalf("history %d: slot %d at the end: %+v", number, i, u)
			}
			x.SetCapacity(s, 0)
			if u := x.Usage(s); u.Blocks != 0 {
				t.Fatalf("history %d: slot %d holds %d blocks without room for any", number, i, u.Blocks)
			}
		}
		if err := x.CheckInvariants(); err != nil {
			t.Fatalf("history %d: %v", number, err)
		}
	}
}

// Of two runs that begin with the same hash the older one goes without the
// younger one being lost.
func TestIndex_TheOlderOfTwoThatCollideGoes(t *testing.T) {
	f := newFleet(2, 100)
	f.serve(0, []uint64{1}, 1)
	f.serve(0, []uint64{1, 9}, 2)
	f.serve(1, []uint64{2}, 3)
	f.serve(1, []uint64{2, 9}, 4)
	f.Forget(f.slots[0])
	f.Match(&f.m, []uint64{2, 9}, 5)
	if f.m.Deepest != 2 {
		t.Errorf("Deepest = %d, want 2", f.m.Deepest)
	}
	if err := f.CheckInvariants(); err != nil {
		t.Error(err)
	}
}
