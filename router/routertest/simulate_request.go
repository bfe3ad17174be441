package routertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/warmroute/warmroute/internal/engine"
	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
)

// call is a request as a client sees it.
type call struct {
	request   workload.Request
	stream    *workload.Stream // nil in an open loop
	sent      time.Duration
	first     time.Duration // zero: no first token yet
	end       time.Duration // zero: not over
	prompt    int           // tokens
	cached    int           // of them
	predicted int           // of them, by the router
	attempts  int           // by the client
	timeouts  int
	lost      bool
	moved     movement
}

// attempt is a request as a gateway and an engine see it.
type attempt struct {
	call      *call
	gateway   *Gateway
	held      *router.Held // in the router's queue
	decision  *router.Decision
	id        int64
	engine    int
	tried     []string // endpoints that failed before
	cached    int
	prefilled bool // there was a first token
	delivered bool // the engine has it
	abandoned bool // the client is not waiting any more
	released  bool
}

// retryPause is what an agent waits before it tries again what failed.
const retryPause = time.Second

func (c *cluster) addWorkload() {
	arrivals, streams := c.scenario.Workload.start()
	for i := range arrivals {
		a := &arrivals[i]
		c.at(a.At, func() error { return c.send(&call{request: a.Request}) })
	}
	for _, s := range streams {
		c.nextTurn(s)
	}
}

// nextTurn makes an agent think and then send.
func (c *cluster) nextTurn(s *workload.Stream) {
	think, r := s.Next()
	c.at(c.now+think, func() error { return c.send(&call{request: r, stream: s}) })
}

// send is what a client does first.
func (c *cluster) send(k *call) error {
	k.sent = c.now
	k.prompt = k.request.Prompt.Tokens()
	c.calls = append(c.calls, k)
	return c.try(k)
}

// try is an attempt of a client.
func (c *cluster) try(k *call) error {
	k.attempts++
	return c.route(k, c.gatewayFor(k), nil)
}

// route is an attempt of a gateway.
func (c *cluster) route(k *call, g *Gateway, tried []string) error {
	a := &attempt{call: k, gateway: g, engine: -1, tried: tried}
	if err := g.pick(a); err != nil {
		return err
	}
	if t := c.scenario.Clients.Timeout; t > 0 && !a.released && k.attempts <= c.scenario.Clients.Duplicates {
		c.at(c.now+t, func() error { return c.timeout(a) })
	}
	return nil
}

// answered is told what the router decided for an attempt.
func (c *cluster) answered(a *attempt, d *router.Decision, err error) error {
	switch {
	case errors.Is(err, router.ErrNoEndpoints), errors.Is(err, router.ErrSaturated), errors.Is(err, router.ErrRetryBudget):
		a.released = true
		return c.lose(a.call)
	case err != nil:
		return fmt.Errorf("routertest: request %d at %v: %w", len(c.calls)-1, c.now, err)
	case d == nil:
		return fmt.Errorf("routertest: request %d at %v got neither a decision nor an error", len(c.calls)-1, c.now)
	}
	a.decision, a.id, a.engine = d, int64(len(c.attempts)), c.find(d.Endpoint.ID)
	if a.engine < 0 {
		return fmt.Errorf("routertest: request %d at %v was sent to %q, which does not exist", len(c.calls)-1, c.now, d.Endpoint.ID)
	}
	c.attempts = append(c.attempts, a)
	c.picked(a)
	return c.later(func() error { return c.deliver(a) })
}

func (c *cluster) find(id string) int {
	for i, e := range c.engines {
		if e.endpoint.ID == id {
			return i
		}
	}
	return -1
}

// deliver brings an attempt to its engine.
func (c *cluster) deliver(a *attempt) error {
	e := c.engines[a.engine]
	if e.model == nil {
		return c.later(func() error { return c.fail(a) })
	}
	if a.released {
		return nil // taken back on the way
	}
	r := &a.call.request
	a.delivered = true
	err := e.model.Submit(c.now, engine.Request{
		ID: a.id, Blocks: r.EngineBlocks(nil, 16), PromptTokens: a.call.prompt, OutputTokens: r.Answer.Tokens,
	})
	if errors.Is(err, engine.ErrTooLarge) {
		return c.later(func() error { return c.refuse(a) })
	}
	return err
}

// firstToken is the first token of an attempt at its gateway.
func (c *cluster) firstToken(a *attempt, cached int) error {
	if a.released {
		return nil
	}
	a.prefilled, a.cached = true, cached
	a.gateway.firstToken(a.decision)
	if !a.abandoned {
		a.call.first = c.now
	}
	return nil
}

// done is the end of an answer at its gateway.
func (c *cluster) done(a *attempt) error {
	if a.released {
		return nil
	}
	c.release(a, router.Outcome{
		StatusCode:   200,
		PromptTokens: loadstats.Known(int64(a.call.prompt)),
		CachedTokens: loadstats.Known(int64(a.cached)),
	})
	if a.abandoned {
		return nil
	}
	k := a.call
	k.end, k.cached, k.predicted = c.now, a.cached, a.decision.CachedTokens
	if k.stream != nil {
		c.nextTurn(k.stream)
	}
	return nil
}

func (c *cluster) release(a *attempt, o router.Outcome) {
	a.released = true
	c.engines[a.engine].inFlight--
	a.gateway.release(a.decision, o)
}

// timeout is when the client has no patience any more.
func (c *cluster) timeout(a *attempt) error {
	if a.prefilled || a.released {
		return nil
	}
	a.abandoned = true
	c.timedOut(a.call)
	if a.held != nil { // nothing was sent that could be left to finish
		a.held.CancelAt(c.time())
		a.released = true
	} else if c.scenario.Clients.Cancel {
		c.release(a, abandoned)
		if err := c.later(func() error {
			if m := c.engines[a.engine].model; m != nil {
				m.Cancel(c.now, a.id)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return c.try(a.call)
}

// fail is a connection that broke. What has not begun to answer is tried
// elsewhere by the gateway; an answer that breaks off is lost.
func (c *cluster) fail(a *attempt) error {
	if a.released {
		return nil
	}
	c.release(a, router.Outcome{Err: errBroken})
	if a.abandoned {
		return nil
	}
	if a.prefilled {
		return c.lose(a.call)
	}
	tried := append(a.tried[:len(a.tried):len(a.tried)], a.decision.Endpoint.ID)
	return c.route(a.call, a.gateway, tried)
}

// refuse is the answer to a prompt that is larger than the engine's cache.
func (c *cluster) refuse(a *attempt) error {
	if a.released {
		return nil
	}
	c.release(a, router.Outcome{StatusCode: 400})
	if a.abandoned {
		return nil
	}
	return c.lose(a.call)
}

// lose is a request without an answer. An agent tries the same turn again.
func (c *cluster) lose(k *call) error {
	c.lost(k)
	if k.stream != nil {
		again := &call{request: k.request, stream: k.stream}
		c.at(c.now+retryPause, func() error { return c.send(again) })
	}
	return nil
}
