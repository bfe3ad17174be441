package router

import (
	"fmt"
	"math"
	"time"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
)

// Config configures a Pool. The zero value of each field is a good default for
// production.
type Config struct {
	// Endpoints are the first members; SetEndpoints changes them. None is
	// allowed: Pick answers ErrNoEndpoints until there are some.
	Endpoints []Endpoint
	// Policy chooses among the endpoints. Nil means balancer.Affinity. It is not
	// asked about a prompt that is being computed somewhere at the moment: the pool
	// sends that there, whatever the policy, since clients that lose patience send
	// the same again. Load tests need prompts that differ.
	Policy balancer.Policy
	// Bound limits the requests in flight of an endpoint relative to the mean,
	// whatever the policy says. The zero value means a Factor of 3 with a Gap of
	// 8, which costs the default policy nothing in the simulation and still
	// catches a policy or a key that goes wrong; a Factor of -1 means no bound.
	Bound balancer.Bound
	// MaxInFlight is the most requests in flight that an endpoint may have.
	// Zero means no limit. When all are there, Pick answers ErrSaturated.
	MaxInFlight int
	// KVCacheTokens is the size of the KV cache, in tokens, of endpoints that
	// don't say. Zero means it is learned, beginning with 262,144.
	KVCacheTokens int
	// Queue is where requests wait that came by Acquire.
	Queue Queue
	// Breaker takes endpoints that fail out of the choice.
	Breaker Breaker
	// SlowStart is the time in which an endpoint that joins a running pool
	// comes up to its full share of requests in flight. Zero means 30 s;
	// negative means at once.
	SlowStart time.Duration
	// Reports is where reports of the engines are found, by Endpoint.ID. Nil means
	// that there are none, which is fine for a single gateway. The pool forgets no
	// endpoint there; see [loadstats.Table.Forget].
	Reports *loadstats.Table
	// ReportMaxAge is the age up to which a report is believed. Zero means 5 s.
	ReportMaxAge time.Duration
	// Seed makes the pool's pseudo-random choices; pools with the same seed and
	// the same calls make the same ones.
	Seed uint64
	// Origin tells the events of this pool from those of others. It is needed
	// only if pools announce events to each other, and must then be different in
	// each and after each restart: a random number will do.
	Origin uint64
	// Hooks are told what happens.
	Hooks Hooks
}

// Hooks are functions that a pool calls, on the goroutine of the caller, so from
// many at once, and with no lock held; they may call the pool. For a request that
// waited in Acquire that is the goroutine of whoever made room for it, and nobody
// else's turn comes until the hook returns: it must not wait for anything, least
// of all in Acquire or WaitIdle. Nil ones are left out.
type Hooks struct {
	// Decided is called with each decision before Pick or Acquire returns it.
	Decided func(*Decision)
	// Released is called with each decision once it is released.
	Released func(*Decision, Outcome)
	// Announce is called with each change of state, for other pools to Apply.
	Announce func(*Event)
}

func (c *Config) setDefaults() error {
	if c.Policy == nil {
		c.Policy = balancer.Affinity{}
	}
	switch {
	case c.Bound.Factor == 0 && c.Bound.Gap == 0:
		c.Bound = balancer.Bound{Factor: 3, Gap: 8}
	case c.Bound.Factor == -1:
		c.Bound = balancer.Bound{}
	case !(c.Bound.Factor >= 1) || math.IsInf(c.Bound.Factor, 0):
		return fmt.Errorf("router: Bound.Factor %v is not a number of at least 1", c.Bound.Factor)
	case !(c.Bound.Gap >= 0) || math.IsInf(c.Bound.Gap, 0):
		return fmt.Errorf("router: Bound.Gap %v is not a number of at least 0", c.Bound.Gap)
	}
	switch {
	case c.MaxInFlight < 0:
		return fmt.Errorf("router: MaxInFlight %d is negative", c.MaxInFlight)
	case c.MaxInFlight == 0:
		c.MaxInFlight = math.MaxInt
	}
	if c.KVCacheTokens < 0 {
		return fmt.Errorf("router: KVCacheTokens %d is negative", c.KVCacheTokens)
	}
	if c.SlowStart == 0 {
		c.SlowStart = 30 * time.Second
	}
	switch {
	case c.ReportMaxAge < 0:
		return fmt.Errorf("router: ReportMaxAge %v is negative", c.ReportMaxAge)
	case c.ReportMaxAge == 0:
		c.ReportMaxAge = 5 * time.Second
	}
	if err := c.Queue.setDefaults(); err != nil {
		return err
	}
	return c.Breaker.setDefaults()
}
