package routertest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/router/routertest"
)

// A request that finds no room waits instead of being lost, and its time to first
// token is counted from when it came.
func TestSimulate_QueueHoldsRequests(t *testing.T) {
	const burst = `{"timestamp":0,"input_length":1024,"output_length":300,"hash_ids":[1,2]}
{"timestamp":1,"input_length":1024,"output_length":300,"hash_ids":[1,3]}
`
	s := routertest.Scenario{
		Workload: trace(t, burst, routertest.TraceConfig{}), Engines: make([]routertest.EngineSpec, 1), Queue: true,
		Router: config(func(c *router.Config) { c.MaxInFlight = 1 }),
	}
	r := simulate(t, s)
	if r.Requests != 2 || r.Lost != 0 || r.TTFT.Max < 4*time.Second || r.Endpoints[0].PeakInFlight != 1 {
		t.Errorf("requests %d, lost %d, longest TTFT %v, want 2, 0 and the time of a whole answer", r.Requests, r.Lost, r.TTFT.Max)
	}
	r.NoLeak(t)

	s.Router = config(func(c *router.Config) { c.MaxInFlight, c.Queue.MaxWait = 1, time.Second })
	if r := simulate(t, s); r.Requests != 1 || r.Lost != 1 {
		t.Errorf("with a wait of at most a second: requests %d, lost %d, want 1, 1", r.Requests, r.Lost)
	}
	s.Router = config(func(c *router.Config) { c.MaxInFlight = 1 })
	s.Clients = routertest.Clients{Timeout: 2 * time.Second, Duplicates: 1}
	r = simulate(t, s)
	if r.Requests != 2 || r.Lost != 0 || r.Timeouts != 1 || r.Endpoints[0].Requests != 2 {
		t.Errorf("with impatient clients: requests %d, lost %d, timeouts %d, sent %d; want 2, 0, 1, 2: what waits in the gateway is taken back",
			r.Requests, r.Lost, r.Timeouts, r.Endpoints[0].Requests)
	}
	r.NoLeak(t)
}

// Where nothing waits, the queue changes nothing; where something does, the same
// scenario gives the same result.
func TestSimulate_QueueIsRepeatable(t *testing.T) {
	chat, err := routertest.Chat(routertest.ChatConfig{Seed: 1, Rate: 1, Duration: 60 * time.Second})
	require.NoError(t, err)
	require.Equal(t, simulate(t, routertest.Scenario{Workload: chat}), simulate(t, routertest.Scenario{Workload: chat, Queue: true}))

	w := swarm(t, routertest.SwarmConfig{Seed: 1, Streams: 30, Greedy: 20, WarmUp: time.Second, Duration: 60 * time.Second})
	s := routertest.Scenario{
		Workload: w, Engines: make([]routertest.EngineSpec, 3), Queue: true,
		Gateways: routertest.Gateways{Count: 2, AnnounceDelay: 50 * time.Millisecond, Latency: 2 * time.Millisecond},
		Clients:  routertest.Clients{Timeout: 5 * time.Second, Duplicates: 2},
		Changes:  []routertest.Change{{At: 20 * time.Second, Kind: routertest.Crash, Endpoint: 1}, {At: 40 * time.Second, Kind: routertest.Join, Endpoint: 1}},
	}
	r := simulate(t, s)
	require.Equal(t, r, simulate(t, s))
	r.NoLeak(t)
	if r.Timeouts == 0 {
		t.Error("nobody lost patience")
	}
}

// A tenant that sends far more than its share takes an engine's queue from the
// others, not the gateway's.
func TestSimulate_GreedyTenant(t *testing.T) {
	s := routertest.Scenario{
		Workload: swarm(t, routertest.SwarmConfig{Seed: 1, Streams: 30, Greedy: 40, WarmUp: 30 * time.Second, Duration: 120 * time.Second}),
		Engines:  make([]routertest.EngineSpec, 4),
	}
	bound := simulate(t, s)
	s.Queue = true
	s.Router = config(func(c *router.Config) { c.Queue.Fair = true })
	fair := simulate(t, s)
	if fair.TTFT.Mean*4 > bound.TTFT.Mean {
		t.Errorf("others' mean TTFT = %v with a fair queue, %v without, want a quarter", fair.TTFT.Mean, bound.TTFT.Mean)
	}
	if fair.Greedy.Mean < bound.TTFT.Mean/2 || fair.GreedyRate == 0 {
		t.Errorf("the greedy tenant's mean TTFT = %v, %.2f a second; want it to wait, and to be served", fair.Greedy.Mean, fair.GreedyRate)
	}
	fair.NoLeak(t)
}

func TestSimulate_QueueNeedsARouterThatHasOne(t *testing.T) {
	_, err := routertest.Simulate(routertest.Scenario{
		Workload: trace(t, turns, routertest.TraceConfig{}), Queue: true,
		Router: func(g *routertest.Gateway) (router.Router, error) {
			p, err := router.New(g.Config())
			return struct{ router.Router }{p}, err
		},
	})
	if err == nil {
		t.Fatal("Simulate has no error for a router without Enqueue")
	}
	require.ErrorContains(t, err, "Scenario.Queue")
	if _, err := routertest.Swarm(routertest.SwarmConfig{Streams: 1, Greedy: -1}); err == nil {
		t.Error("Swarm has no error for -1 greedy agents")
	}
}
