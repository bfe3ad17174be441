package routertest

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/warmroute/warmroute/internal/engine"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// Simulate runs a scenario in virtual time and says what became of the requests.
// The same scenario gives the same result on every machine: routers are told the
// time in Request.At and by the methods of Decision that take one, and every
// choice of the simulator comes from Scenario.Seed. Twelve thousand requests to
// eight engines take about half a second.
//
// The error is one of the scenario, of making a router, or of a router that does
// what routers must not do, such as choosing an endpoint that does not exist. A
// router that has no endpoint for a request is no error but a lost request.
func Simulate(s Scenario) (*Result, error) {
	if err := s.setDefaults(); err != nil {
		return nil, err
	}
	c := &cluster{scenario: &s, choice: rand.NewPCG(s.Seed, 0)}
	for i, e := range s.Engines {
		if err := c.join(i, e); err != nil {
			return nil, err
		}
	}
	if err := c.addGateways(); err != nil {
		return nil, err
	}
	c.tally.sampled = s.Interval
	for i := range s.Changes {
		c.at(s.Changes[i].At, func() error { return c.change(&s.Changes[i]) })
	}
	c.addWorkload()
	if err := c.run(); err != nil {
		return nil, err
	}
	return c.finish(), nil
}

// cluster is a simulation in progress.
type cluster struct {
	scenario  *Scenario
	gateways  []*Gateway
	engines   []*simEngine
	now       time.Duration
	due       agenda
	scheduled int        // appointments made
	bus       bus        // announcements under way
	reports   reporting  // of engines
	attempts  []*attempt // all, by ID
	waited    []*attempt // those that a router held
	calls     []*call    // all
	choice    *rand.PCG  // of gateways
	tally     tally

	failed error // what went wrong inside of a router's call

	events []engine.Event        // scratch of step
	sig    tokenprefix.Signature // scratch of route
}

// simEngine is an endpoint and the engine behind it.
type simEngine struct {
	spec     EngineSpec
	model    *engine.Engine // nil after a crash
	endpoint router.Endpoint
	listed   bool // gateways should know it
	requests int  // sent to the endpoint
	sent     int  // of them in this interval
	inFlight int  // of all gateways, as those see it
	peak     int  // most in flight
	busy     time.Duration
}

// simulationStart is the time of a router at the beginning of a simulation.
var simulationStart = time.Unix(1_000_000, 0)

func (c *cluster) time() time.Time { return simulationStart.Add(c.now) }

// run goes from one thing that happens to the next until there is none. Of what
// happens at the same time, appointments come first, in the order in which they
// were made, then engines in the order of their numbers.
func (c *cluster) run() error {
	until := c.scenario.Workload.until
	for {
		i, at := c.nextEngine()
		appointed := len(c.due) > 0 && (i < 0 || c.due[0].at <= at)
		if appointed {
			at = c.due[0].at
		}
		if c.failed != nil {
			return c.failed
		}
		if !appointed && i < 0 || until > 0 && at >= until {
			return nil
		}
		if err := c.advance(at); err != nil {
			return err
		}
		if appointed {
			if err := heap.Pop(&c.due).(appointment).do(); err != nil {
				return err
			}
			continue
		}
		if err := c.step(i); err != nil {
			return err
		}
	}
}

// advance moves the time, and with it what goes on in the background: reports,
// announcements, measurements.
func (c *cluster) advance(to time.Duration) error {
	for c.tally.sampled <= to {
		c.sample()
	}
	if err := c.deliverReports(to); err != nil {
		return err
	}
	if err := c.deliverAnnouncements(to); err != nil {
		return err
	}
	c.now = to
	return nil
}

// nextEngine returns the engine whose iteration ends first, or -1.
func (c *cluster) nextEngine() (int, time.Duration) {
	best, at := -1, time.Duration(0)
	for i, e := range c.engines {
		if e.model == nil {
			continue
		}
		if end, ok := e.model.Next(); ok && (best < 0 || end < at) {
			best, at = i, end
		}
	}
	return best, at
}

// step completes an iteration of an engine.
func (c *cluster) step(i int) error {
	c.events = c.engines[i].model.Step(c.now, c.events[:0])
	for _, ev := range c.events {
		a := c.attempts[ev.ID]
		var err error
		switch ev.Kind {
		case engine.FirstToken:
			err = c.later(func() error { return c.firstToken(a, ev.CachedTokens) })
		case engine.Done:
			err = c.later(func() error { return c.done(a) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// at makes an appointment.
func (c *cluster) at(t time.Duration, do func() error) {
	heap.Push(&c.due, appointment{t, c.scheduled, do})
	c.scheduled++
}

// later does something on the other end of the network.
func (c *cluster) later(do func() error) error {
	if c.scenario.Gateways.Latency == 0 {
		return do()
	}
	c.at(c.now+c.scenario.Gateways.Latency, do)
	return nil
}

// appointment is something that will be done.
type appointment struct {
	at    time.Duration
	order int // among those at the same time
	do    func() error
}

// agenda is a heap of appointments, the next one first.
type agenda []appointment

func (h agenda) Len() int { return len(h) }
func (h agenda) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h agenda) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *agenda) Push(x any)   { *h = append(*h, x.(appointment)) }
func (h *agenda) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = appointment{}
	*h = old[:len(old)-1]
	return x
}
