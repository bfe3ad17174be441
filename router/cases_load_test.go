package router_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
)

// Ten prefixes of unequal popularity on four endpoints that serve one request at
// a time, in 20 ms and what its prefill takes: affinity alone piles up the popular
// ones.
func TestC18_PopularPrefixesDontPileUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	hot := rand.NewZipf(rng, 1.2, 1, 9)
	type arrival struct {
		name  uint64
		after time.Duration
	}
	var order []arrival
	for range 4000 {
		order = append(order, arrival{hot.Uint64(), time.Duration(rng.ExpFloat64() * 15e6)})
	}
	run := func(c router.Config) (p99, hits float64) {
		c.Endpoints, c.KVCacheTokens = fleet(4), 400_000
		p := newPool(t, c)
		type open struct {
			d   *router.Decision
			end time.Time
		}
		free := map[string]time.Time{} // when an endpoint has served all it has
		var streams []open
		var queues []time.Duration
		at, warm := start, 0
		for i, next := range order {
			at = at.Add(next.after)
			slices.SortStableFunc(streams, func(a, b open) int { return a.end.Compare(b.end) })
			for len(streams) > 0 && !streams[0].end.After(at) {
				streams[0].d.FirstTokenAt(streams[0].end)
				streams[0].d.ReleaseAt(streams[0].end, router.Outcome{})
				streams = streams[1:]
			}
			s := prompt(next.name, 20)
			s.Blocks = append(s.Blocks, uint64(i)<<8|1)
			s.Tokens, s.Tail = 21*256, uint64(i)+1
			d := pick(t, p, router.Request{Prefix: s, At: at})
			if d.CachedTokens > 0 {
				warm++
			}
			id := d.Endpoint.ID
			if free[id].Before(at) {
				free[id] = at
			}
			queues = append(queues, free[id].Sub(at))
			free[id] = free[id].Add(20*time.Millisecond + time.Duration(d.PromptTokens-d.CachedTokens)*100*time.Microsecond)
			streams = append(streams, open{d, free[id]})
		}
		slices.Sort(queues)
		return queues[len(queues)*99/100].Seconds(), float64(warm) / float64(len(order))
	}
	leastQueue, _ := run(router.Config{Policy: balancer.LeastLoad{}})
	_, mostHits := run(router.Config{Policy: policyFunc(func(*balancer.PickInfo) (balancer.Choice, error) { return balancer.Choice{}, nil }), Bound: balancer.Bound{Factor: -1}})
	queue, hits := run(router.Config{})
	if queue > 2*leastQueue || hits < 0.8*mostHits {
		t.Errorf("p99 queue %.3f s (least load %.3f s), %.0f %% warm (affinity alone %.0f %%)", queue, leastQueue, 100*hits, 100*mostHits)
	}
}

// A key from all of the messages changes with every turn.
func TestC25_TheNextTurnFollows(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(8)})
	rng := rand.New(rand.NewPCG(6, 6))
	for conversation := range 50 {
		s := signature(rng, nil, 3)
		where := ""
		for turn := range 10 {
			d := pick(t, p, router.Request{Prefix: &s})
			if d.Endpoint.ID != cmp.Or(where, d.Endpoint.ID) {
				t.Errorf("conversation %d, turn %d: on %s, was on %s", conversation, turn, d.Endpoint.ID, where)
			}
			where = d.Endpoint.ID
			d.FirstTokenAt(start)
			d.ReleaseAt(start, router.Outcome{})
			s = signature(rng, s.Blocks, 1+rng.IntN(3))
		}
	}
}

// Prefix trees that grow with every prompt they ever saw.
func TestC31_UniquePromptsDontGrowTheHeap(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(4), KVCacheTokens: 100_000})
	rng := rand.New(rand.NewPCG(7, 7))
	heap := func(requests int) int64 {
		for range requests {
			s := signature(rng, nil, 8)
			pick(t, p, router.Request{Prefix: &s}).ReleaseAt(start, router.Outcome{})
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap(5000)
	if after := heap(30_000); after-before > 256<<10 {
		t.Errorf("30,000 prompts more took %d bytes", after-before)
	}
	runtime.KeepAlive(p)
}

// A stale reading neither closes an endpoint nor opens it.
func TestC51_StaleReportsCountAsNone(t *testing.T) {
	var table loadstats.Table
	full := loadstats.Report{At: start.Add(-10 * time.Second), Running: loadstats.Known(200), Waiting: loadstats.Known(500), KVCacheUsage: loadstats.Ratio(1)}
	spread := func(reports *loadstats.Table) map[string]int {
		p := newPool(t, router.Config{Endpoints: fleet(3), Policy: balancer.LeastLoad{}, Reports: reports})
		for range 30 {
			pick(t, p, router.Request{})
		}
		return inFlight(p)
	}
	want := spread(nil)
	table.Report("e0", full)
	if got := spread(&table); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("one stale report: %v, want %v as without", got, want)
	}
	table.Report("e1", full)
	table.Report("e2", full)
	if got := spread(&table); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("all reports stale: %v, want %v as without", got, want)
	}
}

// Health pages that say 200 while every request times out.
func TestC64_TimeoutsLowerAnEndpoint(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(3), Policy: balancer.LeastLoad{}})
	for range 5 {
		pick(t, p, only("e1", start)).ReleaseAt(start, router.Outcome{Err: errors.New("timeout awaiting response headers")})
	}
	for range 20 {
		if d := pick(t, p, router.Request{}); d.Endpoint.ID == "e1" {
			t.Fatal("picked e1, which timed out five times in a row")
		}
	}
	s := p.StatsAt(start)[1]
	if !s.Cooling || s.Load.FailureShare != 1 {
		t.Errorf("e1: cooling %v, failure share %v", s.Cooling, s.Load.FailureShare)
	}
}

// Endpoints that flap: keys move at most once per change that is real.
func TestC65_AlternatingFailuresMoveNothing(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(4)})
	home := pick(t, p, router.Request{Key: "k"})
	home.ReleaseAt(start, router.Outcome{})
	at := start
	for i := range 40 {
		at = at.Add(time.Second)
		o := router.Outcome{}
		if i%2 == 0 {
			o = refused
		}
		pick(t, p, only(home.Endpoint.ID, at)).ReleaseAt(at, o)
		if s := p.StatsAt(at)[home.Endpoint.ID[1]-'0']; s.Cooling || s.Load.CachedTokens == 0 {
			t.Fatalf("after %d failures with successes between: cooling %v, %d tokens cached", i/2+1, s.Cooling, s.Load.CachedTokens)
		}
	}
	at = at.Add(time.Hour)
	if d := pick(t, p, router.Request{Key: "k", At: at}); d.Endpoint.ID != home.Endpoint.ID || d.Reason != balancer.Warm {
		t.Errorf("an hour later: %v, want it warm on %s", d, home.Endpoint.ID)
	}
}

// Numbers that are none, from a metrics page.
func TestC70_ReportsThatAreNoNumbers(t *testing.T) {
	var table loadstats.Table
	p := newPool(t, router.Config{Endpoints: fleet(3), Reports: &table})
	for i, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -5, 1e300} {
		table.Report(fmt.Sprint("e", i%3), loadstats.Report{
			At: start.Add(time.Duration(i)), Running: loadstats.Rounded(bad), Waiting: loadstats.Rounded(bad),
			KVCacheUsage: loadstats.Ratio(bad), KVCacheTokens: loadstats.Rounded(bad),
		})
		for k := range uint64(6) {
			d := pick(t, p, router.Request{Prefix: prompt(k, 20)})
			for _, cost := range append([]router.Alternative{{Cost: d.Cost}}, d.Alternatives...) {
				if v := cost.Cost.Total; math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
					t.Errorf("%v in a report: cost %+v", bad, cost.Cost)
				}
			}
		}
	}
	table.Report("e0", loadstats.Report{At: start.Add(time.Second), Running: loadstats.Known(math.MaxInt64), Waiting: loadstats.Known(math.MaxInt64), KVCacheTokens: loadstats.Known(math.MaxInt64)})
	d := pick(t, p, router.Request{At: start.Add(time.Second)})
	if d.Endpoint.ID == "e0" {
		t.Errorf("picked %v, which reports more requests than there can be", d)
	}
	require.NoError(t, p.CheckInvariants(map[string]int{"e0": inFlight(p)["e0"], "e1": inFlight(p)["e1"], "e2": inFlight(p)["e2"]}))
}
