package ring_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmroute/warmroute/ring"
)

func capped(tb testing.TB, c ring.Config, members []ring.Member) *ring.Ring {
	tb.Helper()
	r, err := c.New(members)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func TestSlotCap_NobodyHasMoreSlots(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 1))
	for _, slotCap := range []float64{1, 1.05, 1.1, 3} {
		for _, n := range []int{1, 2, 4, 5, 100, 256} {
			members := fleet(n)
			for i := range members {
				members[i].Weight = rng.IntN(4)
			}
			members[0].Weight = 1
			total := 0
			for _, m := range members {
				total += m.Weight
			}
			r := capped(t, ring.Config{Slots: 1 << 12, SlotCap: slotCap}, members)
			held := make([]int, n)
			homes := ring.SlotHomes(r)
			for slot, i := range homes {
				if i < 0 {
					t.Fatalf("cap %v, %d members: slot %d has no home", slotCap, n, slot)
				}
				held[i]++
			}
			for i, m := range members {
				if most := slotCap*float64(len(homes)*m.Weight)/float64(total) + 1; float64(held[i]) >= most {
					t.Errorf("cap %v, %d members: member %d of weight %d of %d has %d slots of %d", slotCap, n, i, m.Weight, total, held[i], len(homes))
				}
			}
			free := capped(t, ring.Config{Slots: 1 << 12}, members)
			for key := range uint64(200) {
				order := r.AppendWalk(nil, key, n)
				// Behind the home come the members that are best without a cap.
				best := free.AppendWalk(nil, key, 4)
				best = slices.DeleteFunc(best, func(i int) bool { return i == order[0] })
				if next := order[1:min(4, len(order))]; !slices.Equal(next, best[:len(next)]) {
					t.Fatalf("cap %v, %d members: walk of %d = %v, want the home and then %v", slotCap, n, key, order, best)
				}
				if len(order) > 0 && order[0] != r.Lookup(key) {
					t.Fatalf("cap %v, %d members: walk of %d = %v, Lookup = %d", slotCap, n, key, order, r.Lookup(key))
				}
				slices.Sort(order)
				if len(slices.Compact(order)) != len(order) {
					t.Fatalf("cap %v, %d members: walk of %d comes to a member twice", slotCap, n, key)
				}
			}
		}
	}
}

func TestSlotCap_EqualsARebuildAndMovesLittle(t *testing.T) {
	c := ring.Config{SlotCap: 1.1}
	members := fleet(256)
	before := capped(t, c, members)
	after, err := before.Without(members[255].ID)
	if err != nil {
		t.Fatal(err)
	}
	old, now := ring.SlotHomes(before), ring.SlotHomes(after)
	if rebuilt := ring.SlotHomes(capped(t, c, members[:255])); !slices.Equal(now, rebuilt) {
		t.Error("capped ring after Without differs from a rebuilt one")
	}
	back, err := after.With(members[255])
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ring.SlotHomes(back), old) {
		t.Error("capped ring after Without and With differs from the first")
	}
	moved, owned := 0, 0
	for slot := range old {
		if old[slot] == 255 {
			owned++
		}
		if old[slot] != now[slot] {
			moved++
		}
	}
	t.Logf("removal moved %d slots, the member had %d", moved, owned)
	if moved > 2*owned {
		t.Errorf("removal moved %d slots, the member had %d; want at most twice that", moved, owned)
	}
}
