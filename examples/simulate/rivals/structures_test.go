package rivals_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmroute/warmroute/examples/simulate/rivals"
)

var epoch = time.Unix(1_000_000, 0)

// prompt returns the chained hashes of a random prompt over a small alphabet, so
// that prompts share prefixes.
func prompt(rnd *rand.Rand) []uint64 {
	var blocks []uint64
	h := uint64(1)
	for range rnd.IntN(12) {
		h = h*31 + uint64(rnd.IntN(2)) + 7
		blocks = append(blocks, h)
	}
	return blocks
}

func TestTree_IsWhatWasSent(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var tree rivals.Tree
		last := make([]map[uint64]time.Time, 3) // by engine
		for i := range last {
			last[i] = map[uint64]time.Time{}
		}
		for step := range 100 {
			now := epoch.Add(time.Duration(step) * time.Second)
			blocks, e := prompt(rnd), rnd.IntN(3)
			if got := tree.Sent(blocks, e, now); got != len(blocks) {
				t.Fatalf("Sent(%d blocks) ends after %d", len(blocks), got)
			}
			for _, b := range blocks {
				last[e][b] = now
			}
			probe, since := prompt(rnd), now.Add(-time.Duration(rnd.IntN(60))*time.Second)
			for i := range last {
				want := 0
				for _, b := range probe {
					if at, ok := last[i][b]; !ok || at.Before(since) {
						break
					}
					want++
				}
				if got := tree.Matched(probe, i, since); got != want {
					t.Fatalf("step %d: Matched(%x, %d, %v) = %d, want %d", step, probe, i, since, got, want)
				}
				if got := tree.Size(i); got != len(last[i]) {
					t.Fatalf("step %d: Size(%d) = %d, want %d", step, i, got, len(last[i]))
				}
			}
		}
	}
}

func TestBlockIndex_ForgetsTheOldest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	capacities := []int{1, 5, 40}
	x := rivals.NewIndex(capacities...)
	held := make([][]uint64, len(capacities)) // oldest first
	for step := range 5000 {
		blocks, e := prompt(rnd), rnd.IntN(len(capacities))
		x.Add(e, blocks)
		for _, b := range blocks {
			if i := slices.Index(held[e], b); i >= 0 {
				held[e] = slices.Delete(held[e], i, i+1)
			}
			if held[e] = append(held[e], b); len(held[e]) > capacities[e] {
				held[e] = held[e][1:]
			}
		}
		probe := prompt(rnd)
		want := make([]int, len(capacities))
		for _, b := range probe {
			found := false
			for i := range held {
				if slices.Contains(held[i], b) {
					want[i]++
					found = true
				}
			}
			if !found {
				break
			}
		}
		if got := x.Matches(probe); !slices.Equal(got, want) {
			t.Fatalf("step %d: Matches(%x) = %d, want %d", step, probe, got, want)
		}
	}
	if got := x.Numbers(); got > 1+5+40+1 {
		t.Errorf("room for %d blocks, want at most one more than the 46 that fit", got)
	}
}
