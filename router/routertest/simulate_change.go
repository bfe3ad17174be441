package routertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/warmroute/warmroute/internal/engine"
	"github.com/warmroute/warmroute/router"
)

// errBroken is what gateways see of an engine that crashed.
var errBroken = errors.New("connection reset by a simulated engine")

// change lets something happen to an engine.
func (c *cluster) change(ch *Change) error {
	if ch.Kind == Join {
		if err := c.join(ch.Endpoint, ch.Engine); err != nil {
			return err
		}
		if err := c.tell(); err != nil {
			return err
		}
		return c.breakConnections(ch.Endpoint) // if another engine was there
	}
	e := c.engines[ch.Endpoint]
	switch ch.Kind {
	case Slow:
		e.spec.Speed = ch.Speed
		if e.model != nil {
			return e.model.SetSpeed(ch.Speed)
		}
	case Drain:
		e.endpoint.Weight = 0
		return c.tell()
	case Crash:
		e.stop()
		e.listed = false
		// With a discovery that takes no time the gateways know before they
		// see their connections break.
		if err := c.tell(); err != nil {
			return err
		}
		return c.breakConnections(ch.Endpoint)
	case Restart:
		e.stop()
		if err := e.start(); err != nil {
			return err
		}
		return c.breakConnections(ch.Endpoint)
	}
	return nil
}

// join adds an engine, or one in the place of another.
func (c *cluster) join(number int, spec EngineSpec) error {
	e := &simEngine{spec: spec, endpoint: spec.endpoint(number), listed: true}
	if number < len(c.engines) {
		was := c.engines[number]
		was.stop()
		e.requests, e.sent, e.inFlight, e.peak, e.busy = was.requests, was.sent, was.inFlight, was.peak, was.busy
		c.engines[number] = e
	} else {
		c.engines = append(c.engines, e)
	}
	return e.start()
}

func (e *simEngine) start() error {
	m, err := engine.New(engine.Config{KVTokens: e.spec.KVCacheTokens})
	if err != nil {
		return fmt.Errorf("routertest: %w", err)
	}
	e.model = m
	return m.SetSpeed(e.spec.Speed)
}

// stop ends an engine with all that it was doing.
func (e *simEngine) stop() {
	if e.model != nil {
		e.busy += e.model.Stats().Busy
		e.model = nil
	}
}

// totalBusy is the time in which the endpoint computed something.
func (e *simEngine) totalBusy() time.Duration {
	if e.model == nil {
		return e.busy
	}
	return e.busy + e.model.Stats().Busy
}

// tell makes the fleet of now known to the gateways, after the time that takes.
func (c *cluster) tell() error {
	endpoints := c.endpoints()
	do := func() error {
		for _, g := range c.gateways {
			r, ok := g.router.(interface {
				SetEndpointsAt(time.Time, []router.Endpoint) error
			})
			if !ok {
				return fmt.Errorf("routertest: the fleet changed and the router of gateway %d has no method SetEndpointsAt", g.Number)
			}
			if err := r.SetEndpointsAt(c.time(), endpoints); err != nil {
				return err
			}
		}
		return nil
	}
	if c.scenario.Gateways.Discovery == 0 {
		return do()
	}
	c.at(c.now+c.scenario.Gateways.Discovery, do)
	return nil
}

// breakConnections fails what an engine was doing.
func (c *cluster) breakConnections(number int) error {
	for _, a := range c.attempts {
		if a.engine != number || a.released || !a.delivered {
			continue
		}
		a.delivered = false
		if err := c.later(func() error { return c.fail(a) }); err != nil {
			return err
		}
	}
	return nil
}
