package routertest_test

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/router/routertest"
)

// config makes a pool whose configuration is changed first.
func config(change func(*router.Config)) func(*routertest.Gateway) (router.Router, error) {
	return func(g *routertest.Gateway) (router.Router, error) {
		c := g.Config()
		change(&c)
		return router.New(c)
	}
}

func swarm(t *testing.T, c routertest.SwarmConfig) routertest.Workload {
	t.Helper()
	w, err := routertest.Swarm(c)
	require.NoError(t, err)
	return w
}

func simulate(t *testing.T, s routertest.Scenario) *routertest.Result {
	t.Helper()
	r, err := routertest.Simulate(s)
	require.NoError(t, err)
	return r
}

// What the README promises, in virtual time: bounds with room for other seeds.
func TestSimulate_AffinityOnTheSwarm(t *testing.T) {
	w := swarm(t, routertest.SwarmConfig{Seed: 1, Streams: 100, WarmUp: 60 * time.Second, Duration: 160 * time.Second})
	affinity := simulate(t, routertest.Scenario{Workload: w})
	affinity.HitRateAtLeast(t, 0.94)
	affinity.P99AtMost(t, 5*time.Second)
	affinity.MovedAtMost(t, 0.05)
	affinity.BoundHeld(t)
	affinity.NoLeak(t)
	if affinity.TTFT.P50 > 300*time.Millisecond || affinity.TTFT.Mean > 700*time.Millisecond {
		t.Errorf("affinity: %+v", affinity.TTFT)
	}
	if d := affinity.Predicted - affinity.HitRate; d < -0.02 || d > 0.02 {
		t.Errorf("predicted hit rate %.3f, real %.3f: more than two points apart", affinity.Predicted, affinity.HitRate)
	}
	for name, p := range map[string]balancer.Policy{"round robin": balancer.RoundRobin{}, "least load": balancer.LeastLoad{}} {
		if r := simulate(t, routertest.Scenario{Workload: w, Policy: p}); r.HitRate > 0.7 || r.TTFT.P50 < 5*affinity.TTFT.P50 {
			t.Errorf("%s: hit rate %.3f, %+v, affinity: %+v", name, r.HitRate, r.TTFT, affinity.TTFT)
		}
	}
}

// A pool that is told nothing about the size of the caches begins at 262,144
// tokens and ends near one that is told, as long as the fleet's memory is not
// short. (At 100 streams and 400,000 tokens it is, and the mean is half as much
// again.)
func TestSimulate_LearnedCapacity(t *testing.T) {
	for _, c := range []struct{ tokens, streams int }{{200_000, 20}, {800_000, 40}} {
		mean := func(configured int) time.Duration {
			engines := make([]routertest.EngineSpec, 8)
			for i := range engines {
				engines[i] = routertest.EngineSpec{KVCacheTokens: c.tokens, Configured: configured}
			}
			w := swarm(t, routertest.SwarmConfig{Seed: 1, Streams: c.streams, WarmUp: 200 * time.Second})
			return simulate(t, routertest.Scenario{Workload: w, Engines: engines}).TTFT.Mean
		}
		told, learned := mean(0), mean(-1)
		if float64(learned) > 1.10*float64(told) {
			t.Errorf("caches of %d tokens, %d streams: mean TTFT %v when learned, %v when told", c.tokens, c.streams, learned, told)
		}
	}
}

// The same figures on every architecture and in every run: only integers and
// floating point that no compiler fuses decide. The scenario has everything in it
// that could depend on an order: gateways, announcements, reports, retries,
// changes.
func TestSimulate_IsDeterministic(t *testing.T) {
	everything := routertest.Scenario{
		Workload: swarm(t, routertest.SwarmConfig{Seed: 1, Streams: 60, WarmUp: 10 * time.Second, Duration: 60 * time.Second}),
		Changes: []routertest.Change{
			{At: 20 * time.Second, Kind: routertest.Crash, Endpoint: 3},
			{At: 30 * time.Second, Kind: routertest.Join, Endpoint: 8, Engine: routertest.EngineSpec{Speed: 1.5, Configured: -1}},
			{At: 35 * time.Second, Kind: routertest.Restart, Endpoint: 2},
			{At: 40 * time.Second, Kind: routertest.Slow, Endpoint: 1, Speed: 0.3},
			{At: 45 * time.Second, Kind: routertest.Drain, Endpoint: 0},
		},
		Gateways: routertest.Gateways{Count: 3, AnnounceDelay: 100 * time.Millisecond, Discovery: time.Second, Latency: 5 * time.Millisecond},
		Clients:  routertest.Clients{Timeout: 3 * time.Second, Duplicates: 2, Cancel: true},
		Reports:  routertest.Reports{Every: time.Second, Late: 50 * time.Millisecond},
		Seed:     7,
	}
	first := simulate(t, everything)
	before := runtime.GOMAXPROCS(1)
	second := simulate(t, everything)
	runtime.GOMAXPROCS(before)
	require.Equal(t, first, second)
	got := fmt.Sprint(first.Requests, first.TTFT.Mean, first.TTFT.P99, first.Timeouts, first.Lost, first.Moved, first.Displaced)
	if got != goldenEverything {
		t.Errorf("requests, mean, p99, timeouts, lost, moved, displaced = %s, want %s", got, goldenEverything)
	}
	first.NoLeak(t)
	first.BoundHeld(t)
}

const goldenEverything = "345 686.626447ms 12.365411331s 30 10 9 11"

func TestSimulate_Errors(t *testing.T) {
	w := swarm(t, routertest.SwarmConfig{Streams: 1, Duration: 121 * time.Second})
	for _, c := range []struct {
		says     string
		scenario routertest.Scenario
	}{
		{"Workload is empty", routertest.Scenario{}},
		{"Engines[1].KVCacheTokens 3 ", routertest.Scenario{Workload: w, Engines: []routertest.EngineSpec{{}, {KVCacheTokens: 3}}}},
		{"Engines[0].Speed 0.001 ", routertest.Scenario{Workload: w, Engines: []routertest.EngineSpec{{Speed: 0.001}}}},
		{"Engines[0].Weight -1 ", routertest.Scenario{Workload: w, Engines: []routertest.EngineSpec{{Weight: -1}}}},
		{"Gateways.Count -1 ", routertest.Scenario{Workload: w, Gateways: routertest.Gateways{Count: -1}}},
		{"Clients.Timeout -1 ", routertest.Scenario{Workload: w, Clients: routertest.Clients{Timeout: -1}}},
		{"Changes[0].Endpoint 8 of crash: there are 8", routertest.Scenario{Workload: w, Changes: []routertest.Change{{Kind: routertest.Crash, Endpoint: 8}}}},
		{"Changes[0].Kind 0 ", routertest.Scenario{Workload: w, Changes: []routertest.Change{{}}}},
		{"Changes[0].Speed 0 ", routertest.Scenario{Workload: w, Changes: []routertest.Change{{Kind: routertest.Slow}}}},
		{"Changes[0].Engine.KVCacheTokens -1 ", routertest.Scenario{Workload: w, Changes: []routertest.Change{
			{Kind: routertest.Join, Endpoint: 8, Engine: routertest.EngineSpec{KVCacheTokens: -1}},
		}}},
		{"Changes[1].At 1s ", routertest.Scenario{Workload: w, Changes: []routertest.Change{
			{At: 2 * time.Second, Kind: routertest.Crash}, {At: time.Second, Kind: routertest.Crash},
		}}},
		{"MaxInFlight -1", routertest.Scenario{Workload: w, Router: config(func(c *router.Config) { c.MaxInFlight = -1 })}},
		{"policy chose candidate -1", routertest.Scenario{Workload: w, Policy: wrong{}}},
		{"Router returned no router", routertest.Scenario{Workload: w, Router: func(*routertest.Gateway) (router.Router, error) { return nil, nil }}},
		{"neither a decision nor an error", routertest.Scenario{Workload: w, Router: func(*routertest.Gateway) (router.Router, error) { return silent{}, nil }}},
		{`sent to "nowhere"`, routertest.Scenario{Workload: w, Router: func(*routertest.Gateway) (router.Router, error) { return nowhere{}, nil }}},
		{"no method SetEndpointsAt", routertest.Scenario{
			Workload: w, Router: func(*routertest.Gateway) (router.Router, error) { return &first{}, nil },
			Changes: []routertest.Change{{Kind: routertest.Crash, Endpoint: 1}},
		}},
	} {
		if _, err := routertest.Simulate(c.scenario); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Simulate = %v, want an error that says %s", err, c.says)
		}
	}
}

func TestWorkload_Errors(t *testing.T) {
	check := func(err error, says string) {
		t.Helper()
		if err == nil || !strings.HasPrefix(err.Error(), "routertest: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want one of routertest that says %s", err, says)
		}
	}
	for says, c := range map[string]routertest.SwarmConfig{
		"SwarmConfig.Streams 0 ": {},
		"SwarmConfig.Greedy -1 ": {Streams: 1, Greedy: -1},
		"SwarmConfig.WarmUp -1":  {Streams: 1, WarmUp: -1},
		"SwarmConfig.WarmUp 6m":  {Streams: 1, WarmUp: 400 * time.Second},
	} {
		_, err := routertest.Swarm(c)
		check(err, says)
	}
	for says, c := range map[string]routertest.ChatConfig{
		"ChatConfig.Rate 0 ":           {},
		"ChatConfig.Rate NaN ":         {Rate: math.NaN()},
		"ChatConfig.Conversations -1 ": {Rate: 1, Conversations: -1},
		"ChatConfig.WarmUp -1":         {Rate: 1, WarmUp: -1},
		"before the end, -1":           {Rate: 1, Duration: -1},
	} {
		_, err := routertest.Chat(c)
		check(err, says)
	}
	for says, c := range map[string]routertest.TraceConfig{
		"no such file":             {},
		"TraceConfig.Speedup NaN ": {Speedup: math.NaN()},
		"TraceConfig.Speedup -1 ":  {Speedup: -1},
		"TraceConfig.Limit -4 ":    {Limit: -4},
		"TraceConfig.WarmUp -1":    {WarmUp: -1},
	} {
		_, err := routertest.Trace("no such file", c)
		check(err, says)
	}
}

// wrong is a policy that chooses nobody.
type wrong struct{}

func (wrong) Choose(*balancer.PickInfo) (balancer.Choice, error) {
	return balancer.Choice{Index: -1}, nil
}

// silent is a router that says nothing.
type silent struct{}

func (silent) Pick(router.Request) (*router.Decision, error) { return nil, nil }

// nowhere is a router to an endpoint that does not exist.
type nowhere struct{}

func (nowhere) Pick(router.Request) (*router.Decision, error) {
	return &router.Decision{Endpoint: router.Endpoint{ID: "nowhere"}}, nil
}

// first is a router with books of its own: everything goes to e0.
type first struct {
	blocks                  int // of signatures
	sizes                   map[int]bool
	keys                    map[string]bool
	picked, begun, released int
	outcomes                map[int]int // by status
	began, ended            []time.Duration
	firstPick               time.Time
}

func (f *first) BlockTokens() int { return max(1, f.blocks) }

func (f *first) Pick(r router.Request) (*router.Decision, error) {
	if f.picked == 0 {
		f.firstPick = r.At
		f.sizes, f.keys, f.outcomes = map[int]bool{}, map[string]bool{}, map[int]int{}
	}
	f.picked++
	f.sizes[r.Prefix.BlockTokens] = true
	f.keys[r.Key] = true
	return &router.Decision{Endpoint: router.Endpoint{ID: "e0"}}, nil
}

func (f *first) FirstTokenAt(now time.Time, _ *router.Decision) {
	f.begun++
	f.began = append(f.began, now.Sub(f.firstPick))
}

func (f *first) ReleaseAt(now time.Time, _ *router.Decision, o router.Outcome) {
	f.released++
	f.outcomes[o.StatusCode]++
	f.ended = append(f.ended, now.Sub(f.firstPick))
}
