// Package router decides which endpoint serves a request, and keeps the books
// that the decision needs: who holds which prefix, what is in flight where, who
// fails. It joins the four rooms below it; most users import this package and
// [github.com/warmroute/warmroute/tokenprefix].
//
//	pool, err := router.New(router.Config{Endpoints: endpoints})
//	...
//	d, err := pool.Pick(router.Request{Prefix: &signature})
//	if err != nil { ... }                      // ErrSaturated, ErrNoEndpoints
//	outcome := router.Outcome{Abandoned: true} // until more is known: a panic is nobody's success
//	defer func() { d.Release(outcome) }()      // whatever happens
//	... forward to d.Endpoint.URL, call d.FirstToken() at the first byte of a
//	streamed answer's body, set outcome
//
// Pool.Acquire instead of Pick may hold a request until its endpoint has room:
// the same decision, taken as late as possible.
//
// [Pool] is the Router to use: prefix affinity by default, any
// [balancer.Policy] by configuration. [PrefillDecode] and [Shadow] compose
// routers.
package router

import (
	"errors"
	"fmt"
	"time"

	"github.com/warmroute/warmroute/tokenprefix"
)

// Router picks an endpoint for a request. Pick never blocks, and is safe for
// concurrent use. Each Decision must be released.
type Router interface {
	Pick(Request) (*Decision, error)
}

// Request is what a router may know about a request. The zero value is a
// request about which nothing is known: it goes by load.
type Request struct {
	// Prefix is the signature of the prompt, nil if there is none. It is read
	// during the call of Pick or Acquire only; after Enqueue until ready is called.
	Prefix *tokenprefix.Signature
	// Key is an explicit affinity key, such as a session id: requests with the
	// same key have the same home. With a Prefix it moves only the home;
	// without one it stands for the prompt.
	Key string
	// Tenant is who pays for the request, for Queue.Fair. Requests without one
	// belong to one tenant.
	Tenant string
	// HeadStart is the request's priority in the queue: it is ordered there as if
	// it had come so much earlier, or later if negative. More than an hour counts
	// as an hour.
	HeadStart time.Duration
	// MaxOutputTokens is the most the request may generate, zero if unknown.
	MaxOutputTokens int
	// Exclude lists the IDs of endpoints that were tried for this request
	// already. A request with exclusions is a retry and takes from the pool's
	// retry budget: one for every ten requests without, and ten at once.
	Exclude []string
	// Eligible says whether an endpoint, which it must not change, can serve the
	// request at all, for example because it has the LoRA adapter. Nil means all
	// can. It is called during Pick, with no lock held, and must not call the
	// router. Acquire calls it for as long as the request waits, from whatever
	// goroutine makes room.
	Eligible func(*Endpoint) bool
	// At is the time of the request. Zero means time.Now(); simulations and
	// tests give their own.
	At time.Time
}

// Errors of Pick, matched with errors.Is.
var (
	// ErrNoEndpoints: there is no endpoint that could ever serve the request.
	ErrNoEndpoints = errors.New("router: no endpoints")
	// ErrSaturated: there are endpoints, all as full as they may be. The error
	// is a [*SaturatedError].
	ErrSaturated = errors.New("router: saturated")
	// ErrRetryBudget: the request is a retry and retries have used up their
	// share of the traffic.
	ErrRetryBudget = errors.New("router: retry budget exhausted")
)

// SaturatedError says when another attempt makes sense.
type SaturatedError struct {
	// RetryAfter is the time after which an endpoint may have room, at least
	// one second.
	RetryAfter time.Duration
}

// Error implements error.
func (e *SaturatedError) Error() string {
	return fmt.Sprintf("%v, retry after %v", ErrSaturated, e.RetryAfter)
}

// Unwrap makes errors.Is(err, ErrSaturated) true.
func (e *SaturatedError) Unwrap() error { return ErrSaturated }
