package engine_test

import (
	"container/heap"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/engine"
	"github.com/warmroute/warmroute/internal/workload"
)

var (
	tracePath = flag.String("mooncake", "", "trace `file` for TestCluster_MatchesReference")
)

// cluster is the least discrete-event loop that can route requests to engines.
type cluster struct {
	engines  []*engine.Engine
	choose   func(*cluster, workload.Request) int
	inFlight []int
	turn     int // of round robin
	requests []*trip
	events   []engine.Event
	blocks   []uint64
	done     func(*trip)
}

// trip is what became of a request.
type trip struct {
	workload.Request
	at, first, end time.Duration
	endpoint       int
	cached         int
	stream         *workload.Stream
}

func newCluster(t testing.TB, n int, choose func(*cluster, workload.Request) int) *cluster {
	t.Helper()
	c := &cluster{choose: choose, inFlight: make([]int, n), done: func(*trip) {}}
	for range n {
		e, err := engine.New(engine.Config{})
		if err != nil {
			t.Fatal(err)
		}
		c.engines = append(c.engines, e)
	}
	return c
}

func roundRobin(c *cluster, _ workload.Request) int {
	c.turn++
	return (c.turn - 1) % len(c.engines)
}

func leastRequest(c *cluster, _ workload.Request) int {
	return slices.Index(c.inFlight, slices.Min(c.inFlight))
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

func (c *cluster) send(t testing.TB, at time.Duration, r workload.Request, s *workload.Stream) {
	tr := &trip{Request: r, at: at, endpoint: c.choose(c, r), stream: s}
	blocks := r.Prompt.EngineBlocks(nil, 16)
	err := c.engines[tr.endpoint].Submit(at, engine.Request{
		ID: int64(len(c.requests)), Blocks: blocks, PromptTokens: r.Prompt.Tokens(), OutputTokens: r.OutputTokens,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.requests = append(c.requests, tr)
	c.inFlight[tr.endpoint]++
}

func (c *cluster) step(i int, at time.Duration) {
	c.events = c.engines[i].Step(at, c.events[:0])
	for _, ev := range c.events {
		tr := c.requests[ev.ID]
		switch ev.Kind {
		case engine.FirstToken:
			tr.first = ev.At
			tr.cached = ev.CachedTokens
		case engine.Done:
			tr.end = ev.At
			c.inFlight[i]--
			c.done(tr)
		}
	}
}

func (c *cluster) runTrace(t testing.TB, arrivals []workload.Arrival) {
	for {
		i, at := c.next()
		if len(arrivals) > 0 && (i < 0 || arrivals[0].At <= at) {
			c.send(t, arrivals[0].At, arrivals[0].Request, nil)
			arrivals = arrivals[1:]
			continue
		}
		if i < 0 {
			return
		}
		c.step(i, at)
	}
}

type due struct {
	at time.Duration
	n  int
	r  workload.Request
	s  *workload.Stream
}
type dueHeap []due

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].n < h[j].n
}
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)   { *h = append(*h, x.(due)) }
func (h *dueHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func (c *cluster) runSwarm(t testing.TB, w *workload.Swarm, streams int, until time.Duration) {
	var h dueHeap
	n := 0
	schedule := func(at time.Duration, s *workload.Stream) {
		think, r := s.Next()
		n++
		heap.Push(&h, due{at + think, n, r, s})
	}
	c.done = func(tr *trip) { schedule(tr.end, tr.stream) }
	for i := range streams {
		schedule(0, w.Stream(uint32(i)))
	}
	for {
		i, at := c.next()
		if len(h) > 0 && (i < 0 || h[0].at <= at) {
			d := heap.Pop(&h).(due)
			if d.at >= until {
				return
			}
			c.send(t, d.at, d.r, d.s)
			continue
		}
		if at >= until {
			return
		}
		c.step(i, at)
	}
}

func (c *cluster) report(from time.Duration) string {
	var ttft []time.Duration
	var prompt, cached int
	for _, tr := range c.requests {
		if tr.at < from || tr.end == 0 {
			continue
		}
		ttft = append(ttft, tr.first-tr.at)
		prompt += tr.Prompt.Tokens()
		cached += tr.cached
	}
	slices.Sort(ttft)
	sum := time.Duration(0)
	for _, d := range ttft {
		sum += d
	}
	q := func(f float64) int64 { return ttft[int(f*float64(len(ttft)-1))].Milliseconds() }
	return fmt.Sprintf("%d requests, hit %.1f%%, mean %d, p50 %d, p90 %d, p99 %d",
		len(ttft), 100*float64(cached)/float64(prompt), (sum / time.Duration(len(ttft))).Milliseconds(), q(.5), q(.9), q(.99))
}

// policies are the two that the reference results are compared by.
var policies = []struct {
	name   string
	choose func(*cluster, workload.Request) int
}{{"least_request", leastRequest}, {"round_robin", roundRobin}}

func TestCluster_Trace(t *testing.T) {
	if *tracePath == "" {
		t.Skip("no -mooncake file")
	}
	for _, p := range policies {
		for _, speed := range []float64{1, 1.5, 1.7} {
			start := time.Now()
			arrivals, err := workload.OpenTrace(*tracePath, workload.TraceConfig{Speedup: speed})
			if err != nil {
				t.Fatal(err)
			}
			read := time.Since(start)
			c := newCluster(t, 8, p.choose)
			c.runTrace(t, arrivals)
			t.Logf("%s x%v: %s (read %v, all %v)", p.name, speed, c.report(0), read, time.Since(start))
		}
	}
}

func TestCluster_Swarm(t *testing.T) {
	for _, p := range policies {
		for _, streams := range []int{20, 60, 100} {
			for seed := uint64(1); seed <= 3; seed++ {
				start := time.Now()
				w, err := workload.NewSwarm(workload.SwarmConfig{Seed: seed})
				if err != nil {
					t.Fatal(err)
				}
				c := newCluster(t, 8, p.choose)
				c.runSwarm(t, w, streams, 400*time.Second)
				t.Logf("%s swarm %d: %s (%v)", p.name, streams, c.report(120*time.Second), time.Since(start))
			}
		}
	}
}
