package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/router/routertest"
)

// ablation are variants of affinity in which one thing is changed: a constant, a
// term of the cost, something that the pool knows.
func ablation() []policy {
	return []policy{
		constant("pressure=0", "recomputing costs the same however busy the fleet is", balancer.Affinity{Pressure: -1}),
		constant("pressure=5", "half the default", balancer.Affinity{Pressure: 5}),
		constant("pressure=20", "twice the default", balancer.Affinity{Pressure: 20}),
		constant("sharing=0", "requests in flight cost nothing", balancer.Affinity{Sharing: -1}),
		constant("sharing=100", "half the default", balancer.Affinity{Sharing: 100}),
		constant("sharing=400", "twice the default", balancer.Affinity{Sharing: 400}),
		without("amortization", "copies of popular prefixes cost as much as others", func(p *balancer.PickInfo) { p.Branches = 0 }),
		without("share", "popular prefixes may have any number of copies", func(p *balancer.PickInfo) { p.AllBranches = 0 }),
		without("memory", "a full cache costs nothing", eachLoad(func(c *balancer.Candidate) { c.Load.CapacityTokens = 0 })),
		told("memory=100%", "a cache is full at 100 % instead of 95 %", eachLoad(func(c *balancer.Candidate) { c.Load.CapacityTokens = c.Load.CapacityTokens * 20 / 19 })),
		told("memory=90%", "a cache is full at 90 %", eachLoad(func(c *balancer.Candidate) { c.Load.CapacityTokens = c.Load.CapacityTokens * 18 / 19 })),
		without("progress", "a prefill counts whole until its first token", eachLoad(func(c *balancer.Candidate) {
			c.Load.Backlog = c.Load.PendingPrefillTokens
		})),
		without("backlog", "what waits for prefill costs nothing", eachLoad(func(c *balancer.Candidate) { c.Load.Backlog = 0 })),
		pool("no_own_blocks", "the shadow has no room for answers", func(c router.Config) (router.Router, error) {
			p, err := router.New(c)
			return &shortAnswers{p}, err
		}),
		pool("no_bound", "no bound on requests in flight", func(c router.Config) (router.Router, error) {
			c.Bound.Factor = -1
			return router.New(c)
		}),
		capacity("capacity=half", "the cache is believed half as large as it is", func(tokens int) int { return tokens / 2 }),
		capacity("capacity=double", "the cache is believed twice as large as it is", func(tokens int) int { return tokens * 2 }),
		capacity("capacity=learned", "nobody tells the size of the cache", func(int) int { return -1 }),
		relearned("learned_from=half", "it is learned, from half of it on", func(tokens int) int { return tokens / 2 }),
		relearned("learned_from=double", "it is learned, from double of it on", func(tokens int) int { return tokens * 2 }),
	}
}

// variant is affinity in a changed scenario.
func variant(name, about string, change func(*routertest.Scenario)) policy {
	return policy{name, about, func(o *options, s *routertest.Scenario) {
		affinity().set(o, s)
		change(s)
	}}
}

func constant(name, about string, a balancer.Affinity) policy {
	return variant(name, about, func(s *routertest.Scenario) { s.Policy = a })
}

func without(what, about string, change func(*balancer.PickInfo)) policy {
	return told("no_"+what, about, change)
}

func told(name, about string, change func(*balancer.PickInfo)) policy {
	return variant(name, about, func(s *routertest.Scenario) { s.Policy = blind{change} })
}

func pool(name, about string, make func(router.Config) (router.Router, error)) policy {
	return variant(name, about, func(s *routertest.Scenario) {
		s.Router = func(g *routertest.Gateway) (router.Router, error) { return make(g.Config()) }
	})
}

func capacity(name, about string, believed func(tokens int) int) policy {
	return variant(name, about, func(s *routertest.Scenario) {
		for i := range s.Engines {
			s.Engines[i].Configured = believed(s.Engines[i].KVCacheTokens)
		}
	})
}

// relearned is a pool that was configured with a size, and is not any more: what it
// was configured with is where learning starts.
func relearned(name, about string, first func(tokens int) int) policy {
	return variant(name, about, func(s *routertest.Scenario) {
		for i := range s.Engines {
			s.Engines[i].Configured = first(s.Engines[i].KVCacheTokens)
		}
		s.Router = func(g *routertest.Gateway) (router.Router, error) {
			p, err := router.New(g.Config())
			if err != nil {
				return nil, fmt.Errorf("first capacity: %w", err)
			}
			unknown := slices.Clone(g.Endpoints)
			for i := range unknown {
				unknown[i].KVCacheTokens = 0
			}
			return p, p.SetEndpointsAt(time.Unix(1_000_000, 0), unknown)
		}
	})
}

// blind is affinity that is told something else than what is true.
type blind struct{ change func(*balancer.PickInfo) }

// Choose changes a copy of the input: the original is the pool's.
func (b blind) Choose(p *balancer.PickInfo) (balancer.Choice, error) {
	changed := *p
	changed.Candidates = slices.Clone(p.Candidates)
	b.change(&changed)
	return balancer.Affinity{}.Choose(&changed)
}

func eachLoad(change func(*balancer.Candidate)) func(*balancer.PickInfo) {
	return func(p *balancer.PickInfo) {
		for i := range p.Candidates {
			change(&p.Candidates[i])
		}
	}
}

// shortAnswers is a pool that is told of each request that it generates one token.
type shortAnswers struct{ *router.Pool }

func (s *shortAnswers) Pick(r router.Request) (*router.Decision, error) {
	r.MaxOutputTokens = 1
	d, err := s.Pool.Pick(r)
	if err != nil {
		return nil, fmt.Errorf("one token: %w", err)
	}
	return d, nil
}
