package routertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// Gateway is one gateway of a simulation, and what its router may use. Routers
// other than a pool may have these methods beside Pick; a [router.Pool] has those
// that it needs.
//
//	SetEndpointsAt(time.Time, []router.Endpoint) error
//	    The fleet has changed. Needed for scenarios in which it does.
//	ApplyAt(time.Time, *router.Event) error
//	    Another gateway has announced something.
//	StatsAt(time.Time) []router.EndpointStats
//	    What is in flight, for Result.Leaked.
//	BlockTokens() int
//	    The size of the blocks of the signatures that it wants. Without it they
//	    are those of a pool, router.BlockTokens.
//	FirstTokenAt(time.Time, *router.Decision)
//	ReleaseAt(time.Time, *router.Decision, router.Outcome)
//	    What became of a decision. A pool hears of it through the decision; a
//	    router that makes its own with a literal hears of it here.
type Gateway struct {
	// Number of the gateway, from 0.
	Number int
	// Endpoints are those at the beginning.
	Endpoints []router.Endpoint
	// Reports holds the newest report of each engine, as Scenario.Reports says.
	// It is nil if there are none.
	Reports *loadstats.Table
	// Announce tells the other gateways what this one decided, for a pool's
	// Hooks. It is nil if they share nothing.
	Announce func(*router.Event)

	cluster     *cluster
	router      router.Router
	watching    bool // the router holds requests
	blockTokens int
}

// Config is the configuration of a pool for this gateway. The policy and
// everything that a test is about can be set in it.
func (g *Gateway) Config() router.Config {
	return router.Config{
		Endpoints: g.Endpoints,
		Reports:   g.Reports,
		Seed:      g.cluster.scenario.Seed + uint64(g.Number),
		Origin:    uint64(g.Number) + 1,
		Hooks:     router.Hooks{Announce: g.Announce},
	}
}

// CachedTokens looks into an engine: it returns how many tokens of the prompt with
// the given blocks of 16 tokens are in its cache now. Routers that know this in
// production get it from the engine's events about its cache; others must not call
// it. It is zero for an endpoint that does not exist.
func (g *Gateway) CachedTokens(endpoint string, blocks []uint64) int {
	for _, e := range g.cluster.engines {
		if e.endpoint.ID == endpoint && e.model != nil {
			return e.model.Cached(blocks)
		}
	}
	return 0
}

func (c *cluster) addGateways() error {
	g := &c.scenario.Gateways
	if c.scenario.Reports.Every > 0 {
		c.reports.table = new(loadstats.Table)
	}
	for n := range g.Count {
		one := &Gateway{Number: n, Endpoints: c.endpoints(), Reports: c.reports.table, cluster: c, blockTokens: router.BlockTokens}
		if g.AnnounceDelay > 0 && g.Count > 1 {
			one.Announce = func(e *router.Event) { c.announce(n, e) }
		}
		var err error
		if c.scenario.Router != nil {
			one.router, err = c.scenario.Router(one)
		} else {
			config := one.Config()
			config.Policy = c.scenario.Policy
			one.router, err = router.New(config)
		}
		if err != nil {
			return err
		}
		if one.router == nil {
			return errors.New("routertest: Scenario.Router returned no router")
		}
		if r, ok := one.router.(interface{ BlockTokens() int }); ok {
			one.blockTokens = r.BlockTokens()
		}
		if _, ok := one.router.(queueing); c.scenario.Queue && !ok {
			return fmt.Errorf("routertest: Scenario.Queue needs a router with the methods Enqueue and DispatchAt")
		}
		if one.blockTokens < 1 {
			return fmt.Errorf("routertest: a router wants blocks of %d tokens", one.blockTokens)
		}
		c.gateways = append(c.gateways, one)
	}
	return nil
}

// endpoints returns those that the gateways should know.
func (c *cluster) endpoints() []router.Endpoint {
	var all []router.Endpoint
	for _, e := range c.engines {
		if e.listed {
			all = append(all, e.endpoint)
		}
	}
	return all
}

// gatewayFor returns the gateway that a request arrives at.
func (c *cluster) gatewayFor(k *call) *Gateway {
	n := uint64(len(c.gateways))
	switch {
	case n == 1:
		return c.gateways[0]
	case c.scenario.Gateways.Sticky && k.request.Session != "":
		return c.gateways[xxhash.Sum64String(k.request.Session)%n]
	}
	return c.gateways[c.choice.Uint64()%n]
}

// pick asks the router of the gateway for an attempt, which is told the answer: at
// once, or later if it waits in the router's queue.
func (g *Gateway) pick(a *attempt) error {
	c := g.cluster
	sig := &c.sig
	if c.scenario.Queue {
		sig = new(tokenprefix.Signature) // used as long as the request waits
	}
	k := a.call
	k.request.Prompt.Signature(sig, g.blockTokens)
	r := router.Request{Prefix: sig, Tenant: k.request.Tenant, Exclude: a.tried, At: c.time()}
	if c.scenario.Clients.SessionKeys {
		r.Key = k.request.Session
	}
	if !c.scenario.Queue {
		d, err := g.router.Pick(r)
		return c.answered(a, d, err)
	}
	a.held = g.router.(queueing).Enqueue(r, func(d *router.Decision, err error) {
		a.held = nil
		c.failed = errors.Join(c.failed, c.answered(a, d, err))
	})
	if a.held != nil {
		c.waited = append(c.waited, a)
		g.watch()
	}
	return c.failed
}

// queueing is a router with a queue.
type queueing interface {
	Enqueue(router.Request, func(*router.Decision, error)) *router.Held
	DispatchAt(time.Time) time.Time
}

// watch has the router look at what it holds when it wants to.
func (g *Gateway) watch() {
	if g.watching {
		return
	}
	c := g.cluster
	var look func() error
	look = func() error {
		next := g.router.(queueing).DispatchAt(c.time())
		g.watching = !next.IsZero()
		if g.watching {
			c.at(next.Sub(simulationStart), look)
		}
		return nil
	}
	_ = look()
}

func (g *Gateway) firstToken(d *router.Decision) {
	now := g.cluster.time()
	d.FirstTokenAt(now)
	if r, ok := g.router.(interface {
		FirstTokenAt(time.Time, *router.Decision)
	}); ok {
		r.FirstTokenAt(now, d)
	}
}

func (g *Gateway) release(d *router.Decision, o router.Outcome) {
	now := g.cluster.time()
	d.ReleaseAt(now, o)
	if r, ok := g.router.(interface {
		ReleaseAt(time.Time, *router.Decision, router.Outcome)
	}); ok {
		r.ReleaseAt(now, d, o)
	}
}

// held is what the router still counts: requests, and tokens that it believes they
// pin.
func (g *Gateway) held() (requests, tokens int) {
	r, ok := g.router.(interface {
		StatsAt(time.Time) []router.EndpointStats
	})
	if !ok {
		return 0, 0
	}
	for _, s := range r.StatsAt(g.cluster.time()) {
		requests += s.Load.InFlight
		tokens += s.Load.PinnedTokens
	}
	return requests, tokens
}
