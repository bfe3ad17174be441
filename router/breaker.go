package router

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Breaker says when an endpoint that fails is left alone. After Failures in a
// row it takes no requests for Cooling; then a single request probes it. If the
// probe fails the cooling doubles, up to MaxCooling; if it succeeds the endpoint
// is back. When every endpoint that could take a request is cooling, the breaker
// has no better one to offer and does not count.
//
// A failure is an error on the way to the endpoint, or one of the statuses 502,
// 503 and 504, but not a 503 that asks to be left alone ([Outcome.RetryAfter]).
// Other answers are none: a client can provoke them.
type Breaker struct {
	// Failures in a row that open the breaker. Zero means 5; negative means
	// never.
	Failures int
	// Cooling is the first cooling. Zero means 1 s.
	Cooling time.Duration
	// MaxCooling bounds the doubled cooling. Zero means 60 s, or Cooling if that
	// is longer.
	MaxCooling time.Duration
}

func (b *Breaker) setDefaults() error {
	if b.Failures == 0 {
		b.Failures = 5
	}
	if b.Cooling == 0 {
		b.Cooling = time.Second
	}
	if b.MaxCooling == 0 {
		b.MaxCooling = max(b.Cooling, time.Minute)
	}
	switch {
	case b.Cooling < 0:
		return fmt.Errorf("router: Breaker.Cooling %v is negative", b.Cooling)
	case b.MaxCooling < b.Cooling:
		return fmt.Errorf("router: Breaker.MaxCooling %v is below Cooling %v", b.MaxCooling, b.Cooling)
	}
	return nil
}

// circuit is the state of the breaker of one endpoint.
type circuit struct {
	// until is the end of the cooling, in UnixNano; zero while closed. row
	// counts failures in a row. Both are written under the lock, and read
	// without it to keep endpoints that work out of it.
	until atomic.Int64
	row   atomic.Int32

	probing bool
	mu      sync.Mutex    // for what is around it
	opened  int64         // UnixNano; as long as it is open
	cooling time.Duration // last cooling; zero while closed
}

// allows says whether the endpoint may be a candidate now.
func (c *circuit) allows(now int64) bool {
	return c.until.Load() == 0 || c.probes(now)
}

// probes says that the cooling is over and nobody probes the endpoint yet.
func (c *circuit) probes(now int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.probing && !c.cools(now)
}

// cools says whether the cooling goes on. More than the whole of it can only be
// left if the clock was set back, which must not keep the endpoint away.
func (c *circuit) cools(now int64) bool {
	left := c.until.Load() - now
	return left > 0 && left <= int64(c.cooling)
}

// begin is called when a request goes to the endpoint, and says whether it is
// the probe. It is not ok if the circuit has opened, or somebody else has begun
// the probe, since the endpoint was allowed.
func (c *circuit) begin(now int64) (probe, ok bool) {
	if c.until.Load() == 0 {
		return false, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.until.Load() == 0:
		return false, true
	case c.probing || c.cools(now):
		return false, false
	}
	c.probing = true
	return true, true
}

// end is called with the outcome of each request and the time when it was sent,
// and says whether that opened the circuit.
func (c *circuit) end(now, sent int64, v verdict, probe bool, b *Breaker) bool {
	if v != bad && !probe && c.row.Load() == 0 && c.until.Load() == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if probe {
		c.probing = false
	}
	open := c.until.Load() != 0
	switch {
	case v == good && (!open || probe || sent >= c.opened):
		// An answer to a request that was sent before does not close it: an
		// engine that shuts down finishes its streams and refuses new ones.
		c.cooling = 0
		c.row.Store(0)
		c.until.Store(0)
	case v == bad:
		row := int(c.row.Add(1))
		if probe || !open && b.Failures > 0 && row >= b.Failures {
			c.opened = now
			c.cooling = max(b.Cooling, min(2*c.cooling, b.MaxCooling))
			c.until.Store(now + min(int64(c.cooling), math.MaxInt64-max(0, now)))
			return !open
		}
	}
	return false
}
