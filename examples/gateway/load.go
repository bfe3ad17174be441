package main

import (
	"context"
	"sync"
	"time"

	"github.com/warmroute/warmroute/internal/workload"
)

// load is the traffic of a run.
type load interface {
	// warmUp is how much of it, in model time, comes before what counts.
	warmUp() time.Duration
	// send sends all of it and waits for the answers. It returns the model time
	// at which the last request was sent.
	send(context.Context, *client, *measurement) time.Duration
	// progress says how far a run is at a model time, 0 to 1.
	progress(now time.Duration, m *measurement) float64
}

func newLoad(o *options) (load, error) {
	if o.trace != "" {
		arrivals, err := workload.OpenTrace(o.trace, workload.TraceConfig{Speedup: o.speedup, Limit: o.requests})
		if err != nil {
			return nil, err
		}
		return traceLoad(arrivals), nil
	}
	swarm, err := workload.NewSwarm(workload.SwarmConfig{Seed: o.seed})
	if err != nil {
		return nil, err
	}
	return &swarmLoad{swarm: swarm, streams: o.streams, requests: o.requests}, nil
}

// Model time of a run of the swarm. The caches are full, and every conversation
// has been opened and closed a few times, before the warm-up is over.
const (
	swarmWarmUp = 60 * time.Second
	swarmCounts = 150 * time.Second
)

// swarmLoad is agents in a closed loop.
type swarmLoad struct {
	swarm    *workload.Swarm
	streams  int
	requests int // that count; zero: as many as there are in swarmCounts
}

func (l *swarmLoad) warmUp() time.Duration { return swarmWarmUp }

func (l *swarmLoad) progress(now time.Duration, m *measurement) float64 {
	if l.requests > 0 {
		m.mu.Lock()
		defer m.mu.Unlock()
		return float64(len(m.samples)) / float64(l.requests)
	}
	return min(1, float64(now)/float64(swarmWarmUp+swarmCounts))
}

func (l *swarmLoad) send(ctx context.Context, c *client, m *measurement) time.Duration {
	var agents sync.WaitGroup
	for i := range l.streams {
		agents.Go(func() { l.agent(ctx, l.swarm.Stream(uint32(i)), c, m) })
	}
	agents.Wait()
	if l.requests > 0 {
		return c.clock.elapsed()
	}
	return swarmWarmUp + swarmCounts
}

// agent is one stream of the swarm.
func (l *swarmLoad) agent(ctx context.Context, s *workload.Stream, c *client, m *measurement) {
	var text []byte
	for {
		think, r := s.Next()
		text = body(text, &r)
		if !c.clock.sleepUntil(ctx, c.clock.elapsed()+think) {
			return
		}
		now := c.clock.elapsed()
		if l.requests == 0 && now >= swarmWarmUp+swarmCounts || !m.begin(now, l.requests) {
			return
		}
		sample := c.do(ctx, text)
		if sample.err != nil {
			text = nil // the transport may not have let go of it
		}
		m.end(sample)
	}
}

// traceLoad is requests at times that were recorded.
type traceLoad []workload.Arrival

func (l traceLoad) warmUp() time.Duration { return 0 }

func (l traceLoad) progress(_ time.Duration, m *measurement) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(len(m.samples)) / float64(len(l))
}

func (l traceLoad) send(ctx context.Context, c *client, m *measurement) time.Duration {
	var (
		open  sync.WaitGroup
		texts sync.Pool // *[]byte
	)
	defer open.Wait()
	for i := range l {
		a := &l[i]
		text, ok := texts.Get().(*[]byte)
		if !ok {
			text = new([]byte)
		}
		*text = body(*text, &a.Request)
		if !c.clock.sleepUntil(ctx, a.At) {
			break
		}
		m.begin(a.At, 0)
		open.Go(func() {
			sample := c.do(ctx, *text)
			if sample.err == nil {
				texts.Put(text)
			}
			m.end(sample)
		})
	}
	return l[len(l)-1].At
}
