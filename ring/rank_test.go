package ring_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmroute/warmroute/ring"
)

// The bound that spares most members the logarithm, and the ranking that needs
// none, must not change any result.
func TestRank_IsThatOfASort(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	for name, weight := range map[string]func() int{
		"equal":      func() int { return 7 },
		"small":      func() int { return rng.IntN(4) },
		"wide":       func() int { return 1 << rng.IntN(21) },
		"one giant":  func() int { return 1 + (ring.MaxWeight-1)*(rng.IntN(30)/29) },
		"any number": func() int { return rng.IntN(ring.MaxWeight + 1) },
	} {
		for _, n := range []int{1, 3, 4, 5, 16, 255, 700} {
			members := make([]ring.Member, n)
			for i := range members {
				members[i] = ring.Member{ID: fmt.Sprint(name, i), Weight: weight()}
			}
			r := mustNew(t, members)
			for slot := range uint64(300) {
				own, weighted := ring.Ranked(r, slot)
				want := ring.RankedBySort(r, slot)
				if !slices.Equal(own, want) || !slices.Equal(weighted, want) {
					t.Fatalf("%s weights, %d members: slot %d ranks %v, weighted %v, want %v", name, n, slot, own, weighted, want)
				}
			}
		}
	}
}

func TestNegLog_IsTheLogarithmAndNeverRises(t *testing.T) {
	const unit = 1 << 58
	rng := rand.New(rand.NewPCG(12, 1))
	before, last := uint64(0), ring.NegLog(0)
	check := func(u uint64) {
		// 1-x of the hash as a fraction x, so that hashes near the top, the
		// winners, keep their digits.
		want := -math.Log1p(-float64(^u) / (1 << 64))
		if u < 1<<63 {
			want = -math.Log(float64(u+1) / (1 << 64))
		}
		got := ring.NegLog(u)
		if err := math.Abs(float64(got)/unit - want); err > 1.0/(1<<56)+want/(1<<51) {
			t.Fatalf("negLog(%#x) = %v, want %v, off by %v", u, float64(got)/unit, want, err)
		}
		if u > before && got > last {
			t.Fatalf("negLog(%#x) = %#x, but negLog(%#x) = %#x", u, got, before, last)
		}
		before, last = u, got
	}
	for k := range 64 {
		edge := uint64(1) << k
		for u := edge - min(edge, 50); u < edge+50; u++ {
			check(u)
		}
		check(^edge)
	}
	for range 100_000 {
		u := rng.Uint64() >> rng.IntN(64)
		check(u)
		check(u + 1)
		check(^u)
	}
	check(math.MaxUint64)
	if got := ring.NegLog(math.MaxUint64); got != 0 {
		t.Errorf("negLog of the largest hash = %d, want 0", got)
	}
}
