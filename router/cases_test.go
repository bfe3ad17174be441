package router_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
)

// The tests of this file are named for public reports about other routers:
// llm-d, vLLM's router, KubeAI, bifrost, higress and others.

// Phantom requests of clients that left.
func TestC01_AbandonedRequestsLeaveNothing(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(3)})
	for i := range uint64(100) {
		pick(t, p, router.Request{Prefix: prompt(i, 20)}).ReleaseAt(start, router.Outcome{Abandoned: true})
	}
	require.NoError(t, p.CheckInvariants(nil))
	for i := range uint64(30) {
		pick(t, p, router.Request{Prefix: prompt(1000+i, 20)})
	}
	for id, n := range inFlight(p) {
		if n < 4 || n > 18 {
			t.Errorf("%s has %d of 30 new prompts", id, n)
		}
	}
}

// Counters zeroed by health checks; here reports and membership updates.
func TestC02_NothingResetsTheCount(t *testing.T) {
	var table loadstats.Table
	p := newPool(t, router.Config{Endpoints: fleet(1), Reports: &table})
	for range 10 {
		pick(t, p, router.Request{})
	}
	for round := range 5 {
		table.Report("e0", loadstats.Report{At: start, Running: loadstats.Known(0), Waiting: loadstats.Known(0)})
		require.NoError(t, p.SetEndpointsAt(start, fleet(1)))
		if got := inFlight(p)["e0"]; got != 10 {
			t.Fatalf("round %d: %d in flight, want 10", round, got)
		}
	}
}

// A release that meets the new instance of an endpoint that left and came back.
func TestC03_LateReleaseTouchesTheOldGeneration(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1)})
	a := pick(t, p, router.Request{})
	require.NoError(t, p.SetEndpoints(nil))
	require.NoError(t, p.SetEndpoints(fleet(1)))
	load := func() int { return p.StatsAt(start)[0].Load.InFlight }
	if load() != 0 {
		t.Errorf("the new generation starts with %d", load())
	}
	b := pick(t, p, router.Request{})
	if load() != 1 {
		t.Errorf("%d after a pick, want 1", load())
	}
	a.ReleaseAt(start, router.Outcome{})
	if load() != 1 {
		t.Errorf("%d after the late release, want 1", load())
	}
	b.ReleaseAt(start, router.Outcome{})
	require.NoError(t, p.CheckInvariants(nil))
	if n := len(p.StatsAt(start)); n != 1 {
		t.Errorf("%d endpoints are visible, want 1", n)
	}
}

// Each chunk of a finished stream decremented again.
func TestC04_ReleaseHappensOnce(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1)})
	pick(t, p, router.Request{})
	d := pick(t, p, router.Request{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { d.Release(router.Outcome{}) })
	}
	wg.Wait()
	if got := inFlight(p)["e0"]; got != 1 {
		t.Errorf("%d in flight, want 1", got)
	}
}

// Per-request entries that never leave.
func TestC09_AbortsLeaveNoEntries(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(4), KVCacheTokens: 50_000})
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		s := signature(rng, nil, 5)
		pick(t, p, router.Request{Prefix: &s}).ReleaseAt(start, router.Outcome{Abandoned: true})
	}
	if n := p.Duplicates(); n != 0 {
		t.Errorf("%d prompts are remembered", n)
	}
	for _, s := range p.StatsAt(start) {
		if s.Load.CachedTokens > 50_000 {
			t.Errorf("%s: %d tokens in a shadow of 50,000", s.Endpoint.ID, s.Load.CachedTokens)
		}
	}
}

// An endpoint that fails within a millisecond has the lowest count and draws
// all traffic.
func TestC12_FastFailureIsNotIdleness(t *testing.T) {
	for name, policy := range map[string]balancer.Policy{"affinity": nil, "least_load": balancer.LeastLoad{}, "power_of_two": balancer.PowerOfTwo{}} {
		p := newPool(t, router.Config{Endpoints: fleet(3), Policy: policy})
		got := map[string]int{}
		type open struct {
			d  *router.Decision
			at time.Time
		}
		var streams []open
		now := start
		for range 1000 { // 100 a second
			now = now.Add(10 * time.Millisecond)
			for len(streams) > 0 && !streams[0].at.After(now) {
				streams[0].d.ReleaseAt(now, router.Outcome{StatusCode: 200})
				streams = streams[1:]
			}
			d := pick(t, p, router.Request{At: now})
			got[d.Endpoint.ID]++
			if d.Endpoint.ID == "e0" {
				d.ReleaseAt(now, router.Outcome{StatusCode: 500})
			} else {
				streams = append(streams, open{d, now.Add(200 * time.Millisecond)})
			}
		}
		if got["e0"] > 400 {
			t.Errorf("%s: the failing endpoint got %d of 1,000 requests", name, got["e0"])
		}
		require.NoError(t, p.SetEndpointsAt(now, fleet(4)))
		if d := pick(t, p, router.Request{At: now.Add(time.Hour)}); d.Candidates != 4 {
			t.Errorf("%s: a newcomer is no candidate", name)
		}
	}
}

// 300 endpoints, factor 1.25 and 60 requests with one key: the mean is below 1.
func TestC16_BoundRoundsUp(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(300), Policy: balancer.BoundedLoad{}, Bound: balancer.Bound{Factor: 1.25}})
	for range 60 {
		pick(t, p, router.Request{Key: "hot"})
	}
	used := 0
	for id, n := range inFlight(p) {
		if n > 1 {
			t.Errorf("%s has %d, want at most 1", id, n)
		}
		used += n
	}
	if used != 60 {
		t.Errorf("%d endpoints used, want 60", used)
	}
}

// On a miss the endpoint with the smallest cache was taken, however loaded.
func TestC19_MissGoesByLoad(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(2), Bound: balancer.Bound{Factor: -1}})
	only := func(id string) func(*router.Endpoint) bool {
		return func(e *router.Endpoint) bool { return e.ID == id }
	}
	for i := range uint64(20) {
		pick(t, p, router.Request{Prefix: prompt(i, 20), Eligible: only("e1")}).ReleaseAt(start, router.Outcome{})
	}
	for range 50 {
		pick(t, p, router.Request{Eligible: only("e0")})
	}
	if d := pick(t, p, router.Request{Prefix: prompt(99, 20)}); d.Endpoint.ID != "e1" {
		t.Errorf("a new prompt went to %v, want e1 with nothing in flight", d)
	}
}

// Gauges that read 0 while work is queued.
func TestC22_StaleZeroReportsDontHideOwnLoad(t *testing.T) {
	var table loadstats.Table
	p := newPool(t, router.Config{Endpoints: fleet(4), Reports: &table})
	for i := range 4 {
		table.Report(fmt.Sprint("e", i), loadstats.Report{At: start, Running: loadstats.Known(0), Waiting: loadstats.Known(0)})
	}
	for range 40 {
		pick(t, p, router.Request{})
	}
	for id, n := range inFlight(p) {
		if n != 10 {
			t.Errorf("%s has %d of 40, want 10", id, n)
		}
	}
}

// Two gateways: the effective load is the greater of own and reported, not the
// sum.
func TestC23_OthersLoadCounts(t *testing.T) {
	var table loadstats.Table
	p := newPool(t, router.Config{Endpoints: fleet(2), Policy: balancer.LeastLoad{}, Reports: &table})
	table.Report("e0", loadstats.Report{At: start, Running: loadstats.Known(8), Waiting: loadstats.Known(2)})
	table.Report("e1", loadstats.Report{At: start, Running: loadstats.Known(0), Waiting: loadstats.Known(0)})
	for i := range 10 {
		if d := pick(t, p, router.Request{}); d.Endpoint.ID != "e1" {
			t.Fatalf("request %d went to e0, which others keep busy", i)
		}
	}
	s := p.StatsAt(start)
	if got := s[0].Load.Requests(); got != 10 {
		t.Errorf("effective load of e0 = %d, want the reported 10", got)
	}
	if got := s[1].Load.Requests(); got != 10 {
		t.Errorf("effective load of e1 = %d, want the own 10", got)
	}
}

// A thousand conversations with one system prompt: spread, and each sticky.
func TestC26_ConversationsUnderOneSystemPrompt(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(8), KVCacheTokens: 4_000_000})
	rng := rand.New(rand.NewPCG(3, 3))
	system := prompt(1, 4).Blocks
	share := map[string]int{}
	moved := 0
	now := start
	for range 1000 {
		first := signature(rng, system, 3)
		first.SystemBlocks = 4
		now = now.Add(50 * time.Millisecond)
		d := pick(t, p, router.Request{Prefix: &first, At: now})
		share[d.Endpoint.ID]++
		d.FirstTokenAt(now)
		d.ReleaseAt(now, router.Outcome{})
		second := signature(rng, first.Blocks, 2)
		second.SystemBlocks, second.HistoryBlocks = 4, 7
		e := pick(t, p, router.Request{Prefix: &second, At: now})
		if e.Endpoint.ID != d.Endpoint.ID {
			moved++
		}
		defer e.ReleaseAt(now, router.Outcome{})
	}
	if moved > 20 {
		t.Errorf("%d of 1,000 second turns left their endpoint", moved)
	}
	for id, n := range share {
		if n > 400 {
			t.Errorf("%s has %d of 1,000 conversations", id, n)
		}
	}
	if len(share) != 8 {
		t.Errorf("conversations on %d of 8 endpoints", len(share))
	}
}

// A ratio bound fires on the noise of small counts; the gap keeps it quiet.
func TestC35_NoiseDoesNotMoveKeys(t *testing.T) {
	for _, mean := range []int{2, 5, 10, 50} {
		p := newPool(t, router.Config{Endpoints: fleet(8)})
		rng := rand.New(rand.NewPCG(uint64(mean), 1))
		var open []*router.Decision
		spilled, all := 0, 0
		for i := range 6000 {
			d := pick(t, p, router.Request{Key: fmt.Sprint("session ", rng.IntN(2000))})
			if i > 3000 {
				all++
				if d.CachedTokens < d.BestCachedTokens {
					spilled++
				}
			}
			d.FirstTokenAt(start)
			open = append(open, d)
			for len(open) > 8*mean {
				k := rng.IntN(len(open))
				open[k].ReleaseAt(start, router.Outcome{})
				open[k] = open[len(open)-1]
				open = open[:len(open)-1]
			}
		}
		if share := float64(spilled) / float64(all); share > 0.02 {
			t.Errorf("mean %d: %.1f %% of the requests left their endpoint, want at most 2 %%", mean, 100*share)
		}
	}
}

// Hard limits that the walk does not look at.
func TestC42_HardLimitFillsEveryone(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(10), MaxInFlight: 10})
	for range 100 {
		pick(t, p, router.Request{Key: "one"})
	}
	for id, n := range inFlight(p) {
		if n != 10 {
			t.Errorf("%s has %d, want 10", id, n)
		}
	}
	if _, err := p.Pick(router.Request{Key: "one"}); !errors.Is(err, router.ErrSaturated) {
		t.Errorf("the 101st: %v, want ErrSaturated", err)
	}
}

// Weight 0 drains; nothing divides by it.
func TestC44_WeightZeroDrains(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: []router.Endpoint{{ID: "a", Weight: 0}, {ID: "b", Weight: 1}}})
	for range 10 {
		if d := pick(t, p, router.Request{Key: "x"}); d.Endpoint.ID != "b" {
			t.Errorf("picked %s of weight 0", d.Endpoint.ID)
		}
	}
	require.NoError(t, p.SetEndpoints([]router.Endpoint{{ID: "a"}, {ID: "b"}}))
	if _, err := p.Pick(router.Request{}); !errors.Is(err, router.ErrNoEndpoints) {
		t.Errorf("all weights 0: %v, want ErrNoEndpoints", err)
	}
}

// A retry met the same failing endpoint; afterwards the key comes home.
func TestC45_RetryGoesElsewhere(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(4)})
	first := pick(t, p, router.Request{Key: "k"})
	first.ReleaseAt(start, router.Outcome{Err: errors.New("connection refused")})
	second := pick(t, p, router.Request{Key: "k", Exclude: []string{first.Endpoint.ID}})
	if second.Endpoint.ID == first.Endpoint.ID || second.HomeRank == 0 {
		t.Errorf("the retry: %v", second)
	}
	second.ReleaseAt(start, router.Outcome{Err: errors.New("connection refused")})
	fresh := pick(t, newPool(t, router.Config{Endpoints: fleet(4)}), router.Request{Key: "k"})
	if fresh.Endpoint.ID != first.Endpoint.ID {
		t.Errorf("home is %s in another gateway, was %s", fresh.Endpoint.ID, first.Endpoint.ID)
	}
	// Retries are bounded: ten at once, then one for ten first attempts.
	retries := 0
	for range 100 {
		if d, err := p.Pick(router.Request{Exclude: []string{"e0"}, At: start}); err == nil {
			d.ReleaseAt(start, router.Outcome{})
			retries++
		} else if !errors.Is(err, router.ErrRetryBudget) {
			t.Fatal(err)
		}
	}
	if retries != 9 {
		t.Errorf("%d retries in a row, want the 9 that are left", retries)
	}
	for range 20 {
		pick(t, p, router.Request{}).ReleaseAt(start, router.Outcome{})
	}
	pick(t, p, router.Request{Exclude: []string{"e0"}})
	pick(t, p, router.Request{Exclude: []string{"e0"}})
	if _, err := p.Pick(router.Request{Exclude: []string{"e0"}}); !errors.Is(err, router.ErrRetryBudget) {
		t.Errorf("a third retry after 20 first attempts: %v, want ErrRetryBudget", err)
	}
}

// Never scraped is not idle, stale is not full.
func TestC50C51_UnknownIsNeitherIdleNorFull(t *testing.T) {
	var table loadstats.Table
	p := newPool(t, router.Config{Endpoints: fleet(2), Policy: balancer.LeastLoad{}, Reports: &table})
	for range 4 { // two each
		pick(t, p, router.Request{})
	}
	table.Report("e1", loadstats.Report{At: start, Running: loadstats.Known(2), Waiting: loadstats.Known(1)})
	if d := pick(t, p, router.Request{}); d.Endpoint.ID != "e0" { // own count 2 against 3 reported
		t.Errorf("fresh report: picked %s, want e0 by its own count", d.Endpoint.ID)
	}
	late := start.Add(10 * time.Second) // the report is stale: own counts are 3 and 2
	if d := pick(t, p, router.Request{At: late}); d.Endpoint.ID != "e1" {
		t.Errorf("stale report: picked %s, want e1 by its own count", d.Endpoint.ID)
	}
	one := newPool(t, router.Config{Endpoints: fleet(1), Reports: &table})
	table.Report("e0", loadstats.Report{At: start, KVCacheUsage: loadstats.Ratio(1), Waiting: loadstats.Known(1000)})
	if d := pick(t, one, router.Request{At: late}); d.Endpoint.ID != "e0" {
		t.Errorf("the only endpoint is not used: %v", d)
	}
}

// Client errors opened the breaker everywhere; 429 is busy, not broken.
func TestC66_ClientErrorsDontOpenTheBreaker(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(2)})
	for _, status := range []int{400, 404, 422, 401, 499} {
		for range 50 {
			pick(t, p, router.Request{}).ReleaseAt(start, router.Outcome{StatusCode: status})
		}
	}
	for _, s := range p.StatsAt(start) {
		if s.Cooling || s.Busy || s.Load.FailureShare != 0 {
			t.Errorf("%s is punished for clients' errors: %+v", s.Endpoint.ID, s)
		}
	}
	d := pick(t, p, router.Request{})
	d.ReleaseAt(start, router.Outcome{StatusCode: 429, RetryAfter: 3 * time.Second})
	other := pick(t, p, router.Request{})
	if other.Endpoint.ID == d.Endpoint.ID {
		t.Errorf("%s asked to be left alone and was picked", d.Endpoint.ID)
	}
	other.ReleaseAt(start, router.Outcome{StatusCode: 503, RetryAfter: 2 * time.Second})
	var full *router.SaturatedError
	if _, err := p.Pick(router.Request{At: start}); !errors.As(err, &full) || full.RetryAfter != 2*time.Second {
		t.Errorf("all busy: %v, want to retry after the shorter of 3 s and 2 s", err)
	}
	pick(t, p, router.Request{At: start.Add(2500 * time.Millisecond)})
}

// A failing endpoint was picked first again on every request: it cools, then is
// probed once.
func TestC67_BreakerCoolsThenProbesOnce(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(2), Policy: balancer.RoundRobin{}})
	now := start
	fail := func(d *router.Decision) { d.ReleaseAt(now, router.Outcome{Err: errors.New("refused")}) }
	for range 10 {
		if d := pick(t, p, router.Request{At: now}); d.Endpoint.ID == "e0" {
			fail(d)
		} else {
			d.ReleaseAt(now, router.Outcome{})
		}
	}
	toFailing := func() (n int, last *router.Decision) {
		for range 10 {
			d := pick(t, p, router.Request{At: now})
			if d.Endpoint.ID == "e0" {
				n++
				last = d
			} else {
				d.ReleaseAt(now, router.Outcome{})
			}
		}
		return n, last
	}
	if n, _ := toFailing(); n != 0 {
		t.Errorf("%d requests to an endpoint that cools", n)
	}
	for _, cooling := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		now = now.Add(cooling - time.Millisecond)
		if n, _ := toFailing(); n != 0 {
			t.Errorf("%d requests before the end of a cooling of %v", n, cooling)
		}
		now = now.Add(time.Millisecond)
		n, probe := toFailing()
		if n != 1 {
			t.Fatalf("%d probes after %v, want 1", n, cooling)
		}
		fail(probe)
	}
	now = now.Add(8 * time.Second)
	_, probe := toFailing()
	probe.ReleaseAt(now, router.Outcome{StatusCode: 200})
	if n, _ := toFailing(); n != 5 {
		t.Errorf("%d of 10 requests after a probe that succeeded, want its turn of 5", n)
	}
	require.NoError(t, p.SetEndpointsAt(now, fleet(1)))
	for range 20 {
		fail(pick(t, p, router.Request{At: now})) // the only one is used, broken or not
	}
}

// Client-chosen keys obey the bound.
func TestC92_OneKeyForAllTrafficObeysTheBound(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(4), Bound: balancer.Bound{Factor: 1.25}, Policy: balancer.BoundedLoad{}})
	for range 100 { // C39: ceil(1.25·100/4) = 32
		pick(t, p, router.Request{Key: "the same for all"})
	}
	for id, n := range inFlight(p) {
		if n > 32 {
			t.Errorf("%s has %d of 100, want at most 32", id, n)
		}
	}
}

// A new pool is usable before any report or probe.
func TestC109_FirstPickBeforeAnyReport(t *testing.T) {
	var table loadstats.Table
	p := newPool(t, router.Config{Endpoints: fleet(2), Reports: &table})
	d := pick(t, p, router.Request{Prefix: prompt(1, 5)})
	d.ReleaseAt(start, router.Outcome{Err: errors.New("refused")})
	if again := pick(t, p, router.Request{Prefix: prompt(1, 5), Exclude: []string{d.Endpoint.ID}}); again.Endpoint.ID == d.Endpoint.ID {
		t.Errorf("the retry met %s again", d.Endpoint.ID)
	}
}
