package rivals

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/router/routertest"
	"github.com/warmroute/warmroute/tokenprefix"
)

// blockTokens is the size of the blocks that all rivals see, that of vLLM.
const blockTokens = 16

// fleet is what the rivals have in common: a list of engines, the requests in
// flight on each, a source of random numbers. It is a router for a simulation, and
// not safe for concurrent use.
type fleet struct {
	engines []*engine // as listed
	joined  int       // engines so far
	flights map[*router.Decision]*flight
	random  *rand.PCG
	chooser chooser
}

// engine is an endpoint as a rival sees it.
type engine struct {
	endpoint router.Endpoint
	number   int // unique; an endpoint that comes back gets another one
	inFlight int
	prefill  int // tokens sent, believed not cached, without a first token
}

// flight is a request in flight.
type flight struct {
	engine     *engine
	sent       time.Time
	first      time.Time
	uncached   int
	prefilling bool
	node       *node // where a rule keeps the prompt, nil if it does not
}

// request is what a rule may look at.
type request struct {
	*router.Request
	at     time.Time
	blocks []uint64
	tokens int
}

// chooser is a rule. Candidates are never empty.
type chooser interface {
	// choose returns a candidate, and how many tokens of the prompt it is
	// believed to have cached.
	choose(f *fleet, r *request, candidates []*engine) (*engine, int)
}

// Rules that learn have some of these methods.
type (
	sender interface {
		send(f *fleet, r *request, l *flight)
	}
	releaser interface {
		release(f *fleet, l *flight, at time.Time)
	}
)

func newFleet(g *routertest.Gateway, c chooser) *fleet {
	f := &fleet{flights: make(map[*router.Decision]*flight), random: rand.NewPCG(uint64(g.Number), 1), chooser: c}
	f.list(g.Endpoints)
	return f
}

func (f *fleet) list(endpoints []router.Endpoint) {
	var engines []*engine
	for _, e := range endpoints {
		i := slices.IndexFunc(f.engines, func(old *engine) bool { return old.endpoint.ID == e.ID })
		if i >= 0 {
			f.engines[i].endpoint = e
			engines = append(engines, f.engines[i])
			continue
		}
		engines = append(engines, &engine{endpoint: e, number: f.joined})
		f.joined++
	}
	f.engines = engines
}

// SetEndpointsAt changes the list of engines.
func (f *fleet) SetEndpointsAt(_ time.Time, endpoints []router.Endpoint) error {
	f.list(endpoints)
	return nil
}

// BlockTokens is the size of the blocks of the signatures that the rules read.
func (f *fleet) BlockTokens() int { return blockTokens }

// Pick asks the rule.
func (f *fleet) Pick(r router.Request) (*router.Decision, error) {
	if r.Prefix == nil {
		r.Prefix = new(tokenprefix.Signature)
	}
	var candidates []*engine
	for _, e := range f.engines {
		if e.endpoint.Weight > 0 && !slices.Contains(r.Exclude, e.endpoint.ID) {
			candidates = append(candidates, e)
		}
	}
	if len(candidates) == 0 {
		return nil, router.ErrNoEndpoints
	}
	req := &request{Request: &r, at: r.At, blocks: r.Prefix.Blocks, tokens: r.Prefix.Tokens}
	e, cached := f.chooser.choose(f, req, candidates)
	d := &router.Decision{Endpoint: e.endpoint, PromptTokens: req.tokens, CachedTokens: cached, Candidates: len(candidates), At: r.At}
	l := &flight{engine: e, sent: r.At, uncached: max(0, req.tokens-cached), prefilling: true}
	e.inFlight++
	e.prefill += l.uncached
	f.flights[d] = l
	if c, ok := f.chooser.(sender); ok {
		c.send(f, req, l)
	}
	return d, nil
}

// FirstTokenAt ends the prefill of a request.
func (f *fleet) FirstTokenAt(at time.Time, d *router.Decision) {
	l := f.flights[d]
	l.first = at
	f.endPrefill(l)
}

func (f *fleet) endPrefill(l *flight) {
	if l.prefilling {
		l.prefilling = false
		l.engine.prefill -= l.uncached
	}
}

// ReleaseAt ends a request.
func (f *fleet) ReleaseAt(at time.Time, d *router.Decision, _ router.Outcome) {
	l := f.flights[d]
	delete(f.flights, d)
	f.endPrefill(l)
	l.engine.inFlight--
	if c, ok := f.chooser.(releaser); ok {
		c.release(f, l, at)
	}
}

// anyOf returns one of several, all with the same chance.
func (f *fleet) anyOf(engines []*engine) *engine {
	return engines[f.random.Uint64()%uint64(len(engines))]
}

// least returns the candidates of least cost.
func least(candidates []*engine, cost func(*engine) float64) []*engine {
	var best []*engine
	lowest := 0.0
	for _, e := range candidates {
		c := cost(e)
		if len(best) == 0 || c < lowest {
			best, lowest = best[:0], c
		}
		if c == lowest {
			best = append(best, e)
		}
	}
	return best
}

// shortest returns the candidates with the fewest requests in flight.
func shortest(candidates []*engine) []*engine {
	return least(candidates, func(e *engine) float64 { return float64(e.inFlight) })
}
