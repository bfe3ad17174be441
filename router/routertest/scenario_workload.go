package routertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmroute/warmroute/internal/workload"
)

// Workload is traffic for [Simulate]: a [Trace], a [Swarm] or [Chat]. It can be
// used for any number of simulations, also at the same time.
type Workload struct {
	// start returns the requests of an open loop and the agents of a closed one.
	start  func() ([]workload.Arrival, []*workload.Stream)
	warmUp time.Duration
	until  time.Duration // end of a closed loop
}

// TraceConfig says how to replay a trace.
type TraceConfig struct {
	// Speedup divides all times: 1e-6 to 1e6. Zero means 1.
	Speedup float64
	// Limit cuts the trace to the first so many requests. Zero means all.
	Limit int
	// WarmUp is the time, after the speed-up, in which requests are sent but not
	// counted.
	WarmUp time.Duration
}

// Trace returns the traffic of a file in the JSONL format of Mooncake's traces
// (https://github.com/kvcache-ai/Mooncake), plain or gzipped: an open loop, whose
// requests come when they came, whatever becomes of them. The simulation ends when
// all are answered. The hashes in a trace name blocks of 512 tokens: what prompts
// share of a block is not seen. The package examples/reverseproxy/record writes
// such files of a gateway's own traffic.
func Trace(path string, c TraceConfig) (Workload, error) {
	if c.Speedup == 0 {
		c.Speedup = 1
	}
	switch {
	case !(c.Speedup >= 1e-6 && c.Speedup <= 1e6):
		return Workload{}, fmt.Errorf("routertest: TraceConfig.Speedup %v is outside 1e-6 to 1e6", c.Speedup)
	case c.Limit < 0:
		return Workload{}, fmt.Errorf("routertest: TraceConfig.Limit %d is negative", c.Limit)
	case c.WarmUp < 0:
		return Workload{}, fmt.Errorf("routertest: TraceConfig.WarmUp %v is negative", c.WarmUp)
	}
	arrivals, err := workload.OpenTrace(path, workload.TraceConfig{Speedup: c.Speedup, Limit: c.Limit})
	if err != nil {
		return Workload{}, fmt.Errorf("routertest: %w", err)
	}
	return openLoop(arrivals, c.WarmUp), nil
}

func openLoop(arrivals []workload.Arrival, warmUp time.Duration) Workload {
	return Workload{
		start:  func() ([]workload.Arrival, []*workload.Stream) { return arrivals, nil },
		warmUp: warmUp,
	}
}

// SwarmConfig describes a swarm of agents. The zero value of each field but
// Streams is its default.
type SwarmConfig struct {
	Seed uint64
	// Streams is the number of agents, each with one request at a time.
	Streams int
	// Greedy is the number of further agents, all of one more tenant, that send
	// 28,000 tokens which nobody has sent before each time.
	Greedy int
	// WarmUp is the time in which requests are not counted. Zero means 120 s.
	WarmUp time.Duration
	// Duration is when the simulation ends, whatever is under way. Zero means
	// 400 s.
	Duration time.Duration
}

// Swarm returns the traffic of agents in a closed loop: each sends a turn, waits
// for the answer, thinks for 0.2 to 1 s, and sends the next. There are 64 personas
// with 24,000 to 32,000 tokens of system prompt and tools each, drawn by Zipf's
// law. A session has 5 to 20 turns, each adds 200 to 2,000 tokens and gets 60 to
// 200 back.
func Swarm(c SwarmConfig) (Workload, error) {
	if c.WarmUp == 0 {
		c.WarmUp = 120 * time.Second
	}
	if c.Duration == 0 {
		c.Duration = 400 * time.Second
	}
	switch {
	case c.Streams < 1 || c.Streams > 1<<20:
		return Workload{}, fmt.Errorf("routertest: SwarmConfig.Streams %d is outside 1 to 2^20", c.Streams)
	case c.Greedy < 0 || c.Greedy > 1<<20:
		return Workload{}, fmt.Errorf("routertest: SwarmConfig.Greedy %d is outside 0 to 2^20", c.Greedy)
	case c.WarmUp < 0 || c.Duration <= c.WarmUp:
		return Workload{}, fmt.Errorf("routertest: SwarmConfig.WarmUp %v is negative or not before the end, %v", c.WarmUp, c.Duration)
	}
	w, err := workload.NewSwarm(workload.SwarmConfig{Seed: c.Seed})
	if err != nil {
		return Workload{}, fmt.Errorf("routertest: %w", err)
	}
	return Workload{
		start: func() ([]workload.Arrival, []*workload.Stream) {
			streams := make([]*workload.Stream, c.Streams)
			for i := range streams {
				streams[i] = w.Stream(uint32(i))
			}
			for i := range c.Greedy {
				streams = append(streams, w.Greedy(uint32(i)))
			}
			return nil, streams
		},
		warmUp: c.WarmUp,
		until:  c.Duration,
	}, nil
}

// ChatConfig describes chat traffic. The zero value of each field but Rate is its
// default.
type ChatConfig struct {
	Seed uint64
	// Rate is the mean number of requests per second: 1e-6 to 1e6.
	Rate float64
	// Conversations is the number of those that go on at a time. Zero means 100.
	Conversations int
	// WarmUp is the time in which requests are not counted.
	WarmUp time.Duration
	// Duration is the time in which requests come. Zero means 400 s.
	Duration time.Duration
}

// Chat returns the traffic of people who chat: an open loop with Poisson arrivals.
// There are 4 applications with 200 to 2,000 tokens of system prompt; a
// conversation has 1 to 12 turns, each adds 10 to 500 tokens and gets 50 to 600
// back. The simulation ends when all requests are answered.
func Chat(c ChatConfig) (Workload, error) {
	if c.Duration == 0 {
		c.Duration = 400 * time.Second
	}
	switch {
	case !(c.Rate >= 1e-6 && c.Rate <= 1e6):
		return Workload{}, fmt.Errorf("routertest: ChatConfig.Rate %v is outside 1e-6 to 1e6", c.Rate)
	case c.Conversations < 0 || c.Conversations > 1<<20:
		return Workload{}, fmt.Errorf("routertest: ChatConfig.Conversations %d is outside 0 to 2^20", c.Conversations)
	case c.WarmUp < 0 || c.Duration <= c.WarmUp:
		return Workload{}, fmt.Errorf("routertest: ChatConfig.WarmUp %v is negative or not before the end, %v", c.WarmUp, c.Duration)
	}
	w, err := workload.NewChat(workload.ChatConfig{Seed: c.Seed, Rate: c.Rate, Open: c.Conversations})
	if err != nil {
		return Workload{}, fmt.Errorf("routertest: %w", err)
	}
	var arrivals []workload.Arrival
	for {
		a := w.Next()
		if a.At >= c.Duration {
			break
		}
		arrivals = append(arrivals, a)
	}
	return openLoop(slices.Clip(arrivals), c.WarmUp), nil
}
