// Package reverseproxy is an http.Handler that forwards LLM requests to the
// endpoints that a [router.Router] picks. It is an example to import or to
// copy: everything that is hard about picking is the router's; what is here is
// what HTTP asks of an adapter.
//
//	pool, err := router.New(router.Config{Endpoints: endpoints})
//	...
//	handler := &reverseproxy.Handler{Router: pool, Hasher: &tokenprefix.Hasher{}}
//	http.ListenAndServe(":8080", handler)
//
// A request goes this way: the beginning of its body is read, the router is asked
// with the signature of its prompt, it is sent, elsewhere if nothing could be
// connected to, and what comes back is passed on and watched for its first token
// and its usage. The files of the source that do it are, in the same order,
// handler.go, requestbody.go, request.go, exchange.go and answer.go.
//
// Bodies are never rewritten, in either direction. So what some gateways put into
// them has to come from elsewhere:
//
//   - vLLM's cache_salt, which keeps tenants out of each other's cache pages, from
//     the client or from the layer that authenticates it
//     (tokenprefix.Hasher.CacheSalt makes the value), or there are engines for
//     each tenant. The signature of a body with a salt depends on it.
//   - Usage in streams, from which the router learns what was cached, from clients
//     (stream_options.include_usage) or from the engine's own settings
//     (--enable-force-include-usage in vLLM; cached tokens need
//     --enable-prompt-tokens-details there, --enable-cache-report in SGLang). The
//     router works without it.
//   - Limits on the size of bodies, from http.MaxBytesHandler.
package reverseproxy

import (
	"context"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// Handler forwards requests. Router is needed; the zero value of every other
// field is a good default. It is safe for concurrent use; it must not be copied,
// nor its fields changed, once it has served a request.
//
// Its own answers are JSON objects in the form of OpenAI's errors, with these
// codes:
//
//   - 503 saturated, with Retry-After: the router is saturated.
//   - 503 no_endpoints: the router has no endpoint for the request.
//   - 503 routing_failed: the router, its policy or the handler is set up in a way
//     that can't work, for example a Hasher with other blocks than the router's, or
//     an endpoint without URL.
//   - 502 endpoint_unreachable, endpoint_failed: the endpoint can't be connected to,
//     or breaks before it has answered.
//   - 413 body_too_large: the body is longer than http.MaxBytesHandler allows.
//   - 400 request_unreadable: the client breaks off in its body, or sends what can't
//     be forwarded.
//
// Every routing_failed is logged with its error, to http.Server.ErrorLog. Nothing
// else is: router.Config.Hooks see every decision and how it ended.
type Handler struct {
	// Router picks the endpoint of each request.
	Router router.Router
	// Queue, if not nil, is asked in the place of Router when a request comes, and
	// may let it wait until its endpoint has room: a router.Pool, whose Acquire says
	// what that is good for. Retries don't wait again. Nor do requests whose body is
	// not read to its end before the router is asked, which is so if it is longer than
	// MaxPeek or multipart, and for all bodies if Hasher is nil: nobody would notice
	// that their client has left, and they have no signature to wait for. Clients see
	// nothing of it but a later answer: a comment to keep their connection alive would
	// be the beginning of an answer, and after that neither this gateway's 503 nor the
	// engine's own status could reach them.
	Queue Queue
	// Hasher makes the signatures of prompts, in blocks of router.BlockTokens,
	// which is also its default. Nil means that bodies are not looked at, and
	// requests go by load.
	Hasher *tokenprefix.Hasher
	// Scope says who may share prefixes with a request: above all its tenant,
	// which only the gateway's own authentication knows. Nil means one tenant.
	// See [HeaderTenant] and [BearerTenant].
	Scope func(*http.Request) tokenprefix.Scope
	// Refine completes what the router is asked, for example with the endpoints
	// that have the request's adapter (router.Request.Eligible) or with an
	// affinity key (see [CacheKey]). Nil means that nothing is added. The Meta is
	// valid during the call only; it is zero for a body that can't be read.
	Refine func(*http.Request, *tokenprefix.Meta, *router.Request)

	// Transport carries the requests to the endpoints. Nil means a transport
	// from [NewTransport], one for the handler.
	Transport http.RoundTripper
	// MaxPeek is how many bytes of a body are read for its signature before the
	// router is asked; compressed bodies are decoded up to the same size. Zero
	// or less means 1 MiB. A longer body is forwarded all the same and routed by
	// load.
	MaxPeek int
	// Decoders decode bodies for their signatures, by content coding in lower
	// case. Nil means that only gzip is known, as it is in the standard library;
	// the module in the directory zstdbody has one for zstd. Bodies in other
	// codings are routed by load.
	Decoders map[string]Decoder
	// Responses remembers which endpoint holds which response, for requests that
	// name one (previous_response_id). Nil means that nobody remembers.
	Responses *ResponseTable
	// Reports, if not nil, is given the load that endpoints put on their answers
	// when they are asked to (ORCA). Then clients don't see these headers.
	Reports *loadstats.Table

	// RetryBusy also tries another endpoint when one answers 429 or 503 and the
	// body is still at hand. By default only endpoints that could not be
	// connected to are given up for another, as nothing reached them.
	RetryBusy bool
	// Detach lets engines finish what a client has left, for those that don't
	// survive an abort. The place at the endpoint is held until then.
	Detach bool
	// StallTimeout is about the longest time that a client may take to accept a
	// piece of the answer. It replaces http.Server.WriteTimeout, which would cut long
	// streams however lively. Zero means a minute; negative means that the
	// server's deadlines stay as they are.
	StallTimeout time.Duration
	// ShowDecision adds X-Router-* headers to answers: endpoint, reason, tokens
	// believed to be cached. They tell one tenant about others, so they are for
	// debugging.
	ShowDecision bool
	// Now is the time that the router is told. Nil means time.Now; engines that
	// run in scaled time need a clock to match.
	Now func() time.Time

	once    sync.Once
	shared  shared
	full    fullness
	scratch sync.Pool // *scratch
}

// Queue picks endpoints, and may wait for them. It is safe for concurrent use.
type Queue interface {
	Acquire(context.Context, router.Request) (*router.Decision, error)
}

// ServeHTTP forwards one request and its answer.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.once.Do(h.prepare)
	if wait := h.full.since(h.now()); wait > 0 {
		refuse(w, r, &router.SaturatedError{RetryAfter: wait}) // without reading the body
		return
	}
	body, err := h.peek(r)
	if err != nil {
		refuseRequest(w, err)
		return
	}
	defer body.release()

	x := h.begin(w, r, body)
	// Deferred, because a broken answer makes ReverseProxy panic with
	// http.ErrAbortHandler.
	defer x.end()
	// The pick comes before the proxy: Rewrite can't fail, and a request that
	// nobody can serve is not to be set up.
	if err := x.pick(); err != nil {
		refuse(w, r, err)
		return
	}
	proxy := httputil.ReverseProxy{
		Rewrite:        x.rewrite,
		Transport:      x, // picks again and retries, if it may
		ModifyResponse: x.answered,
		ErrorHandler:   x.failed,
		BufferPool:     &h.shared.buffers,
		ErrorLog:       h.shared.log,
	}
	proxy.ServeHTTP(w, x.request)
}
