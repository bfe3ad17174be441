package ring_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/warmroute/warmroute/ring"
)

func mustNew(tb testing.TB, members []ring.Member) *ring.Ring {
	tb.Helper()
	r, err := ring.New(members)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// homes maps keys to the IDs of their homes.
func homes(r *ring.Ring, keys int) []string {
	ids := make([]string, keys)
	for key := range ids {
		ids[key] = r.Member(r.Lookup(uint64(key))).ID
	}
	return ids
}

// walkIDs returns the IDs of the first n members of a key's order.
func walkIDs(r *ring.Ring, key uint64, n int) []string {
	var ids []string
	for _, i := range r.AppendWalk(nil, key, n) {
		ids = append(ids, r.Member(i).ID)
	}
	return ids
}

func randomMembers(rng *rand.Rand, n int) []ring.Member {
	members := make([]ring.Member, n)
	for i := range members {
		members[i] = ring.Member{ID: fmt.Sprintf("m%d", i), Weight: rng.IntN(5)}
	}
	return members
}

func TestRing_OrderAndHistoryDoNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 2, 5, 20, 300} {
		members := randomMembers(rng, n)
		want := mustNew(t, members)
		rng.Shuffle(n, func(i, j int) { members[i], members[j] = members[j], members[i] })
		shuffled := mustNew(t, members)
		grown := mustNew(t, nil)
		var err error
		for _, m := range members {
			if grown, err = grown.With(ring.Member{ID: "visitor", Weight: 1 + rng.IntN(3)}); err != nil {
				t.Fatal(err)
			}
			if grown, err = grown.With(ring.Member{ID: m.ID, Weight: rng.IntN(9)}); err != nil {
				t.Fatal(err)
			}
			if grown, err = grown.With(m); err != nil {
				t.Fatal(err)
			}
			if grown, err = grown.Without("visitor"); err != nil {
				t.Fatal(err)
			}
		}
		for key := range uint64(5000) {
			w := want.AppendWalk(nil, key, 8)
			for name, r := range map[string]*ring.Ring{"shuffled": shuffled, "grown": grown} {
				if got := r.AppendWalk(nil, key, 8); !slices.Equal(got, w) {
					t.Fatalf("%d members, %s: AppendWalk(%d) = %v, want %v", n, name, key, got, w)
				}
			}
		}
	}
}

func TestRing_RemovalMovesOnlyItsKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, n := range []int{2, 9, 64, 256} {
		members := fleet(n)
		before := mustNew(t, members)
		gone := members[rng.IntN(n)].ID
		after, err := before.Without(gone)
		if err != nil {
			t.Fatal(err)
		}
		old, now := homes(before, 20_000), homes(after, 20_000)
		moved, owned := 0, 0
		for key := range old {
			if old[key] == gone {
				owned++
				if next := walkIDs(before, uint64(key), 2)[1]; now[key] != next {
					t.Fatalf("%d members: key %d of the removed went to %s, want its second choice %s", n, key, now[key], next)
				}
			}
			if old[key] != now[key] {
				moved++
			}
		}
		if moved != owned || owned == 0 {
			t.Errorf("%d members: removal moved %d keys, the member had %d", n, moved, owned)
		}
		back, err := after.With(ring.Member{ID: gone, Weight: 1})
		if err != nil {
			t.Fatal(err)
		}
		if got := homes(back, 20_000); !slices.Equal(got, old) {
			t.Errorf("%d members: a member that came back has other keys than before", n)
		}
	}
}

func TestRing_WeightChangeMovesOnlyKeysOfTheMember(t *testing.T) {
	members := fleet(20)
	before := mustNew(t, members)
	heavy, err := before.With(ring.Member{ID: members[3].ID, Weight: 3})
	if err != nil {
		t.Fatal(err)
	}
	if got := before.Member(3); got != members[3] {
		t.Fatalf("With changed its ring: Member(3) = %v, want %v", got, members[3])
	}
	gained := 0
	old, now := homes(before, 50_000), homes(heavy, 50_000)
	for key := range old {
		if old[key] != now[key] {
			gained++
			if now[key] != members[3].ID {
				t.Fatalf("key %d moved from %s to %s when %s got heavier", key, old[key], now[key], members[3].ID)
			}
		}
	}
	// It had 1/20 and should have 3/22 of the keys.
	if want := 50_000 * (3.0/22 - 1.0/20); float64(gained) < 0.9*want || float64(gained) > 1.1*want {
		t.Errorf("weight 3 gained %d keys, want about %.0f", gained, want)
	}
}

func TestRing_WalkVisitsEachMemberOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, n := range []int{1, 2, 3, 4, 5, 17, 100, 5000} {
		members := randomMembers(rng, n)
		r := mustNew(t, members)
		placed := 0
		for i := range r.Len() {
			if r.Member(i).Weight > 0 {
				placed++
			}
		}
		for range 20 {
			key := rng.Uint64()
			seen := map[int]bool{}
			var order []int
			for i := range r.Walk(key) {
				if seen[i] || r.Member(i).Weight == 0 {
					t.Fatalf("%d members: Walk(%d) came to %d twice or without weight", n, key, i)
				}
				seen[i] = true
				order = append(order, i)
			}
			if len(order) != placed {
				t.Errorf("%d members: Walk(%d) visited %d, want %d", n, key, len(order), placed)
			}
			if placed > 0 && order[0] != r.Lookup(key) {
				t.Errorf("%d members: Walk(%d) begins with %d, Lookup = %d", n, key, order[0], r.Lookup(key))
			}
			for _, most := range []int{-1, 0, 1, 3, 4, 5, 9} {
				got := r.AppendWalk([]int{-7}, key, most)
				want := append([]int{-7}, order[:min(len(order), max(most, 0))]...)
				if !slices.Equal(got, want) {
					t.Fatalf("%d members: AppendWalk(%d, %d) = %v, want %v", n, key, most, got, want)
				}
			}
		}
	}
}

// Beside a member that takes nearly every draw, the walk comes to the others by
// turns, which begin elsewhere for each slot.
func TestRing_WalkBesideAGiantSpreads(t *testing.T) {
	members := fleet(50)
	members[7].Weight = ring.MaxWeight
	r := mustNew(t, members)
	times := make([]int, 50)
	const keys = 5000
	for key := range uint64(keys) {
		order := r.AppendWalk(nil, key, 5)
		times[order[4]]++
	}
	for i, n := range times {
		if i != 7 && (n < keys/50/2 || n > keys/50*3) {
			t.Errorf("member %d is the fifth choice of %d keys of %d, want between half and three times the mean", i, n, keys)
		}
	}
}

func TestRing_WeightsAreShares(t *testing.T) {
	members := fleet(64)
	total := 0
	for i := range members {
		members[i].Weight = 1 + i%4
		total += members[i].Weight
	}
	r := mustNew(t, members)
	const keys = 400_000
	group := map[int]int{}
	for key := range uint64(keys) {
		group[r.Member(r.Lookup(key)).Weight]++
	}
	for w := 1; w <= 4; w++ {
		want := float64(keys) * 16 * float64(w) / float64(total)
		if got := float64(group[w]); got < 0.97*want || got > 1.03*want {
			t.Errorf("members of weight %d have %.0f keys, want %.0f within 3 %%", w, got, want)
		}
	}
}

// TestRing_Golden pins the placement: a change here empties the caches of
// running fleets and belongs into the changelog as "Placement changed".
func TestRing_Golden(t *testing.T) {
	r := mustNew(t, []ring.Member{{ID: "a", Weight: 1}, {ID: "b", Weight: 2}, {ID: "c", Weight: 1}, {ID: "d", Weight: 3}, {ID: "e", Weight: 1}, {ID: "f", Weight: 1}})
	for key, want := range goldenWalks {
		if got := fmt.Sprint(walkIDs(r, key, 6)); got != want {
			t.Errorf("walk of %#x = %s, want %s", key, got, want)
		}
	}
	var sum uint64
	big := mustNew(t, fleet(1024))
	for key := range uint64(100_000) {
		for _, i := range big.AppendWalk(nil, key, 6) {
			sum = sum*1099511628211 + uint64(i)
		}
	}
	if sum != goldenSum {
		t.Errorf("sum of 100,000 walks over 1,024 members = %#x, want %#x", sum, uint64(goldenSum))
	}
	for u, want := range map[uint64]uint64{0: goldenLog0, 1 << 63: goldenLogHalf, 0x123456789abcdef0: goldenLogSome, 1<<64 - 1: 0} {
		if got := ring.NegLog(u); got != want {
			t.Errorf("negLog(%#x) = %#x, want %#x", u, got, want)
		}
	}
}

// Readers that touch a slot at the same time see one ranking.
func TestRing_ConcurrentFirstTouchesAgree(t *testing.T) {
	for _, n := range []int{8, 100, 300} { // one for each size of an entry
		r, want := mustNew(t, fleet(n)), mustNew(t, fleet(n))
		const keys, routines = 20_000, 4
		var walks [routines][]int
		var wg sync.WaitGroup
		for g := range routines {
			wg.Go(func() {
				for key := range uint64(keys) {
					walks[g] = r.AppendWalk(walks[g], key, 4)
				}
			})
		}
		wg.Wait()
		var order []int
		for key := range uint64(keys) {
			order = want.AppendWalk(order, key, 4)
		}
		for g := range routines {
			if !slices.Equal(walks[g], order) {
				t.Errorf("%d members: goroutine %d saw other rankings than one alone", n, g)
			}
		}
	}
}

func TestRing_LookupAndWalkDoNotAllocate(t *testing.T) {
	r := warm(t, 1024)
	b, err := r.Bound(ring.LoadBound{})
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]int, 0, 64)
	key := uint64(0)
	sum := 0
	for name, f := range map[string]func(){
		"Lookup":         func() { sum += r.Lookup(key); key++ },
		"AppendWalk(4)":  func() { dst = r.AppendWalk(dst[:0], key, 4); key++ },
		"AppendWalk(64)": func() { dst = r.AppendWalk(dst[:0], key, 64); key++ },
		"Walk": func() {
			for i := range r.Walk(key) {
				if i%16 == 0 {
					break
				}
			}
			key++
		},
		"Ordinals.Lookup":     func() { sum += ring.Ordinals(1024).Lookup(key); key++ },
		"Ordinals.AppendWalk": func() { dst = ring.Ordinals(1024).AppendWalk(dst[:0], key, 64); key++ },
		"Acquire and Release": func() {
			if err := b.Release(b.Acquire(key)); err != nil {
				t.Error(err)
			}
			key++
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	_ = sum
}
