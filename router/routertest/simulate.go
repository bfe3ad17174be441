package routertest

import (
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warmroute/warmroute/internal/engine"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// Scenario is a question to the simulator: what would this router do to this
// traffic?
type Scenario struct {
	// Router makes the router under test for the endpoints e0, e1 and so on. It
	// is told the time in Request.At and through Decision's methods that take
	// one.
	Router func(endpoints []router.Endpoint) (router.Router, error)
	// Endpoints is the number of engines. Zero means 8.
	Endpoints int
	// KVCacheTokens is the size of each engine's KV cache. Zero means 400,000.
	KVCacheTokens int
	// Workload is the traffic.
	Workload Workload
}

// Workload is traffic for the simulator: a [Trace] or a [Swarm].
type Workload struct {
	arrivals []workload.Arrival
	streams  []*workload.Stream
	warmUp   time.Duration
	until    time.Duration // end of a closed loop
}

// Trace returns the traffic of a file in Mooncake's JSONL format, plain or
// gzipped, sped up and cut to the first so many requests (0: all).
func Trace(path string, speedup float64, limit int) (Workload, error) {
	arrivals, err := workload.OpenTrace(path, workload.TraceConfig{Speedup: speedup, Limit: limit})
	return Workload{arrivals: arrivals}, err
}

// Swarm returns the traffic of so many agents in a closed loop: 64 personas with
// 24,000 to 32,000 tokens of system prompt each, drawn by Zipf's law, sessions of
// 5 to 20 turns. What is sent in the warm-up is not counted; the simulation ends
// after the duration.
func Swarm(seed uint64, streams int, warmUp, duration time.Duration) (Workload, error) {
	if streams < 1 {
		return Workload{}, fmt.Errorf("routertest: a swarm of %d streams", streams)
	}
	s, err := workload.NewSwarm(workload.SwarmConfig{Seed: seed})
	if err != nil {
		return Workload{}, err
	}
	w := Workload{warmUp: warmUp, until: duration}
	for i := range streams {
		w.streams = append(w.streams, s.Stream(uint32(i)))
	}
	return w, nil
}

// Result is what became of the counted requests of a simulation. Times are from
// the moment a client sends.
type Result struct {
	Requests int
	HitRate  float64 // share of prompt tokens that were cached, 0 to 1
	TTFT     Quantiles
	E2E      Quantiles
	Rate     float64 // requests per second
	// Imbalance is the busy time of the busiest engine relative to the mean.
	Imbalance float64
	// Predicted is the hit rate that the router expected.
	Predicted float64
	// Longest is the longest time to first token.
	Longest time.Duration
}

// Quantiles of a time.
type Quantiles struct{ Mean, P50, P90, P99 time.Duration }

// Simulate runs a scenario in virtual time: the same scenario gives the same
// result everywhere. A workload can be used once.
func Simulate(s Scenario) (*Result, error) {
	if s.Router == nil {
		return nil, errors.New("routertest: Scenario.Router is nil")
	}
	if s.Endpoints < 0 {
		return nil, fmt.Errorf("routertest: Scenario.Endpoints %d is negative", s.Endpoints)
	}
	if s.Endpoints == 0 {
		s.Endpoints = 8
	}
	c := &cluster{scenario: &s, byID: make(map[string]int, s.Endpoints)}
	endpoints := make([]router.Endpoint, s.Endpoints)
	for i := range endpoints {
		e, err := engine.New(engine.Config{KVTokens: s.KVCacheTokens})
		if err != nil {
			return nil, fmt.Errorf("routertest: Scenario.KVCacheTokens: %w", err)
		}
		c.engines = append(c.engines, e)
		endpoints[i] = router.Endpoint{ID: fmt.Sprint("e", i), Weight: 1}
		c.byID[endpoints[i].ID] = i
	}
	var err error
	if c.router, err = s.Router(endpoints); err != nil {
		return nil, err
	}
	if err := c.run(); err != nil {
		return nil, err
	}
	return c.result(), nil
}

// cluster is a simulation in progress.
type cluster struct {
	scenario  *Scenario
	router    router.Router
	engines   []*engine.Engine
	byID      map[string]int
	trips     []*trip
	due       agenda
	events    []engine.Event
	sig       tokenprefix.Signature
	scheduled int
}

// trip is a request and what became of it.
type trip struct {
	decision       *router.Decision
	at, first, end time.Duration
	prompt, cached int
	stream         *workload.Stream
}

// simulationStart is the time of a router at the beginning of a simulation.
var simulationStart = time.Unix(1_000_000, 0)

func (c *cluster) run() error {
	w := &c.scenario.Workload
	for _, s := range w.streams {
		c.schedule(0, s)
	}
	for i := range w.arrivals {
		a := &w.arrivals[i]
		c.add(appointment{at: a.At, request: a.Request})
	}
	for {
		i, at := c.next()
		switch {
		case len(c.due) > 0 && (i < 0 || c.due[0].at <= at):
			a := heap.Pop(&c.due).(appointment)
			if w.until > 0 && a.at >= w.until {
				return nil
			}
			if err := c.send(&a); err != nil {
				return err
			}
		case i < 0 || w.until > 0 && at >= w.until:
			return nil
		default:
			c.step(i, at)
		}
	}
}

// next returns the engine whose iteration ends first, or -1.
func (c *cluster) next() (int, time.Duration) {
	best, at := -1, time.Duration(0)
	for i, e := range c.engines {
		if end, ok := e.Next(); ok && (best < 0 || end < at) {
			best, at = i, end
		}
	}
	return best, at
}

func (c *cluster) send(a *appointment) error {
	r := &a.request
	r.Prompt.Signature(&c.sig, router.BlockTokens)
	d, err := c.router.Pick(router.Request{Prefix: &c.sig, At: simulationStart.Add(a.at)})
	if err != nil {
		return fmt.Errorf("routertest: request %d at %v: %w", len(c.trips), a.at, err)
	}
	i, ok := c.byID[d.Endpoint.ID]
	if !ok {
		return fmt.Errorf("routertest: request %d was sent to %q, which does not exist", len(c.trips), d.Endpoint.ID)
	}
	tokens := r.Prompt.Tokens()
	if err := c.engines[i].Submit(a.at, engine.Request{
		ID: int64(len(c.trips)), Blocks: r.EngineBlocks(nil, 16), PromptTokens: tokens, OutputTokens: r.Answer.Tokens,
	}); err != nil {
		return err
	}
	c.trips = append(c.trips, &trip{decision: d, at: a.at, prompt: tokens, stream: a.stream})
	return nil
}

// step completes an iteration of an engine.
func (c *cluster) step(i int, at time.Duration) {
	c.events = c.engines[i].Step(at, c.events[:0])
	for k := range c.events {
		ev := &c.events[k]
		t := c.trips[ev.ID]
		switch ev.Kind {
		case engine.FirstToken:
			t.first, t.cached = ev.At, ev.CachedTokens
			t.decision.FirstTokenAt(simulationStart.Add(ev.At))
		case engine.Done:
			t.end = ev.At
			t.decision.ReleaseAt(simulationStart.Add(ev.At), router.Outcome{
				StatusCode:   200,
				PromptTokens: loadstats.Known(int64(t.prompt)),
				CachedTokens: loadstats.Known(int64(t.cached)),
			})
			if t.stream != nil {
				c.schedule(ev.At, t.stream)
			}
		}
	}
}

// schedule makes a stream send its next turn after its answer of now.
func (c *cluster) schedule(now time.Duration, s *workload.Stream) {
	think, r := s.Next()
	c.add(appointment{at: now + think, request: r, stream: s})
}

func (c *cluster) add(a appointment) {
	a.order = c.scheduled
	c.scheduled++
	heap.Push(&c.due, a)
}

func (c *cluster) result() *Result {
	r := &Result{}
	var ttft, e2e []time.Duration
	var prompt, cached, predicted int
	last := time.Duration(0)
	for _, t := range c.trips {
		if t.at < c.scenario.Workload.warmUp || t.end == 0 {
			continue
		}
		ttft = append(ttft, t.first-t.at)
		e2e = append(e2e, t.end-t.at)
		prompt += t.prompt
		cached += t.cached
		predicted += t.decision.CachedTokens
		last = max(last, t.end)
	}
	if len(ttft) == 0 {
		return r
	}
	r.Requests = len(ttft)
	r.HitRate = float64(cached) / float64(prompt)
	r.Predicted = float64(predicted) / float64(prompt)
	r.TTFT, r.E2E = quantiles(ttft), quantiles(e2e)
	r.Longest = slices.Max(ttft)
	r.Rate = float64(len(ttft)) / (last - c.scenario.Workload.warmUp).Seconds()
	var busiest, sum time.Duration
	for _, e := range c.engines {
		busy := e.Stats().Busy
		busiest = max(busiest, busy)
		sum += busy
	}
	r.Imbalance = float64(busiest) * float64(len(c.engines)) / float64(sum)
	return r
}

// quantiles sorts the times.
func quantiles(d []time.Duration) Quantiles {
	slices.Sort(d)
	var sum time.Duration
	for _, v := range d {
		sum += v
	}
	at := func(q int) time.Duration { return d[(len(d)-1)*q/100] }
	return Quantiles{sum / time.Duration(len(d)), at(50), at(90), at(99)}
}

// appointment is a request that will be sent.
type appointment struct {
	at      time.Duration
	order   int // among those at the same time
	request workload.Request
	stream  *workload.Stream
}

// agenda is a heap of appointments, the next one first.
type agenda []appointment

func (h agenda) Len() int { return len(h) }
func (h agenda) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h agenda) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *agenda) Push(x any)   { *h = append(*h, x.(appointment)) }
func (h *agenda) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
