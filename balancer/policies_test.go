package balancer_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
)

// candidates returns n idle endpoints in home order.
func candidates(n int) []balancer.Candidate {
	c := make([]balancer.Candidate, n)
	for i := range c {
		c[i] = balancer.Candidate{ID: string(rune('a' + i)), Ordinal: i, Weight: 1}
	}
	return c
}

var policies = map[string]balancer.Policy{
	"affinity": balancer.Affinity{}, "bounded_load": balancer.BoundedLoad{}, "least_load": balancer.LeastLoad{},
	"power_of_two": balancer.PowerOfTwo{}, "round_robin": balancer.RoundRobin{},
}

func choose(t *testing.T, p balancer.Policy, info *balancer.PickInfo) balancer.Choice {
	t.Helper()
	c, err := p.Choose(info)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPolicies_NoCandidates(t *testing.T) {
	for name, p := range policies {
		if _, err := p.Choose(&balancer.PickInfo{}); !errors.Is(err, balancer.ErrNoCandidates) {
			t.Errorf("%s without candidates: %v, want ErrNoCandidates", name, err)
		}
	}
}

func TestPolicies_AnyInputGivesAValidAnswerTwice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		info := randomInfo(rng)
		for name, p := range policies {
			got := choose(t, p, info)
			if got.Index < 0 || got.Index >= len(info.Candidates) || math.IsNaN(got.Cost.Total) {
				t.Fatalf("%s: choice %+v of %d candidates", name, got, len(info.Candidates))
			}
			if again := choose(t, p, info); again != got {
				t.Fatalf("%s: %+v, then %+v for the same input", name, got, again)
			}
		}
	}
}

func randomInfo(rng *rand.Rand) *balancer.PickInfo {
	info := &balancer.PickInfo{
		PromptTokens: rng.IntN(40_000), Keyed: rng.IntN(3) > 0, Continues: rng.IntN(2) == 0,
		Branches: rng.Float64() * 10, AllBranches: rng.Float64() * 100, Seq: rng.Uint64(), Random: rng.Uint64(),
		Candidates: candidates(1 + rng.IntN(20)),
	}
	reports := []*loadstats.Report{nil, {}, {Running: loadstats.Known(math.MaxInt32), Waiting: loadstats.Known(3)}, {KVCacheUsage: loadstats.Ratio(math.NaN())}}
	for i := range info.Candidates {
		c := &info.Candidates[i]
		c.Weight = 1 + rng.IntN(5)
		c.CachedTokens = rng.IntN(info.PromptTokens + 1)
		c.Load = loadstats.Load{
			InFlight: rng.IntN(50), Backlog: rng.IntN(50_000), PinnedTokens: rng.IntN(500_000), CapacityTokens: rng.IntN(2) * 400_000,
			FailureShare: rng.Float64(), Report: reports[rng.IntN(len(reports))], Fresh: rng.IntN(2) == 0,
		}
	}
	return info
}

func TestAffinity_Cost(t *testing.T) {
	info := &balancer.PickInfo{PromptTokens: 30_000, Keyed: true, Continues: true, Candidates: candidates(4)}
	set := func(i, cached, backlog, flying int) {
		info.Candidates[i].CachedTokens = cached
		info.Candidates[i].Load.Backlog, info.Candidates[i].Load.InFlight = backlog, flying
	}
	set(0, 0, 0, 0)
	set(1, 28_000, 4_000, 10)
	set(2, 10_000, 0, 0)
	set(3, 0, 0, 0)
	got := choose(t, balancer.Affinity{}, info)
	// One of four is busy: the price of recomputing is 1 + 10/4.
	want := balancer.Choice{
		Index: 1, Reason: balancer.Warm, NumOthers: 2,
		Cost: balancer.Cost{Total: 8_000, Backlog: 4_000, Own: 2_000, InFlight: 2_000},
		Others: [2]balancer.Ranked{
			{Index: 2, Cost: balancer.Cost{Total: 65_000, Own: 2_000, Recompute: 18_000 * 3.5}},
			{Index: 0, Cost: balancer.Cost{Total: 100_000, Own: 2_000, Recompute: 28_000 * 3.5}},
		},
	}
	if got != want {
		t.Errorf("Choose = %+v\nwant     %+v", got, want)
	}
}

func TestAffinity_WhatItWeighs(t *testing.T) {
	type change func(*balancer.PickInfo)
	warm := func(i, cached int) change {
		return func(p *balancer.PickInfo) { p.Candidates[i].CachedTokens = cached }
	}
	load := func(i int, l loadstats.Load) change {
		return func(p *balancer.PickInfo) { p.Candidates[i].Load = l }
	}
	unkeyed := func(p *balancer.PickInfo) { p.Keyed = false }
	branch := func(branches, all float64) change {
		return func(p *balancer.PickInfo) { p.Branches, p.AllBranches = branches, all }
	}
	reported := func(inFlight, running int) loadstats.Load {
		return loadstats.Load{InFlight: inFlight, Report: &loadstats.Report{Running: loadstats.Known(int64(running))}, Fresh: true}
	}
	queued := func(own, waiting int) loadstats.Load {
		return loadstats.Load{InFlight: own, PendingPrefills: own, Report: &loadstats.Report{Waiting: loadstats.Known(int64(waiting))}, Fresh: true}
	}
	absurd := loadstats.Load{Report: &loadstats.Report{Waiting: loadstats.Known(math.MaxInt64)}, Fresh: true}
	for _, c := range []struct {
		name    string
		changes []change
		want    int
		reason  balancer.Reason
	}{
		{"cold goes home", nil, 0, balancer.Cold},
		{"warm wins", []change{warm(2, 20_000)}, 2, balancer.Warm},
		{"deeper wins", []change{warm(1, 5_000), warm(2, 20_000)}, 2, balancer.Warm},
		{"a short queue is worth waiting for", []change{warm(2, 20_000), load(2, loadstats.Load{Backlog: 9_000})}, 2, balancer.Warm},
		{"a long one is not", []change{warm(2, 2_000), load(2, loadstats.Load{Backlog: 9_000})}, 0, balancer.Spillover},
		{"a busy home is left by a cold prompt", []change{load(0, loadstats.Load{InFlight: 5})}, 1, balancer.Spillover},
		{"no key goes by load", []change{unkeyed, load(0, loadstats.Load{InFlight: 5})}, 1, balancer.Balanced},
		{"memory that is not there counts", []change{warm(2, 20_000), load(2, loadstats.Load{PinnedTokens: 430_000, CapacityTokens: 400_000})}, 0, balancer.Spillover},
		{"unknown capacity does not", []change{warm(2, 20_000), load(2, loadstats.Load{PinnedTokens: 430_000})}, 2, balancer.Warm},
		{"a popular prefix is copied", []change{warm(2, 20_000), branch(30, 60), load(2, loadstats.Load{InFlight: 8})}, 0, balancer.Spillover},
		{"an unpopular one is not", []change{warm(2, 20_000), branch(1, 60), load(2, loadstats.Load{InFlight: 8})}, 2, balancer.Warm},
		{"a conversation is not", []change{warm(2, 20_000), branch(0, 60), load(2, loadstats.Load{InFlight: 8})}, 2, balancer.Warm},
		{"failing is not idle", []change{load(0, loadstats.Load{FailureShare: 0.5}), load(1, loadstats.Load{InFlight: 8})}, 2, balancer.Spillover},
		{"fresh reports of others count", []change{load(0, loadstats.Load{Report: &loadstats.Report{Running: loadstats.Known(9)}, Fresh: true})}, 1, balancer.Spillover},
		{"stale ones don't", []change{load(0, loadstats.Load{Report: &loadstats.Report{Running: loadstats.Known(9)}})}, 0, balancer.Cold},
		{"most of all those that wait", []change{load(0, reported(0, 4)), load(1, queued(0, 1)), load(2, queued(0, 1)), load(3, queued(0, 1))}, 0, balancer.Cold},
		{"but for our own", []change{load(0, queued(1, 1)), load(1, loadstats.Load{InFlight: 2}), load(2, loadstats.Load{InFlight: 2}), load(3, loadstats.Load{InFlight: 2})}, 0, balancer.Cold},
		{"but an exaggeration not much", []change{warm(2, 20_000), load(2, reported(0, 1000))}, 2, balancer.Warm},
		{"nor one of all but one", []change{warm(2, 3_000), load(0, reported(0, 1000)), load(1, reported(0, 2)), load(2, reported(2, 1000)), load(3, reported(0, 1000))}, 2, balancer.Warm},
		{"an absurd one of all leaves the rest its weight", []change{warm(2, 1_000), load(0, absurd), load(1, absurd), load(2, absurd), load(3, absurd)}, 2, balancer.Warm},
		{"all of them busy is no difference", []change{warm(2, 1_000), load(0, reported(0, 90)), load(1, reported(0, 90)), load(2, reported(0, 90)), load(3, reported(0, 90))}, 2, balancer.Warm},
		{"but a difference between busy ones counts", []change{warm(2, 500), load(0, reported(0, 40)), load(1, reported(0, 40)), load(2, reported(0, 44)), load(3, reported(0, 40))}, 0, balancer.Spillover},
		{"weight counts", []change{
			load(0, loadstats.Load{InFlight: 4}), load(1, loadstats.Load{InFlight: 4}), load(2, loadstats.Load{InFlight: 4}),
			load(3, loadstats.Load{InFlight: 8}), func(p *balancer.PickInfo) { p.Candidates[3].Weight = 4 },
		}, 3, balancer.Spillover},
		{"weight alone moves nobody", []change{func(p *balancer.PickInfo) { p.Candidates[3].Weight = 4 }}, 0, balancer.Cold},
	} {
		info := &balancer.PickInfo{PromptTokens: 24_000, Keyed: true, Continues: true, Candidates: candidates(4)}
		for _, f := range c.changes {
			f(info)
		}
		if got := choose(t, balancer.Affinity{}, info); got.Index != c.want || got.Reason != c.reason {
			t.Errorf("%s: chose %d by %v at %+v, want %d by %v", c.name, got.Index, got.Reason, got.Cost, c.want, c.reason)
		}
	}
}

func TestRoundRobin_TakesTurns(t *testing.T) {
	info := &balancer.PickInfo{Candidates: candidates(3)}
	info.Candidates[0], info.Candidates[2] = info.Candidates[2], info.Candidates[0] // home order is none of its business
	for seq := range uint64(9) {
		info.Seq = seq
		if got := info.Candidates[choose(t, balancer.RoundRobin{}, info).Index].Ordinal; got != int(seq%3) {
			t.Errorf("pick %d took ordinal %d, want %d", seq, got, seq%3)
		}
	}
}

func TestLeastLoad_SpreadsTies(t *testing.T) {
	for name, p := range map[string]balancer.Policy{"least_load": balancer.LeastLoad{}, "power_of_two": balancer.PowerOfTwo{}} {
		rng := rand.New(rand.NewPCG(2, 2))
		got := make([]int, 4)
		for range 4000 {
			got[choose(t, p, &balancer.PickInfo{Random: rng.Uint64(), Candidates: candidates(4)}).Index]++
		}
		for i, n := range got {
			if n < 850 || n > 1150 {
				t.Errorf("%s: candidate %d of 4 idle ones got %d of 4,000", name, i, n)
			}
		}
	}
}

func TestLeastLoad_ComparesByWeight(t *testing.T) {
	info := &balancer.PickInfo{Candidates: candidates(2)}
	info.Candidates[0].Load.InFlight = 2
	info.Candidates[1].Load.InFlight, info.Candidates[1].Weight = 5, 3
	if got := choose(t, balancer.LeastLoad{}, info).Index; got != 1 {
		t.Errorf("chose %d, want 1: (5+1)/3 is less than (2+1)/1", got)
	}
}

func TestBoundedLoad_FirstBelowTheBound(t *testing.T) {
	info := &balancer.PickInfo{Keyed: true, Candidates: candidates(4)}
	info.Candidates[0].Load.InFlight = 3
	info.Candidates[1].Load.InFlight = 2
	// ceil(1.25·6/4) = 2: the first two are at it.
	if got := choose(t, balancer.BoundedLoad{}, info); got.Index != 2 || got.Reason != balancer.Spillover {
		t.Errorf("chose %d by %v, want 2 by spillover", got.Index, got.Reason)
	}
}

func TestBound_Limit(t *testing.T) {
	for _, c := range []struct {
		bound             balancer.Bound
		total, weight, of int
		want              int
	}{
		{balancer.Bound{Factor: 1.25}, 100, 1, 4, 32}, // ceil(31.56)
		{balancer.Bound{Factor: 1.25}, 59, 1, 300, 1}, // below one each
		{balancer.Bound{Factor: 1.25}, 3, 1, 5, 1},    // exactly 1
		{balancer.Bound{Factor: 1.25, Gap: 4}, 3, 1, 4, 5},
		{balancer.Bound{Factor: 2}, 9, 3, 10, 6},
		{balancer.Bound{}, 9, 3, 10, math.MaxInt},
		{balancer.Bound{Factor: 2}, 9, 3, 0, math.MaxInt},
	} {
		if got := c.bound.Limit(c.total, c.weight, c.of); got != c.want {
			t.Errorf("%+v.Limit(%d, %d, %d) = %d, want %d", c.bound, c.total, c.weight, c.of, got, c.want)
		}
	}
}

func TestPolicies_AllocateNothing(t *testing.T) {
	info := randomInfo(rand.New(rand.NewPCG(3, 3)))
	for name, p := range policies {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := p.Choose(info); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func TestReason_Text(t *testing.T) {
	for r, want := range map[balancer.Reason]string{balancer.Balanced: "balanced", balancer.Duplicate: "duplicate", 99: "unknown"} {
		if got := r.String(); got != want {
			t.Errorf("Reason(%d) = %s, want %s", r, got, want)
		}
	}
}

func BenchmarkAffinity(b *testing.B) {
	info := &balancer.PickInfo{PromptTokens: 30_000, Keyed: true, Candidates: candidates(64)}
	info.Candidates[5].CachedTokens = 28_000
	for i := range info.Candidates {
		info.Candidates[i].Load = loadstats.Load{InFlight: i % 7, Backlog: i * 10, CapacityTokens: 400_000}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (balancer.Affinity{}).Choose(info); err != nil {
			b.Fatal(err)
		}
	}
}

// A bound larger than any number of requests is none.
func TestBound_HugeValuesDontOverflow(t *testing.T) {
	for _, b := range []balancer.Bound{{Factor: 1e300}, {Factor: 3, Gap: 1e300}, {Factor: math.MaxFloat64, Gap: math.MaxFloat64}} {
		if got := b.Limit(10, 1, 2); got != math.MaxInt {
			t.Errorf("%+v.Limit(10, 1, 2) = %d, want no limit", b, got)
		}
	}
}

// Turns go over the endpoints of the pool, whichever of them may be chosen.
func TestRoundRobin_PassesOverWhoIsMissing(t *testing.T) {
	info := &balancer.PickInfo{Candidates: candidates(4)}
	info.Candidates = []balancer.Candidate{info.Candidates[3], info.Candidates[0]}
	for seq, want := range []int{0, 3, 3, 3, 0} {
		info.Seq = uint64(seq)
		if got := info.Candidates[choose(t, balancer.RoundRobin{}, info).Index].Ordinal; got != want {
			t.Errorf("turn %d with ordinals 0 and 3: took %d, want %d", seq, got, want)
		}
	}
}

// The two are distinct: of two candidates it is always the less loaded.
func TestPowerOfTwo_ComparesTwo(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	info := &balancer.PickInfo{Candidates: candidates(2)}
	info.Candidates[0].Load.InFlight = 1
	for range 100 {
		info.Random = rng.Uint64()
		if got := choose(t, balancer.PowerOfTwo{}, info).Index; got != 1 {
			t.Fatalf("chose %d for random %x, want the idle one", got, info.Random)
		}
	}
}

// Of idle endpoints the heavier one is less loaded by the next request.
func TestLeastLoad_CountsTheRequestToPlace(t *testing.T) {
	info := &balancer.PickInfo{Candidates: candidates(3)}
	info.Candidates[1].Weight = 3
	for random := range uint64(3) {
		info.Random = random
		if got := choose(t, balancer.LeastLoad{}, info).Index; got != 1 {
			t.Errorf("chose %d of idle ones, want the heavy one", got)
		}
	}
}

func TestBoundedLoad_WithoutAKeyOrWithoutRoom(t *testing.T) {
	info := &balancer.PickInfo{Candidates: candidates(3)}
	info.Candidates[0].Load.InFlight, info.Candidates[2].Load.InFlight = 1, 3 // the bound is 3
	if got := choose(t, balancer.BoundedLoad{}, info); got.Index != 1 || got.Reason != balancer.Balanced {
		t.Errorf("no key: chose %d by %v, want the least loaded by balanced", got.Index, got.Reason)
	}
	info.Keyed, info.Random = true, 1
	for i := range info.Candidates { // each is at the mean of 4, which a factor below 1 does not raise
		info.Candidates[i].Load.InFlight = 4
	}
	if got := choose(t, balancer.BoundedLoad{Bound: balancer.Bound{Factor: 0.1}}, info); got.Index != 1 || got.Reason != balancer.Spillover {
		t.Errorf("no room: chose %d by %v, want the least loaded by spillover", got.Index, got.Reason)
	}
	info.Candidates[0].CachedTokens = 100
	info.Candidates[0].Load.InFlight = 0
	if got := choose(t, balancer.BoundedLoad{}, info); got.Index != 0 || got.Reason != balancer.Warm {
		t.Errorf("room at home: chose %d by %v, want home by warm", got.Index, got.Reason)
	}
}

// The constants can be set, or switched off, for ablation.
func TestAffinity_Constants(t *testing.T) {
	info := &balancer.PickInfo{PromptTokens: 30_000, Keyed: true, Continues: true, Candidates: candidates(2)}
	info.Candidates[0].CachedTokens = 20_000
	info.Candidates[0].Load.Backlog = 4_000 // one of two is busy
	info.Candidates[1].Load.InFlight = 3
	for _, c := range []struct {
		policy              balancer.Affinity
		recompute, inFlight float64
	}{
		{balancer.Affinity{}, 20_000 * (1 + 10.0/2), 600},
		{balancer.Affinity{Pressure: 2, Sharing: 50}, 20_000 * 2, 150},
		{balancer.Affinity{Pressure: -1, Sharing: -1}, 20_000, 0},
	} {
		got := choose(t, c.policy, info).Others[0]
		if got.Index != 1 || got.Cost.Recompute != c.recompute || got.Cost.InFlight != c.inFlight {
			t.Errorf("%+v: the other one costs %+v, want %v to recompute and %v in flight", c.policy, got.Cost, c.recompute, c.inFlight)
		}
	}
}
