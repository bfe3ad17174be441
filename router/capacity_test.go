package router_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// answered ends a request with so many of its prompt's tokens found cached.
func answered(d *router.Decision, at time.Time, cached int) {
	d.ReleaseAt(at, router.Outcome{
		StatusCode: 200, PromptTokens: loadstats.Known(int64(d.PromptTokens)), CachedTokens: loadstats.Known(int64(cached)),
	})
}

func cachedTokens(p *router.Pool, at time.Time) int { return p.StatsAt(at)[0].Load.CachedTokens }

// Of many requests in flight at a restart each finds nothing, and three are
// enough to know: the others must not throw away what was computed since.
func TestPool_RestartIsNoticedOnce(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1), KVCacheTokens: 4_000_000})
	at := start
	for i := range uint64(12) {
		answered(pick(t, p, router.Request{Prefix: prompt(i, 50), At: at}), at, 0)
		at = at.Add(time.Second)
	}
	var flying []*router.Decision
	for i := range uint64(12) {
		flying = append(flying, pick(t, p, router.Request{Prefix: prompt(i, 50), At: at}))
	}
	at = at.Add(time.Second)
	for i, d := range flying {
		if i == 3 {
			if got := cachedTokens(p, at); got != 0 {
				t.Fatalf("after three answers that found nothing %d tokens count as cached", got)
			}
			answered(pick(t, p, router.Request{Prefix: prompt(99, 50), At: at}), at, 0)
		}
		answered(d, at, 0)
	}
	if d := pick(t, p, router.Request{Prefix: prompt(99, 50), At: at}); d.CachedTokens != 50*256 {
		t.Errorf("%d tokens predicted of a prompt computed after the restart, want all", d.CachedTokens)
	}
}

// Three misses in a row, not three misses.
func TestPool_WhatWasFoundBetweenMisses(t *testing.T) {
	for name, found := range map[string]func(predicted int) int{
		"as predicted": func(n int) int { return n },
		"more":         func(n int) int { return n + 20*256 },
		"a part":       func(n int) int { return n / 2 },
	} {
		p := newPool(t, router.Config{Endpoints: fleet(1), KVCacheTokens: 4_000_000})
		at := start
		serve := func(s *tokenprefix.Signature, cached func(int) int) {
			at = at.Add(time.Second)
			d := pick(t, p, router.Request{Prefix: s, At: at})
			answered(d, at, cached(d.CachedTokens))
		}
		nothing := func(int) int { return 0 }
		for i := range uint64(10) {
			serve(prompt(i, 50), nothing)
		}
		serve(prompt(0, 100), nothing)
		serve(prompt(1, 100), nothing)
		serve(prompt(2, 100), found)
		serve(prompt(3, 100), nothing)
		if got := cachedTokens(p, at); got == 0 {
			t.Errorf("%s: two misses, a find and a miss count as a restart", name)
		}
		serve(prompt(4, 100), nothing)
		serve(prompt(5, 100), nothing)
		if got := cachedTokens(p, at); got != 0 {
			t.Errorf("%s: after three misses in a row %d tokens count as cached", name, got)
		}
	}
}

// An endpoint whose breaker opens may come back with nothing cached.
func TestPool_BreakerThatOpensForgets(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(2), KVCacheTokens: 4_000_000})
	pick(t, p, router.Request{Prefix: prompt(1, 50)}).ReleaseAt(start, router.Outcome{})
	home := pick(t, p, router.Request{Prefix: prompt(1, 50)})
	if home.CachedTokens != 50*256 {
		t.Fatalf("%v, want it warm", home)
	}
	for range 5 {
		pick(t, p, only(home.Endpoint.ID, start)).ReleaseAt(start, refused)
	}
	if d := pick(t, p, only(home.Endpoint.ID, start)); d.BestCachedTokens != 0 {
		t.Errorf("%d tokens are predicted on an endpoint that failed five times", d.BestCachedTokens)
	}
	home.ReleaseAt(start, router.Outcome{}) // its pin is of what was forgotten
	require.NoError(t, p.CheckInvariants(map[string]int{home.Endpoint.ID: 1}))
}

// The order of what is believed about the size: the endpoint's configuration,
// the pool's, the engine's report, what is learned.
func TestPool_WhoSaysHowLargeTheCacheIs(t *testing.T) {
	var table loadstats.Table
	report := func(tokens int64) {
		table.Report("e0", loadstats.Report{At: start, KVCacheTokens: loadstats.Known(tokens)})
	}
	configure := func(p *router.Pool, tokens int) {
		require.NoError(t, p.SetEndpointsAt(start, []router.Endpoint{{ID: "e0", Weight: 1, KVCacheTokens: tokens}}))
	}
	want := func(p *router.Pool, when string, tokens int) {
		t.Helper()
		pick(t, p, router.Request{}).ReleaseAt(start, router.Outcome{}) // reports are read by picks
		if got := p.StatsAt(start)[0].Load.CapacityTokens; got != tokens {
			t.Errorf("%s: capacity = %d, want %d", when, got, tokens)
		}
	}

	p := newPool(t, router.Config{Endpoints: fleet(1), Reports: &table})
	want(p, "nobody says", 256<<10)
	report(102_400)
	want(p, "reported", 102_400)
	report(51_200)
	want(p, "reported anew", 51_200)
	report(10)
	want(p, "reported absurdly", 51_200)
	configure(p, 204_800)
	want(p, "configured", 204_800)
	report(25_600)
	want(p, "configured and reported", 204_800)
	configure(p, 0)
	want(p, "configured no more", 25_600)

	p = newPool(t, router.Config{Endpoints: fleet(1), Reports: &table, KVCacheTokens: 409_600})
	want(p, "configured for all", 409_600)
	configure(p, 204_800)
	want(p, "configured for the endpoint and all", 204_800)
	configure(p, 0)
	want(p, "configured for all again", 409_600)
}

// Evidence moves a capacity that nobody knows, within bounds.
func TestPool_LearnedCapacityStaysWithinBounds(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1)})
	at := start
	for i := range uint64(300) { // always a fifth of what was predicted
		at = at.Add(time.Second)
		d := pick(t, p, router.Request{Prefix: prompt(i%3, 20), At: at})
		answered(d, at, d.CachedTokens/5)
	}
	if got := p.LearnedCapacity("e0"); got != 16<<10 {
		t.Errorf("learned %d tokens from an engine that loses nearly everything, want the minimum of 16,384", got)
	}
	for i := range uint64(3000) { // always more
		at = at.Add(time.Second)
		d := pick(t, p, router.Request{Prefix: prompt(i%1000, 100), At: at})
		answered(d, at, d.PromptTokens)
	}
	if got := p.LearnedCapacity("e0"); got < 2_000_000 || got > 1<<28 {
		t.Errorf("learned %d tokens from an engine that keeps 1,000 prompts of 25,600", got)
	}
}

// learner is a pool of one endpoint and its time.
type learner struct {
	t  *testing.T
	p  *router.Pool
	at time.Time
}

// serve sends a prompt, of which the answer finds a share of what was predicted,
// and returns what was predicted.
func (l *learner) serve(s *tokenprefix.Signature, share float64) int {
	l.at = l.at.Add(time.Second)
	d := pick(l.t, l.p, router.Request{Prefix: s, At: l.at})
	answered(d, l.at, int(share*float64(d.CachedTokens)))
	return d.CachedTokens
}

// A capacity that is known is not learned, and what was missing is believed all
// the same.
func TestPool_KnownCapacityIsNotLearned(t *testing.T) {
	l := learner{t, newPool(t, router.Config{Endpoints: fleet(1), KVCacheTokens: 512_000}), start}
	for i := range uint64(10) {
		l.serve(prompt(i, 100), 1)
	}
	l.serve(prompt(5, 100), 0.5)
	if got := l.p.LearnedCapacity("e0"); got != 512_000 {
		t.Errorf("capacity = %d, want 512,000 as configured", got)
	}
	if got := l.serve(prompt(4, 100), 1); got != 0 {
		t.Errorf("%d tokens predicted of a prompt that is older than one that was missing", got)
	}
	if got := l.serve(prompt(6, 100), 1); got != 25_600 {
		t.Errorf("%d tokens predicted of a prompt that is younger, want all", got)
	}
}

// lru is an engine's cache of prompts that share nothing, in blocks.
type lru struct {
	capacity, held int
	order          []uint64 // least recently used first
	blocks         map[uint64]int
}

// use returns how many blocks of a prompt are there, and puts all of it there.
func (c *lru) use(name uint64, blocks int) int {
	found := c.blocks[name]
	if i := slices.Index(c.order, name); i >= 0 {
		c.order = slices.Delete(c.order, i, i+1)
	}
	c.order = append(c.order, name)
	c.blocks[name] = blocks
	c.held += blocks - found
	for c.held > c.capacity {
		gone := min(c.held-c.capacity, c.blocks[c.order[0]])
		c.blocks[c.order[0]] -= gone
		c.held -= gone
		if c.blocks[c.order[0]] == 0 {
			delete(c.blocks, c.order[0])
			c.order = c.order[1:]
		}
	}
	return found
}

// believes starts learning at a capacity and returns what is believed after so many
// answers of an engine of 102,400 tokens, of which false tells some others.
func believes(t *testing.T, first, answers int, false func(rng *rand.Rand, prompt, cached int) int) int {
	p := newPool(t, router.Config{Endpoints: []router.Endpoint{{ID: "e0", Weight: 1, KVCacheTokens: first}}})
	require.NoError(t, p.SetEndpointsAt(start, fleet(1)))
	engine := lru{capacity: 400, blocks: map[uint64]int{}}
	rng := rand.New(rand.NewPCG(1, 2))
	at := start
	for range answers {
		at = at.Add(time.Second)
		name := min(rng.Uint64N(60), rng.Uint64N(60)) // some come more often than others
		d := pick(t, p, router.Request{Prefix: prompt(name, 20), MaxOutputTokens: 1, At: at})
		cached := engine.use(name, 20) * 256
		d.FirstTokenAt(at)
		answered(d, at, false(rng, d.PromptTokens, cached))
	}
	return p.LearnedCapacity("e0")
}

func TestPool_CapacityIsLearned(t *testing.T) {
	truth := func(_ *rand.Rand, _, cached int) int { return cached }
	for _, c := range []struct {
		name        string
		false       func(rng *rand.Rand, prompt, cached int) int
		least, most int // of a hundred
	}{
		{"all are true", truth, 90, 110},
		{"one in ten finds nothing", func(rng *rand.Rand, _, cached int) int {
			if rng.IntN(10) == 0 {
				return 0
			}
			return cached
		}, 85, 110},
		{"one in ten finds half", func(rng *rand.Rand, _, cached int) int {
			if rng.IntN(10) == 0 {
				return cached / 2
			}
			return cached
		}, 85, 110},
		{"one in fifty finds all", func(rng *rand.Rand, prompt, cached int) int {
			if rng.IntN(50) == 0 {
				return prompt
			}
			return cached
		}, 90, 130}, // these err upwards, a little at a time
	} {
		for _, first := range []int{25_600, 51_200, 102_400, 204_800, 1_024_000} {
			got := believes(t, first, 2000, c.false)
			t.Logf("%s, from %d: %d", c.name, first, got)
			if got < c.least*1024 || got > c.most*1024 {
				t.Errorf("%s: learned %d tokens from %d on, want %d to %d %% of 102,400", c.name, got, first, c.least, c.most)
			}
		}
	}
}

// As long as nothing was missing, what was believed first is not given up, and half
// as much again is believed as was proven.
func TestPool_CapacityIsUnproven(t *testing.T) {
	l := learner{t, newPool(t, router.Config{Endpoints: fleet(1)}), start}
	for i := range uint64(5) {
		l.serve(prompt(i, 100), 1)
	}
	l.serve(prompt(0, 100), 1) // needs 128,000 tokens
	if got := l.p.LearnedCapacity("e0"); got != 256<<10 {
		t.Errorf("capacity = %d, want it untouched", got)
	}
	for i := range uint64(10) {
		l.serve(prompt(i, 100), 1)
	}
	l.serve(prompt(0, 100), 1) // needs 256,000
	if got := l.p.LearnedCapacity("e0"); got < 370_000 || got > 384_000 {
		t.Errorf("capacity = %d, want half as much again as 256,000", got)
	}
}

// What was missing at an endpoint bounds those at which nothing was, but for what is
// proven of them.
func TestPool_CapacityOfOthers(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(2)})
	at := start
	serve := func(id string, seed uint64, share float64) {
		at = at.Add(time.Second)
		r := only(id, at)
		r.Prefix = prompt(seed, 100)
		d := pick(t, p, r)
		answered(d, at, int(share*float64(d.CachedTokens)))
	}
	for i := range uint64(6) {
		serve("e0", i, 1)
	}
	serve("e0", 0, 0.2) // it has less than 153,600 less 20,480
	for i := range uint64(3) {
		serve("e1", i, 1)
	}
	serve("e1", 0, 1)
	one, other := p.LearnedCapacity("e0"), p.LearnedCapacity("e1")
	if one > 133_120 || other > 133_120 || other < 76_800 {
		t.Errorf("capacities %d and %d, want at most 133,120, the second at least the 76,800 that it had", one, other)
	}
	for i := range uint64(7) {
		serve("e1", i, 1)
		serve("e1", 0, 1) // stays
	}
	if again := p.LearnedCapacity("e0"); again != one {
		t.Errorf("capacity = %d, want %d as before", again, one)
	}
}

// Answers that found nothing of what is being computed at the time prove nothing.
func TestPool_MissesOfWhatIsInUse(t *testing.T) {
	l := learner{t, newPool(t, router.Config{Endpoints: fleet(1)}), start}
	l.serve(prompt(1, 100), 1)
	long := pick(t, l.p, router.Request{Prefix: prompt(1, 100), At: l.at})
	for i := range uint64(5) {
		s := prompt(1, 100)
		s.Blocks = append(s.Blocks, i)
		s.Tokens, s.Tail = 101*256, i+1
		if got := l.serve(s, 0); got != 25_600 {
			t.Errorf("request %d: %d tokens predicted, want the whole prefix", i, got)
		}
	}
	long.ReleaseAt(l.at, router.Outcome{})
	if got := l.p.LearnedCapacity("e0"); got != 256<<10 {
		t.Errorf("capacity = %d, want it untouched", got)
	}
}

// A tenth is the border between a cache that lost a part and one that was emptied.
func TestPool_AlmostNothing(t *testing.T) {
	for _, c := range []struct {
		share   float64
		restart bool
	}{{0.05, true}, {0.2, false}} {
		l := learner{t, newPool(t, router.Config{Endpoints: fleet(1), KVCacheTokens: 4_000_000}), start}
		for i := range uint64(10) {
			l.serve(prompt(i, 100), 1)
		}
		for i := range uint64(3) {
			l.serve(prompt(i, 100), c.share)
		}
		if restart := l.serve(prompt(9, 100), 1) == 0; restart != c.restart {
			t.Errorf("three answers that found %v of what was predicted: taken for a restart: %v, want %v", c.share, restart, c.restart)
		}
	}
}
