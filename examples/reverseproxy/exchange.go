package reverseproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
)

// AttemptHeader tells an endpoint that its request was sent to others before:
// the number of the attempt, from 2. First attempts don't carry it.
const AttemptHeader = "X-Router-Attempt"

// exchange is one request and its answer. It is used on the goroutine of the
// handler only.
type exchange struct {
	handler *Handler
	writer  http.ResponseWriter
	client  *http.Request // as it came
	request *http.Request // as it goes to the proxy
	cancel  context.CancelFunc
	body    *requestBody
	scratch *scratch

	asked   router.Request
	tenant  string
	holder  string // ID of the endpoint that holds what the request continues
	streams bool   // the request asks for a stream

	base        url.URL   // the client's, cleaned, without target
	extendAfter time.Time // when the client's deadline is due to be extended

	attempt  int
	sent     bool             // to the transport
	decision *router.Decision // nil when nothing is held
	outcome  router.Outcome   // of the decision, as far as is known
}

func (h *Handler) begin(w http.ResponseWriter, r *http.Request, body *requestBody) *exchange {
	x := &exchange{handler: h, writer: w, client: r, request: r, body: body}
	x.scratch = h.scratch.Get().(*scratch)
	if h.Detach {
		var ctx context.Context
		ctx, x.cancel = context.WithCancel(context.WithoutCancel(r.Context()))
		x.request = r.WithContext(ctx)
	}
	x.clearDeadline()
	return x
}

// end gives back what the exchange still holds, however it ended.
func (x *exchange) end() {
	x.release()
	if x.cancel != nil {
		x.cancel()
	}
	x.handler.scratch.Put(x.scratch)
}

// release gives back the place at the endpoint. It must be safe to call at any
// time.
func (x *exchange) release() {
	if d := x.decision; d != nil {
		x.decision = nil
		d.ReleaseAt(x.handler.now(), x.outcome)
		x.handler.full.clear()
	}
}

// pick takes a place at an endpoint.
func (x *exchange) pick() error {
	h := x.handler
	if x.attempt == 0 {
		x.ask()
	}
	x.asked.At = h.now()
	seen := h.full.moment()
	d, err := x.choose()
	if err != nil {
		if x.attempt == 0 && h.Queue == nil && x.asked.Eligible == nil && x.holder == "" {
			h.full.note(seen, x.asked.At, err) // any other request would hear the same
		}
		return err
	}
	if d.Endpoint.URL == nil {
		err := fmt.Errorf("reverseproxy: endpoint %q has no URL", d.Endpoint.ID)
		d.ReleaseAt(h.now(), router.Outcome{Err: err})
		return err
	}
	x.attempt++
	// What a panic would leave: nobody's fault, nothing to learn.
	x.decision, x.outcome = d, router.Outcome{Abandoned: true}
	return nil
}

// choose asks the router, for the holder of a response first.
func (x *exchange) choose() (*router.Decision, error) {
	if x.holder != "" {
		pinned, holder := x.asked, x.holder
		pinned.Eligible = func(e *router.Endpoint) bool { return e.ID == holder }
		d, err := x.route(pinned)
		if !errors.Is(err, router.ErrNoEndpoints) {
			return d, err
		}
		// It has left or is failing, and the response with it: the next one will
		// say so in its API's own words.
	}
	return x.route(x.asked)
}

// route asks the queue if there is one and the request may wait, else the router.
// What was tried has waited already. And a client whose body is not read to its
// end could leave without anybody noticing: net/http watches the connection of
// HTTP/1 only after that.
func (x *exchange) route(r router.Request) (*router.Decision, error) {
	if q := x.handler.Queue; q != nil && x.attempt == 0 && x.body.rest == nil {
		return q.Acquire(x.client.Context(), r)
	}
	return x.handler.Router.Pick(r)
}

// rewrite makes the request that goes to the endpoint from the client's.
func (x *exchange) rewrite(p *httputil.ProxyRequest) {
	x.base = *p.Out.URL
	p.SetXForwarded()
	p.Out.Trailer = p.In.Trailer // filled in at the end of the body
	p.Out.Header.Del(AttemptHeader)
	loadstats.RemoveORCA(p.Out.Header) // a client must not forge a report
	if x.handler.Reports != nil {
		loadstats.RequestORCA(p.Out.Header)
	}
	x.target(p)
}

// target points the request at the endpoint.
func (x *exchange) target(p *httputil.ProxyRequest) {
	u := x.base
	p.Out.URL = &u
	p.SetURL(x.decision.Endpoint.URL)
	if x.attempt > 1 {
		p.Out.Header.Set(AttemptHeader, strconv.Itoa(x.attempt))
	}
}

// RoundTrip implements http.RoundTripper for the proxy: it sends the request,
// and sends it elsewhere for as long as that can neither compute nor answer
// anything twice.
func (x *exchange) RoundTrip(out *http.Request) (*http.Response, error) {
	x.sent = true
	hasBody := out.Body != nil
	for {
		if hasBody {
			body, err := x.body.open()
			if err != nil {
				return nil, err
			}
			out.Body = body
			out.GetBody = x.body.open // for connections that turn out to be closed
		}
		res, err := x.handler.shared.transport.RoundTrip(out)
		if err != nil && !x.clientFailed() {
			x.outcome = router.Outcome{Err: err}
		}
		if !x.again(res, err) {
			x.body.letGo() // streams can be long
			return res, err
		}
		if res != nil {
			io.CopyN(io.Discard, res.Body, maxDrain)
			res.Body.Close()
		}
		next := out.Clone(out.Context()) // the transport may still look at the old one
		x.target(&httputil.ProxyRequest{In: x.client, Out: next})
		out = next
	}
}

// maxDrain is how much of an answer that nobody wants is read, so that its
// connection can be used again.
const maxDrain = 2 << 10

// again says whether there is to be another attempt after this one. If so, it
// has picked the endpoint and given up the old one.
func (x *exchange) again(res *http.Response, err error) bool {
	switch {
	case x.body.touched.Load() || x.clientFailed():
		return false
	case err != nil && !failedToDial(err):
		return false // it may have been computed
	case err == nil && !(x.handler.RetryBusy && isBusy(res.StatusCode)):
		return false
	case err == nil && x.body.rest != nil:
		return false // of which the first attempt may still be reading
	}
	failed, outcome := x.decision, x.outcome
	if err == nil {
		outcome = router.Outcome{StatusCode: res.StatusCode, RetryAfter: retryAfter(res.Header)}
	}
	x.asked.Exclude = append(x.asked.Exclude, failed.Endpoint.ID)
	x.holder = "" // it was the one that failed
	if x.pick() != nil {
		return false
	}
	failed.ReleaseAt(x.handler.now(), outcome)
	x.handler.full.clear()
	return true
}

// clientFailed says that what went wrong is the client's doing: it has left, or
// broke off in the middle of its request.
func (x *exchange) clientFailed() bool {
	return x.body.broken.Load() || x.request.Context().Err() != nil
}

// failedToDial says that no connection was made, so that nothing was sent.
func failedToDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// failed answers for an endpoint that did not.
func (x *exchange) failed(w http.ResponseWriter, _ *http.Request, err error) {
	x.release()
	x.extendDeadline()
	if !x.sent || x.body.broken.Load() {
		refuseRequest(w, err)
		return
	}
	refuseEndpoint(w, err)
}
