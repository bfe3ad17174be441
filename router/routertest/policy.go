package routertest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
)

// TestPolicy checks what a pool relies on in a policy, whatever it prefers:
//
//   - No candidates give an error that is balancer.ErrNoCandidates.
//   - Candidates give a choice among them, whatever their loads: without reports,
//     with stale or absurd ones, idle or far too full.
//   - The alternatives it names, if any, are other candidates; no cost is NaN.
//   - The same input gives the same choice, again and from many goroutines at once
//     (run the test with -race), so the policy remembers nothing.
//   - The input is left as it is: the pool has its own endpoints in the order of
//     the candidates, and reports are shared by all picks.
func TestPolicy(t *testing.T, p balancer.Policy) {
	t.Helper()
	for _, l := range laws() {
		t.Run(l.name, func(t *testing.T) {
			if err := l.check(p); err != nil {
				t.Error(err)
			}
		})
	}
}

// law is something that holds for every policy.
type law struct {
	name  string
	check func(balancer.Policy) error
}

func laws() []law {
	return []law{
		{"no candidates", noCandidates},
		{"one candidate", func(p balancer.Policy) error { return forInputs(1, 200, 1, p, choosesWell) }},
		{"any candidates", func(p balancer.Policy) error { return forInputs(2, 2000, 40, p, choosesWell) }},
		{"many candidates", func(p balancer.Policy) error { return forInputs(6, 3, 1024, p, choosesWell) }},
		{"input unchanged", func(p balancer.Policy) error { return forInputs(3, 500, 20, p, leavesInput) }},
		{"no memory", func(p balancer.Policy) error { return forInputs(4, 500, 20, p, remembersNothing) }},
		{"many goroutines", manyGoroutines},
	}
}

func noCandidates(p balancer.Policy) error {
	for _, info := range []*balancer.PickInfo{{}, {PromptTokens: 100, Keyed: true, Seq: 7, Random: 1 << 63}} {
		if c, err := p.Choose(info); !errors.Is(err, balancer.ErrNoCandidates) {
			return fmt.Errorf("of no candidates Choose makes %+v, %v, want balancer.ErrNoCandidates", c, err)
		}
	}
	return nil
}

// forInputs checks a policy with seeded inputs of 1 to most candidates.
func forInputs(seed uint64, times, most int, p balancer.Policy, check func(balancer.Policy, *balancer.PickInfo, *rand.Rand) error) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	for range times {
		if err := check(p, anyInfo(rng, 1+rng.IntN(most)), rng); err != nil {
			return err
		}
	}
	return nil
}

func choosesWell(p balancer.Policy, info *balancer.PickInfo, _ *rand.Rand) error {
	c, err := p.Choose(info)
	n := len(info.Candidates)
	switch {
	case err != nil:
		return fmt.Errorf("Choose(%s): %w", describe(info), err)
	case c.Index < 0 || c.Index >= n:
		return fmt.Errorf("Choose(%s) = candidate %d, want 0 to %d", describe(info), c.Index, n-1)
	case c.NumOthers < 0 || c.NumOthers > min(len(c.Others), n-1):
		return fmt.Errorf("Choose(%s) names %d other candidates", describe(info), c.NumOthers)
	case !isCost(c.Cost):
		return fmt.Errorf("Choose(%s) costs %+v", describe(info), c.Cost)
	}
	named := []int{c.Index}
	for _, o := range c.Others[:c.NumOthers] {
		if o.Index < 0 || o.Index >= n || slices.Contains(named, o.Index) || !isCost(o.Cost) {
			return fmt.Errorf("Choose(%s) = candidate %d and others %+v, want others of the %d", describe(info), c.Index, c.Others[:c.NumOthers], n)
		}
		named = append(named, o.Index)
	}
	return nil
}

func isCost(c balancer.Cost) bool {
	for _, v := range []float64{c.Total, c.Backlog, c.Own, c.Recompute, c.InFlight, c.Memory} {
		if math.IsNaN(v) {
			return false
		}
	}
	return true
}

func leavesInput(p balancer.Policy, info *balancer.PickInfo, _ *rand.Rand) error {
	before := *info
	before.Candidates = slices.Clone(info.Candidates)
	for i := range before.Candidates {
		if load := &before.Candidates[i].Load; load.Report != nil {
			report := *load.Report
			load.Report = &report
		}
	}
	if _, err := p.Choose(info); err != nil {
		return fmt.Errorf("Choose(%s): %w", describe(info), err)
	}
	if !reflect.DeepEqual(*info, before) {
		return fmt.Errorf("Choose(%s) changed its input", describe(info))
	}
	return nil
}

// remembersNothing compares choices before and after another one, whose input is
// overwritten as a pool does it.
func remembersNothing(p balancer.Policy, info *balancer.PickInfo, rng *rand.Rand) error {
	want, err := p.Choose(info)
	if err != nil {
		return fmt.Errorf("Choose(%s): %w", describe(info), err)
	}
	other := anyInfo(rng, len(info.Candidates))
	if _, err := p.Choose(other); err != nil {
		return fmt.Errorf("Choose(%s): %w", describe(other), err)
	}
	for i := range other.Candidates {
		other.Candidates[i] = balancer.Candidate{Load: loadstats.Load{InFlight: math.MaxInt32}}
	}
	*other = balancer.PickInfo{Candidates: other.Candidates[:0]}
	if got, err := p.Choose(info); err != nil || got != want {
		return fmt.Errorf("Choose(%s) = %+v, then %+v, %v for the same input", describe(info), want, got, err)
	}
	return nil
}

// manyGoroutines compares choices that are made at once with those made one after
// the other.
func manyGoroutines(p balancer.Policy) error {
	const goroutines, inputs = 8, 100
	rng := rand.New(rand.NewPCG(5, 1))
	infos := make([]*balancer.PickInfo, inputs)
	want := make([]balancer.Choice, inputs)
	for i := range infos {
		infos[i] = anyInfo(rng, 1+rng.IntN(20))
		var err error
		if want[i], err = p.Choose(infos[i]); err != nil {
			return fmt.Errorf("Choose(%s): %w", describe(infos[i]), err)
		}
	}
	errs := make([]error, goroutines)
	var wg sync.WaitGroup
	for g := range errs {
		wg.Go(func() {
			for i := range inputs {
				i = (i + g*inputs/goroutines) % inputs
				if got, err := p.Choose(infos[i]); err != nil || got != want[i] {
					errs[g] = fmt.Errorf("Choose(%s) = %+v, %v beside others, %+v before", describe(infos[i]), got, err, want[i])
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
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
		MaxOutputTokens: rng.IntN(2) * rng.IntN(5000), Keyed: rng.IntN(3) > 0,
		Branches: 20 * rng.Float64(), AllBranches: 20 + 200*rng.Float64(), Seq: rng.Uint64(), Random: rng.Uint64(),
	}
	if rng.IntN(4) > 0 {
		p.PromptTokens = rng.IntN(50_000)
	}
	for i := range n {
		c := balancer.Candidate{ID: fmt.Sprint("e", i), Ordinal: i, Weight: 1 + rng.IntN(3)}
		if p.Keyed && rng.IntN(2) == 0 {
			c.CachedTokens = rng.IntN(p.PromptTokens + 1)
		}
		c.Load.Report = reports[rng.IntN(len(reports))]
		c.Load.Fresh = c.Load.Report != nil && rng.IntN(2) == 0
		if rng.IntN(4) > 0 {
			c.Load = busy(rng, c.Load)
		}
		p.Candidates = append(p.Candidates, c)
	}
	rng.Shuffle(n, func(i, j int) { p.Candidates[i], p.Candidates[j] = p.Candidates[j], p.Candidates[i] })
	p.Continues = p.Deepest() > 0 && rng.IntN(2) == 0
	return p
}

// busy is the load of an endpoint that has something to do.
func busy(rng *rand.Rand, l loadstats.Load) loadstats.Load {
	l.InFlight = rng.IntN(200)
	l.SentSince = rng.IntN(l.InFlight + 1)
	l.PendingPrefills = rng.IntN(l.InFlight + 1)
	l.PendingPrefillTokens = l.PendingPrefills * rng.IntN(30_000)
	l.Backlog = rng.IntN(l.PendingPrefillTokens + 1)
	l.CapacityTokens = rng.IntN(2) * (1 + rng.IntN(500_000))
	l.PinnedTokens = rng.IntN(l.CapacityTokens + 100_000)
	l.CachedTokens = l.PinnedTokens + rng.IntN(100_000)
	l.PrefillRate = float64(rng.IntN(2)) * 20_000 * rng.Float64()
	l.FailureShare = rng.Float64()
	return l
}
