package routertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
)

// TestPolicy checks what a pool relies on in a policy, whatever it prefers: an
// answer within range for any input, an error for no candidates, the same answer
// for the same input, no memory of the input, and use by many goroutines at once
// (run the test with -race).
func TestPolicy(t *testing.T, p balancer.Policy) {
	t.Helper()
	t.Run("no candidates", func(t *testing.T) {
		if c, err := p.Choose(&balancer.PickInfo{PromptTokens: 100}); err == nil {
			t.Errorf("Choose without candidates = %+v, want an error such as %v", c, balancer.ErrNoCandidates)
		} else if !errors.Is(err, balancer.ErrNoCandidates) {
			t.Logf("Choose without candidates = %v, which is not balancer.ErrNoCandidates", err)
		}
	})
	t.Run("one candidate", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 1))
		for range 200 {
			info := anyInfo(rng, 1)
			if c, err := p.Choose(info); err != nil || c.Index != 0 {
				t.Fatalf("Choose(%s) = %d, %v, want 0", describe(info), c.Index, err)
			}
		}
	})
	t.Run("any input", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(2, 1))
		for range 2000 {
			info := anyInfo(rng, 1+rng.IntN(40))
			c, err := p.Choose(info)
			if err != nil {
				t.Fatalf("Choose(%s): %v", describe(info), err)
			}
			if c.Index < 0 || c.Index >= len(info.Candidates) {
				t.Fatalf("Choose(%s) = %d", describe(info), c.Index)
			}
			if again, err := p.Choose(info); err != nil || again != c {
				t.Fatalf("Choose(%s) = %+v, then %+v, %v for the same input", describe(info), c, again, err)
			}
		}
	})
	t.Run("no memory of the input", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 1))
		for range 200 {
			info, kept := anyInfo(rng, 8), anyInfo(rng, 8)
			want, err := p.Choose(kept)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Choose(info); err != nil {
				t.Fatal(err)
			}
			*info = balancer.PickInfo{Candidates: append(info.Candidates[:0], kept.Candidates...)}
			if got, err := p.Choose(kept); err != nil || got != want {
				t.Fatalf("Choose(%s) = %+v, %v after other input, want %+v", describe(kept), got, err, want)
			}
		}
	})
	t.Run("many goroutines", func(t *testing.T) {
		var wg sync.WaitGroup
		for g := range uint64(8) {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(4, g))
				for range 200 {
					info := anyInfo(rng, 1+rng.IntN(10))
					if c, err := p.Choose(info); err != nil || c.Index < 0 || c.Index >= len(info.Candidates) {
						t.Errorf("Choose(%s) = %d, %v", describe(info), c.Index, err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// describe says of an input what may matter for a failure.
func describe(p *balancer.PickInfo) string {
	reports, fresh := 0, 0
	for i := range p.Candidates {
		if p.Candidates[i].Load.Report != nil {
			reports++
		}
		if p.Candidates[i].Load.Fresh {
			fresh++
		}
	}
	return fmt.Sprintf("%d candidates, %d with reports, %d of them fresh, a prompt of %d tokens", len(p.Candidates), reports, fresh, p.PromptTokens)
}

// anyInfo is input of all kinds: unknown, stale and absurd reports, loads from
// nothing to far too much.
func anyInfo(rng *rand.Rand, n int) *balancer.PickInfo {
	reports := []*loadstats.Report{
		nil, nil, {},
		{Running: loadstats.Known(rng.Int64N(300)), Waiting: loadstats.Known(rng.Int64N(1000)), KVCacheUsage: loadstats.Ratio(rng.Float64())},
		{Running: loadstats.Known(1 << 40)},
	}
	p := &balancer.PickInfo{
		PromptTokens: rng.IntN(50_000), MaxOutputTokens: rng.IntN(5000), Keyed: rng.IntN(3) > 0, Continues: rng.IntN(2) == 0,
		Branches: 20 * rng.Float64(), AllBranches: 200 * rng.Float64(), Seq: rng.Uint64(), Random: rng.Uint64(),
	}
	for i := range n {
		c := balancer.Candidate{ID: string(rune('a' + i)), Ordinal: i, Weight: 1 + rng.IntN(3)}
		if rng.IntN(2) == 0 {
			c.CachedTokens = rng.IntN(p.PromptTokens + 1)
		}
		c.Load.Report = reports[rng.IntN(len(reports))]
		c.Load.Fresh = c.Load.Report != nil && rng.IntN(2) == 0
		if rng.IntN(4) > 0 {
			c.Load.InFlight = rng.IntN(200)
			c.Load.PendingPrefills = rng.IntN(c.Load.InFlight + 1)
			c.Load.PendingPrefillTokens = c.Load.PendingPrefills * rng.IntN(30_000)
			c.Load.Backlog = rng.IntN(c.Load.PendingPrefillTokens + 1)
			c.Load.CapacityTokens = rng.IntN(2) * (1 + rng.IntN(500_000))
			c.Load.PinnedTokens = rng.IntN(c.Load.CapacityTokens + 100_000)
			c.Load.FailureShare = rng.Float64()
		}
		p.Candidates = append(p.Candidates, c)
	}
	return p
}
