package ring_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/warmroute/warmroute/ring"
)

// zipf draws keys by Zipf's law with exponent 1.1 over a million, as the
// measurements do that the bounds come from.
func zipf(seed uint64) func() uint64 {
	z := rand.NewZipf(rand.New(rand.NewPCG(seed, 1)), 1.1, 1, 1_000_000-1)
	return z.Uint64
}

// TestReport prints how evenly a ring places a million keys, what a membership
// change moves, and how a bounded walk does under Zipf's law; -v shows the
// table. What is promised is asserted.
func TestReport(t *testing.T) {
	const keys = 1_000_000
	t.Logf("%8s %6s | %8s %8s | %15s %15s | %10s %6s", "members", "slots", "max/mean", "min/mean", "removed: moved", "added: moved", "repeat hit", "probes")
	for _, c := range []struct {
		members, log int
		most         float64 // max/mean
		probes       float64 // of a bounded walk, on average
	}{{8, 16, 1.03, 2}, {64, 16, 1.10, 3}, {256, 16, 1.25, 5}, {1024, 18, 1.27, 14}, {4096, 18, 1.75, 50}} {
		if (testing.Short() || raceDetector) && c.members > 64 {
			continue
		}
		config := ring.Config{Slots: 1 << c.log}
		r, err := config.New(fleet(c.members))
		if err != nil {
			t.Fatal(err)
		}
		load := make([]int, c.members)
		home := make([]int32, keys)
		for key := range home {
			i := r.Lookup(uint64(key))
			home[key] = int32(i)
			load[i]++
		}
		mean := float64(keys) / float64(c.members)
		top, low := float64(slices.Max(load))/mean, float64(slices.Min(load))/mean
		if top > c.most {
			t.Errorf("%d members, 2^%d slots: max/mean = %.3f, want at most %.2f", c.members, c.log, top, c.most)
		}

		// Removing the last member in the order of IDs leaves the positions of
		// the others; adding it again is the same comparison the other way.
		last := c.members - 1
		less, err := r.Without(r.Member(last).ID)
		if err != nil {
			t.Fatal(err)
		}
		more, err := less.With(r.Member(last))
		if err != nil {
			t.Fatal(err)
		}
		removed, added := 0, 0
		for key := range home {
			without := int32(less.Lookup(uint64(key)))
			if without != home[key] {
				removed++
			}
			if int32(more.Lookup(uint64(key))) != without {
				added++
			}
		}
		if removed != load[last] || added != load[last] {
			t.Errorf("%d members: removing one moved %d keys, adding it %d; it owns %d", c.members, removed, added, load[last])
		}

		repeat, probes := boundedWalk(t, r, c.members)
		if repeat < 0.96 || probes > c.probes {
			t.Errorf("%d members under Zipf's law: %.3f of the repeated keys find a member that has served them, want 0.96; %.1f probes, want at most %.0f", c.members, repeat, probes, c.probes)
		}
		t.Logf("%8d %6s | %8.3f %8.3f | %7d = %5d %7d = %5d | %8.1f %% %6.1f", c.members, fmt.Sprintf("2^%d", c.log),
			top, low, removed, load[last], added, load[last], 100*repeat, probes)
	}
}

// boundedWalk places Zipf traffic with 16 in flight a member and random
// completion. It returns the share of repeated keys that went to a member that
// had served them before, and the mean rank of the chosen.
func boundedWalk(t *testing.T, r *ring.Ring, members int) (repeat, probes float64) {
	b, err := r.Bound(ring.LoadBound{Factor: 1.25})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 1))
	next := zipf(5)
	served := map[uint64][]int32{}
	var flying []int
	seen, hits, steps := 0, 0, 0
	const picks = 1_000_000
	for range picks {
		for len(flying) >= 16*members {
			k := rng.IntN(len(flying))
			if err := b.Release(flying[k]); err != nil {
				t.Fatal(err)
			}
			flying[k] = flying[len(flying)-1]
			flying = flying[:len(flying)-1]
		}
		key := next()
		i := b.Acquire(key)
		flying = append(flying, i)
		for m := range r.Walk(key) {
			steps++
			if m == i {
				break
			}
		}
		old := served[key]
		at := sort.Search(len(old), func(k int) bool { return old[k] >= int32(i) })
		if len(old) > 0 {
			seen++
		}
		if at < len(old) && old[at] == int32(i) {
			hits++
		} else {
			served[key] = slices.Insert(old, at, int32(i))
		}
	}
	return float64(hits) / float64(seen), float64(steps) / float64(picks)
}
