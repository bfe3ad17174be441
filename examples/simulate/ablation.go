package main

import (
	"fmt"
	"slices"

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
		without("continues", "later turns are not told from first ones", func(p *balancer.PickInfo) { p.Continues = false }),
		without("memory", "a full cache costs nothing", eachLoad(func(c *balancer.Candidate) { c.Load.CapacityTokens = 0 })),
		without("progress", "a prefill counts whole until its first token", eachLoad(func(c *balancer.Candidate) {
			c.Load.Backlog = c.Load.PendingPrefillTokens
		})),
		without("backlog", "what waits for prefill costs nothing", eachLoad(func(c *balancer.Candidate) { c.Load.Backlog = 0 })),
		{"no_own_blocks", "the shadow has no room for answers", func(_ *options, s *routertest.Scenario) {
			s.Router = func(g *routertest.Gateway) (router.Router, error) {
				p, err := router.New(g.Config())
				return &shortAnswers{p}, err
			}
		}},
		{"no_bound", "no bound on requests in flight", func(_ *options, s *routertest.Scenario) {
			s.Router = func(g *routertest.Gateway) (router.Router, error) {
				c := g.Config()
				c.Bound.Factor = -1
				return router.New(c)
			}
		}},
		capacity("capacity=half", "the cache is believed half as large as it is", func(tokens int) int { return tokens / 2 }),
		capacity("capacity=double", "the cache is believed twice as large as it is", func(tokens int) int { return tokens * 2 }),
		capacity("capacity=learned", "nobody tells the size of the cache", func(int) int { return -1 }),
	}
}

func constant(name, about string, a balancer.Affinity) policy {
	return policy{name, about, func(_ *options, s *routertest.Scenario) { s.Policy = a }}
}

func without(what, about string, change func(*balancer.PickInfo)) policy {
	return policy{"no_" + what, about, func(_ *options, s *routertest.Scenario) { s.Policy = blind{change} }}
}

func capacity(name, about string, believed func(tokens int) int) policy {
	return policy{name, about, func(_ *options, s *routertest.Scenario) {
		for i := range s.Engines {
			s.Engines[i].Configured = believed(s.Engines[i].KVCacheTokens)
		}
	}}
}

// blind is affinity that is told something else than what is.
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
