package routertest_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/router/routertest"
)

// trace writes lines of a trace to a file and reads it.
func trace(t *testing.T, lines string, c routertest.TraceConfig) routertest.Workload {
	t.Helper()
	name := filepath.Join(t.TempDir(), "trace.jsonl")
	require.NoError(t, os.WriteFile(name, []byte(lines), 0o600))
	w, err := routertest.Trace(name, c)
	require.NoError(t, err)
	return w
}

// oneRequest is 1,024 tokens in and 3 out: a prefill iteration of 15 ms + 1,024 ·
// 75 µs + 1.1 ms · 1,024²/2 / 10⁶, and two of decoding at 15 ms + 50 µs + 35 ns a
// token.
const oneRequest = `{"timestamp":0,"input_length":1024,"output_length":3,"hash_ids":[1,2]}` + "\n"

const (
	prefill = 15*time.Millisecond + 1024*75*time.Microsecond + 1100*time.Microsecond*524_288/1_000_000
	decode  = 2*(15*time.Millisecond+50*time.Microsecond) + (1025+1026)*35*time.Nanosecond
)

func TestSimulate_TimesOfOneRequest(t *testing.T) {
	for _, c := range []struct {
		name    string
		latency time.Duration
		speed   float64
	}{{"default", 0, 0}, {"latency", 5 * time.Millisecond, 1}, {"half the speed", time.Millisecond, 0.5}} {
		f := &first{blocks: 16}
		r := simulate(t, routertest.Scenario{
			Workload: trace(t, oneRequest, routertest.TraceConfig{}),
			Engines:  []routertest.EngineSpec{{Speed: c.speed}},
			Gateways: routertest.Gateways{Latency: c.latency},
			Router:   func(*routertest.Gateway) (router.Router, error) { return f, nil },
		})
		slower := time.Duration(1)
		if c.speed == 0.5 {
			slower = 2
		}
		ttft, e2e := slower*prefill+2*c.latency, slower*(prefill+decode)+2*c.latency
		if r.TTFT.Mean != ttft || r.E2E.Mean != e2e || r.TPOT != slower*decode/2 || r.TTFT.Max != ttft {
			t.Errorf("%s: TTFT %v, E2E %v, TPOT %v, want %v, %v, %v", c.name, r.TTFT, r.E2E, r.TPOT, ttft, e2e, slower*decode/2)
		}
		if r.Requests != 1 || r.HitRate != 0 || r.Imbalance != 1 || r.Endpoints[0].Busy != slower*(prefill+decode) || r.Endpoints[0].PeakInFlight != 1 {
			t.Errorf("%s: %+v", c.name, r)
		}
		require.Equal(t, []time.Duration{ttft}, r.TTFTs)
		require.Equal(t, []time.Duration{ttft}, f.began)
		require.Equal(t, []time.Duration{e2e}, f.ended)
		require.Equal(t, map[int]bool{16: true}, f.sizes)
		require.Equal(t, map[string]bool{"": true}, f.keys)
	}
}

// turns are three of a conversation and one of another, a second apart.
const turns = `{"timestamp":0,"input_length":1024,"output_length":3,"hash_ids":[1,2]}
{"timestamp":1000,"input_length":1600,"output_length":3,"hash_ids":[1,2,3,4]}
{"timestamp":2000,"input_length":1024,"output_length":3,"hash_ids":[1,9]}
{"timestamp":3000,"input_length":2048,"output_length":3,"hash_ids":[1,2,3,5]}
`

func TestSimulate_FollowsConversations(t *testing.T) {
	w := trace(t, turns, routertest.TraceConfig{})
	f := &first{}
	r := simulate(t, routertest.Scenario{Workload: w, Clients: routertest.Clients{SessionKeys: true},
		Router: func(*routertest.Gateway) (router.Router, error) { return f, nil }})
	if r.LaterTurns != 2 || r.Moved != 0 || len(f.keys) != 2 {
		t.Errorf("later turns %d, moved %d, keys %v, want 2, 0 and two keys", r.LaterTurns, r.Moved, f.keys)
	}
	if want := float64(1024+512+1536) / (1024 + 1600 + 1024 + 2048); r.HitRate != want {
		t.Errorf("hit rate = %v, want %v", r.HitRate, want)
	}
	r = simulate(t, routertest.Scenario{Workload: w, Policy: balancer.RoundRobin{}})
	if r.LaterTurns != 2 || r.Moved != 2 || r.Displaced != 0 {
		t.Errorf("round robin: later turns %d, moved %d, displaced %d, want 2, 2, 0", r.LaterTurns, r.Moved, r.Displaced)
	}
	r = simulate(t, routertest.Scenario{Workload: w, Engines: make([]routertest.EngineSpec, 2),
		Changes: []routertest.Change{{At: 500 * time.Millisecond, Kind: routertest.Drain, Endpoint: endpointOfFirst(t, w, 2)}}})
	if r.LaterTurns != 2 || r.Moved != 0 || r.Displaced != 1 {
		t.Errorf("drained: later turns %d, moved %d, displaced %d, want 2, 0, 1", r.LaterTurns, r.Moved, r.Displaced)
	}
}

// endpointOfFirst is where a pool sends the first request.
func endpointOfFirst(t *testing.T, w routertest.Workload, engines int) int {
	t.Helper()
	r := simulate(t, routertest.Scenario{Workload: w, Engines: make([]routertest.EngineSpec, engines), Interval: 500 * time.Millisecond})
	for i, e := range r.Series[0].Endpoints {
		if e.Sent > 0 {
			return i
		}
	}
	t.Fatal("nothing was sent in the first interval")
	return 0
}

func TestSimulate_SeriesAddsUp(t *testing.T) {
	w := swarm(t, routertest.SwarmConfig{Seed: 3, Streams: 30, WarmUp: time.Second, Duration: 65 * time.Second})
	s := routertest.Scenario{
		Workload: w, Clients: routertest.Clients{Timeout: time.Second, Duplicates: 1},
		Changes: []routertest.Change{{At: 30 * time.Second, Kind: routertest.Crash, Endpoint: 2}},
	}
	r := simulate(t, s)
	if len(r.Series) != 7 || r.Series[6].At != 65*time.Second || r.Series[0].At != 10*time.Second {
		t.Fatalf("series of %d intervals up to %v, want 7 up to 1m5s", len(r.Series), r.Series[len(r.Series)-1].At)
	}
	var sum routertest.Sample
	sent := make([]int, len(r.Endpoints))
	for _, one := range r.Series {
		sum.Requests += one.Requests
		sum.Timeouts += one.Timeouts
		sum.Lost += one.Lost
		sum.Moved += one.Moved
		sum.Displaced += one.Displaced
		for i, e := range one.Endpoints {
			sent[i] += e.Sent
		}
	}
	if sum.Requests < r.Requests || sum.Requests > r.Requests+30 || sum.Timeouts < r.Timeouts || sum.Lost != r.Lost || sum.Moved != r.Moved || sum.Displaced != r.Displaced {
		t.Errorf("series adds up to %+v, want %+v", sum, r)
	}
	for i, e := range r.Endpoints {
		if e.Requests != sent[i] {
			t.Errorf("%s: %d requests, in the series %d", e.ID, e.Requests, sent[i])
		}
	}
	if r.Lost == 0 || r.Timeouts == 0 || r.Displaced == 0 {
		t.Errorf("a crash and a timeout: lost %d, timeouts %d, displaced %d, want some of each", r.Lost, r.Timeouts, r.Displaced)
	}
	r.NoLeak(t)
}

func TestSimulate_CrashMovesOnlyItsConversations(t *testing.T) {
	w := swarm(t, routertest.SwarmConfig{Seed: 1, Streams: 40, WarmUp: time.Second, Duration: 120 * time.Second})
	crash := func(discovery time.Duration) *routertest.Result {
		return simulate(t, routertest.Scenario{Workload: w, Interval: time.Second, Gateways: routertest.Gateways{Discovery: discovery},
			Changes: []routertest.Change{{At: 60 * time.Second, Kind: routertest.Crash, Endpoint: 3}}})
	}
	for _, discovery := range []time.Duration{0, 10 * time.Second} {
		r := crash(discovery)
		r.NoLeak(t)
		r.BoundHeld(t)
		r.MovedAtMost(t, 0.02)
		if r.Displaced == 0 || r.Displaced > 40 || r.Lost == 0 || r.Lost > 40 {
			t.Errorf("discovery after %v: displaced %d, lost %d, want some, at most one an agent", discovery, r.Displaced, r.Lost)
		}
		told := 60*time.Second + discovery
		for _, s := range r.Series {
			if s.At > told+time.Second && s.Endpoints[3].Sent > 0 {
				t.Errorf("discovery after %v: %d requests sent to the crashed endpoint up to %v", discovery, s.Endpoints[3].Sent, s.At)
			}
		}
	}
}

func TestSimulate_RestartIsNoticedByItsMisses(t *testing.T) {
	w := swarm(t, routertest.SwarmConfig{Seed: 1, Streams: 40, WarmUp: 55 * time.Second, Duration: 120 * time.Second})
	r := simulate(t, routertest.Scenario{Workload: w, Changes: []routertest.Change{{At: 60 * time.Second, Kind: routertest.Restart, Endpoint: 3}}})
	r.NoLeak(t)
	if d := r.Predicted - r.HitRate; d > 0.05 {
		t.Errorf("a minute after the restart of one in eight: predicted %.3f, hit %.3f, want less than 0.05 between", r.Predicted, r.HitRate)
	}
	if r.Lost == 0 {
		t.Error("a restart broke no answer")
	}
}

func TestSimulate_DrainAndJoin(t *testing.T) {
	w := swarm(t, routertest.SwarmConfig{Seed: 1, Streams: 60, WarmUp: time.Second, Duration: 120 * time.Second})
	r := simulate(t, routertest.Scenario{Workload: w, Changes: []routertest.Change{
		{At: 40 * time.Second, Kind: routertest.Drain, Endpoint: 2},
		{At: 60 * time.Second, Kind: routertest.Join, Endpoint: 8},
	}})
	r.NoLeak(t)
	if r.Lost != 0 {
		t.Errorf("a drain lost %d requests", r.Lost)
	}
	for _, s := range r.Series {
		if e := s.Endpoints[2]; s.At > 40*time.Second && e.Sent > 0 || s.At > 70*time.Second && e.InFlight > 0 {
			t.Errorf("up to %v the draining endpoint had %+v", s.At, e)
		}
		if s.At <= 60*time.Second && len(s.Endpoints) != 8 || s.At > 60*time.Second && len(s.Endpoints) != 9 {
			t.Errorf("up to %v there were %d endpoints", s.At, len(s.Endpoints))
		}
	}
	if last := r.Series[len(r.Series)-1]; last.Endpoints[8].Sent == 0 {
		t.Error("the endpoint that joined got nothing")
	}
}

// A crashed endpoint that joins again under its name is a new one.
func TestSimulate_CrashAndComeBack(t *testing.T) {
	w := swarm(t, routertest.SwarmConfig{Seed: 1, Streams: 40, WarmUp: time.Second, Duration: 100 * time.Second})
	for _, discovery := range []time.Duration{0, 2 * time.Second} {
		r := simulate(t, routertest.Scenario{Workload: w, Gateways: routertest.Gateways{Discovery: discovery}, Changes: []routertest.Change{
			{At: 40 * time.Second, Kind: routertest.Crash, Endpoint: 2},
			{At: 41 * time.Second, Kind: routertest.Join, Endpoint: 2, Engine: routertest.EngineSpec{KVCacheTokens: 500_000}},
		}})
		r.NoLeak(t)
		if last := r.Series[len(r.Series)-1]; len(last.Endpoints) != 8 || last.Endpoints[2].Sent == 0 {
			t.Errorf("discovery after %v: at the end %+v, want requests on all eight", discovery, last.Endpoints)
		}
	}
}

func TestSimulate_SlowEndpointGetsLess(t *testing.T) {
	w := swarm(t, routertest.SwarmConfig{Seed: 1, Streams: 60, WarmUp: 30 * time.Second, Duration: 130 * time.Second})
	r := simulate(t, routertest.Scenario{Workload: w, Changes: []routertest.Change{{At: 30 * time.Second, Kind: routertest.Slow, Endpoint: 0, Speed: 0.25}}})
	sent := 0
	for _, s := range r.Series[3:] {
		sent += s.Endpoints[0].Sent
	}
	if mean := r.Requests / 8; sent > mean*2/3 {
		t.Errorf("an endpoint at a quarter of the speed got %d requests, the mean is %d", sent, mean)
	}
}

func TestSimulate_Gateways(t *testing.T) {
	w := swarm(t, routertest.SwarmConfig{Seed: 1, Streams: 60, WarmUp: 60 * time.Second, Duration: 160 * time.Second})
	run := func(g routertest.Gateways) *routertest.Result {
		r := simulate(t, routertest.Scenario{Workload: w, Gateways: g})
		r.NoLeak(t)
		return r
	}
	alone := run(routertest.Gateways{})
	nothing := run(routertest.Gateways{Count: 4})
	sticky := run(routertest.Gateways{Count: 4, Sticky: true})
	bus := run(routertest.Gateways{Count: 4, AnnounceDelay: 100 * time.Millisecond})
	if float64(bus.TTFT.Mean) > 1.2*float64(alone.TTFT.Mean) || bus.HitRate < alone.HitRate-0.01 {
		t.Errorf("4 gateways that announce: hit %.3f, mean %v; one gateway: %.3f, %v", bus.HitRate, bus.TTFT.Mean, alone.HitRate, alone.TTFT.Mean)
	}
	if nothing.Moved <= bus.Moved || nothing.HitRate > alone.HitRate {
		t.Errorf("4 gateways that share nothing: moved %d, hit %.3f; with announcements %d, %.3f", nothing.Moved, nothing.HitRate, bus.Moved, bus.HitRate)
	}
	if sticky.Moved >= nothing.Moved {
		t.Errorf("sticky gateways moved %d, others %d", sticky.Moved, nothing.Moved)
	}
}

func TestSimulate_ClientsThatLosePatience(t *testing.T) {
	// Two prompts that need 3 s each, on one engine: the second has to wait for
	// the first.
	const two = `{"timestamp":0,"input_length":30000,"output_length":2,"hash_ids":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59]}
{"timestamp":0,"input_length":30000,"output_length":2,"hash_ids":[101,102,103,104,105,106,107,108,109,110,111,112,113,114,115,116,117,118,119,120,121,122,123,124,125,126,127,128,129,130,131,132,133,134,135,136,137,138,139,140,141,142,143,144,145,146,147,148,149,150,151,152,153,154,155,156,157,158,159]}
`
	w := trace(t, two, routertest.TraceConfig{})
	run := func(c routertest.Clients) (*routertest.Result, *first) {
		f := &first{}
		return simulate(t, routertest.Scenario{Workload: w, Engines: make([]routertest.EngineSpec, 1), Clients: c,
			Router: func(*routertest.Gateway) (router.Router, error) { return f, nil }}), f
	}
	patient, _ := run(routertest.Clients{})
	served, f := run(routertest.Clients{Timeout: 4 * time.Second, Duplicates: 1})
	if served.Timeouts != 1 || served.Requests != 2 || f.picked != 3 || f.released != 3 {
		t.Errorf("timeouts %d, requests %d, picked %d, released %d, want 1, 2, 3, 3", served.Timeouts, served.Requests, f.picked, f.released)
	}
	// The duplicate comes after the attempt that was given up, and finds what that
	// had computed until then.
	if got := served.TTFT.Max - patient.TTFT.Max; got <= 0 || got > 2*time.Second {
		t.Errorf("the duplicate's first token came %v after that of the first attempt, want less than the 2.9 s of a whole prefill", got)
	}
	require.Equal(t, map[int]int{200: 3}, f.outcomes)
	cancelled, f := run(routertest.Clients{Timeout: 4 * time.Second, Duplicates: 3, Cancel: true})
	if cancelled.Timeouts == 0 || cancelled.Requests != 2 {
		t.Errorf("cancelled: timeouts %d, requests %d, want some and 2", cancelled.Timeouts, cancelled.Requests)
	}
	require.Equal(t, map[int]int{0: cancelled.Timeouts, 200: 2}, f.outcomes)
}

func TestSimulate_PromptsThatNoEngineCanHold(t *testing.T) {
	f := &first{}
	r := simulate(t, routertest.Scenario{
		Workload: trace(t, oneRequest, routertest.TraceConfig{}), Engines: []routertest.EngineSpec{{KVCacheTokens: 512}},
		Router: func(*routertest.Gateway) (router.Router, error) { return f, nil },
	})
	if r.Requests != 0 || r.Lost != 1 {
		t.Errorf("requests %d, lost %d, want 0, 1", r.Requests, r.Lost)
	}
	require.Equal(t, map[int]int{400: 1}, f.outcomes)
}

func TestSimulate_RefusedRequestsAreLost(t *testing.T) {
	full := config(func(c *router.Config) { c.MaxInFlight = 1 })
	// An open loop does not come back.
	const burst = `{"timestamp":0,"input_length":1024,"output_length":300,"hash_ids":[1,2]}
{"timestamp":1,"input_length":1024,"output_length":300,"hash_ids":[1,3]}
`
	r := simulate(t, routertest.Scenario{Workload: trace(t, burst, routertest.TraceConfig{}), Engines: make([]routertest.EngineSpec, 1), Router: full})
	if r.Requests != 1 || r.Lost != 1 {
		t.Errorf("open loop: requests %d, lost %d, want 1, 1", r.Requests, r.Lost)
	}
	// Agents do, after a second.
	w := swarm(t, routertest.SwarmConfig{Seed: 1, Streams: 2, WarmUp: time.Millisecond, Duration: 30 * time.Second})
	r = simulate(t, routertest.Scenario{Workload: w, Engines: make([]routertest.EngineSpec, 1), Router: full})
	if r.Lost == 0 || r.Requests < 5 {
		t.Errorf("closed loop: requests %d, lost %d, want some of each", r.Requests, r.Lost)
	}
	r.NoLeak(t)
}

func TestSimulate_NobodyIsThere(t *testing.T) {
	w := trace(t, turns, routertest.TraceConfig{})
	r := simulate(t, routertest.Scenario{Workload: w, Engines: []routertest.EngineSpec{}})
	if r.Requests != 0 || r.Lost != 4 || len(r.Endpoints) != 0 || r.HitRate != 0 {
		t.Errorf("without engines: %+v, want 4 lost requests", r)
	}
	for name, check := range map[string]func(testing.TB){
		"HitRateAtLeast": func(t testing.TB) { r.HitRateAtLeast(t, 0) },
		"P99AtMost":      func(t testing.TB) { r.P99AtMost(t, time.Hour) },
		"MovedAtMost":    func(t testing.TB) { r.MovedAtMost(t, 1) },
	} {
		if !fails(check) {
			t.Errorf("%s holds for no requests at all", name)
		}
	}
}

// fails tells whether a check fails its test.
func fails(check func(testing.TB)) bool {
	var r verdict
	check(&r)
	return r.failed
}

type verdict struct {
	testing.TB
	failed bool
}

func (*verdict) Helper()                 {}
func (r *verdict) Errorf(string, ...any) { r.failed = true }

func TestResult_AssertionsFail(t *testing.T) {
	r := &routertest.Result{Requests: 10, HitRate: 0.5, LaterTurns: 10, Moved: 2, TTFT: routertest.Quantiles{P99: time.Second}}
	leak, over := &routertest.Result{Leaked: 1}, &routertest.Result{OverLimit: 1}
	tokens := &routertest.Result{LeakedTokens: 1}
	for _, c := range []struct {
		name  string
		check func(testing.TB)
		fails bool
	}{
		{"hit rate", func(t testing.TB) { r.HitRateAtLeast(t, 0.5) }, false},
		{"hit rate below", func(t testing.TB) { r.HitRateAtLeast(t, 0.51) }, true},
		{"p99", func(t testing.TB) { r.P99AtMost(t, time.Second) }, false},
		{"p99 above", func(t testing.TB) { r.P99AtMost(t, time.Second-1) }, true},
		{"moved", func(t testing.TB) { r.MovedAtMost(t, 0.2) }, false},
		{"moved more", func(t testing.TB) { r.MovedAtMost(t, 0.19) }, true},
		{"bound", func(t testing.TB) { r.BoundHeld(t) }, false},
		{"bound broken", func(t testing.TB) { over.BoundHeld(t) }, true},
		{"leak", func(t testing.TB) { r.NoLeak(t) }, false},
		{"leaked requests", func(t testing.TB) { leak.NoLeak(t) }, true},
		{"leaked tokens", func(t testing.TB) { tokens.NoLeak(t) }, true},
	} {
		if got := fails(c.check); got != c.fails {
			t.Errorf("%s: fails = %v, want %v", c.name, got, c.fails)
		}
	}
}

func TestSimulate_Reports(t *testing.T) {
	w := swarm(t, routertest.SwarmConfig{Seed: 1, Streams: 8, WarmUp: time.Second, Duration: 20 * time.Second})
	seen := map[string]int{}
	var table *loadstats.Table
	latest := time.Unix(1_000_000, 0)
	r := simulate(t, routertest.Scenario{
		Workload: w,
		Router: func(g *routertest.Gateway) (router.Router, error) {
			table = g.Reports
			return router.New(g.Config())
		},
		Reports: routertest.Reports{Every: 2 * time.Second, Late: 300 * time.Millisecond, Alter: func(endpoint string, r *loadstats.Report) bool {
			if r.At.After(latest) {
				latest = r.At
			}
			seen[endpoint]++
			if got, ok := r.KVCacheTokens.Get(); !ok || got != 400_000 {
				t.Errorf("%s reports a KV cache of %v", endpoint, r.KVCacheTokens)
			}
			if endpoint == "e1" {
				r.Running = loadstats.Known(1000)
			}
			return endpoint != "e2"
		}},
	})
	r.NoLeak(t)
	for i := range 8 {
		if id := r.Endpoints[i].ID; seen[id] != 10 {
			t.Errorf("%s made %d reports in 20 s, want 10", id, seen[id])
		}
	}
	if _, ok := table.Latest("e2"); ok {
		t.Error("the reports of e2 arrived")
	}
	got, ok := table.Latest("e0")
	if !ok || !got.At.Equal(latest) {
		t.Errorf("the last report of e0 is of %v, want %v", got.At, latest)
	}
	if r.Endpoints[1].Requests > r.Endpoints[3].Requests/2+5 {
		t.Errorf("an endpoint that claims 1,000 requests got %d, another %d", r.Endpoints[1].Requests, r.Endpoints[3].Requests)
	}
}

func TestSimulate_ChatIsAnOpenLoop(t *testing.T) {
	w, err := routertest.Chat(routertest.ChatConfig{Seed: 1, Rate: 20, WarmUp: 10 * time.Second, Duration: 60 * time.Second})
	require.NoError(t, err)
	r := simulate(t, routertest.Scenario{Workload: w})
	if r.Requests < 900 || r.Requests > 1100 {
		t.Errorf("requests in 50 s at 20 a second = %d, want about 1,000", r.Requests)
	}
	r.NoLeak(t)
}

// A router that breaks its own limit and forgets nothing is found out.
func TestSimulate_CountsBrokenLimitsAndLeaks(t *testing.T) {
	const burst = `{"timestamp":0,"input_length":1024,"output_length":300,"hash_ids":[1,2]}
{"timestamp":1,"input_length":1024,"output_length":300,"hash_ids":[1,3]}
{"timestamp":2,"input_length":1024,"output_length":300,"hash_ids":[1,4]}
`
	r := simulate(t, routertest.Scenario{
		Workload: trace(t, burst, routertest.TraceConfig{}), Gateways: routertest.Gateways{Count: 1},
		Router: func(*routertest.Gateway) (router.Router, error) { return leaky{}, nil },
	})
	if r.OverLimit != 2 || r.Leaked != 3 || r.LeakedTokens != 4096 {
		t.Errorf("over the limit %d, leaked %d and %d tokens, want 2, 3, 4096", r.OverLimit, r.Leaked, r.LeakedTokens)
	}
	if r.Endpoints[0].PeakInFlight != 3 || r.Endpoints[0].Requests != 3 {
		t.Errorf("%+v, want 3 requests, all at a time", r.Endpoints[0])
	}
}

type leaky struct{}

func (leaky) Pick(router.Request) (*router.Decision, error) {
	return &router.Decision{Endpoint: router.Endpoint{ID: "e0"}, Limit: 1}, nil
}

func (leaky) StatsAt(time.Time) []router.EndpointStats {
	return []router.EndpointStats{{Load: loadstats.Load{InFlight: 3, PinnedTokens: 4096}}}
}

// A gateway can look into engines, whose blocks have 16 tokens.
func TestGateway_CachedTokens(t *testing.T) {
	var g *routertest.Gateway
	p := &peeking{}
	simulate(t, routertest.Scenario{
		Workload: trace(t, turns, routertest.TraceConfig{}),
		Router: func(one *routertest.Gateway) (router.Router, error) {
			g, p.gateway = one, one
			return p, nil
		},
	})
	require.Equal(t, []int{0, 1024, 512, 1536}, p.cached)
	if got := g.CachedTokens("nowhere", nil); got != 0 {
		t.Errorf("CachedTokens(nowhere) = %d, want 0", got)
	}
}

type peeking struct {
	gateway *routertest.Gateway
	cached  []int
}

func (*peeking) BlockTokens() int { return 16 }

func (p *peeking) Pick(r router.Request) (*router.Decision, error) {
	p.cached = append(p.cached, p.gateway.CachedTokens("e0", r.Prefix.Blocks))
	return &router.Decision{Endpoint: router.Endpoint{ID: "e0"}}, nil
}
