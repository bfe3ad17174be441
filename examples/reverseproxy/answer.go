package reverseproxy

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
)

// answered is told the head of an answer before the client is.
func (x *exchange) answered(res *http.Response) error {
	h := x.handler
	x.outcome.StatusCode = res.StatusCode
	x.outcome.RetryAfter = retryAfter(res.Header)
	if h.Reports != nil {
		x.takeReport(res.Header)
		loadstats.RemoveORCA(res.Header)
	}
	if h.ShowDecision {
		showDecision(res.Header, x.decision)
	}
	x.extendDeadline()
	if res.StatusCode == http.StatusSwitchingProtocols {
		// The place is held until the tunnel ends. Its body is left as it is,
		// since the proxy needs it to be a connection. What goes on in a tunnel is
		// unknown; it is not one long prefill.
		x.outcome.Abandoned = false
		x.decision.FirstTokenAt(h.now())
		return nil
	}
	if x.body.underWay() && x.client.ProtoMajor < 2 {
		// With an answer to an unfinished request the server takes the rest of it
		// for itself, which the engine would miss, unless the connection is to be
		// closed (net/http, golang.org/issue/40747).
		res.Header.Set("Connection", "close")
	}
	x.scratch.usage.reset()
	b := &answerBody{body: res.Body, res: res, x: x}
	b.plain = res.Header.Get("Content-Encoding") == ""
	b.first.events = b.plain && isType(res.Header, "text/event-stream")
	b.waiting = res.StatusCode == http.StatusOK && x.isStream(res)
	if h.Responses != nil && b.plain && res.StatusCode < 300 && x.client.Method == http.MethodPost {
		b.ids = newIDFinder(x.client.URL.Path)
	}
	res.Body = b
	return nil
}

// isStream says whether an answer is sent as it is generated. One in one piece
// comes after its last token, and the time until then must not be taken for the
// time of a prefill.
func (x *exchange) isStream(res *http.Response) bool {
	return isType(res.Header, "text/event-stream") || isType(res.Header, "application/x-ndjson") ||
		x.streams && res.ContentLength < 0
}

func isType(h http.Header, mediaType string) bool {
	return strings.HasPrefix(h.Get("Content-Type"), mediaType)
}

// answerBody is the body of an answer on its way to the client. It looks at the
// bytes that pass and changes nothing.
type answerBody struct {
	body io.ReadCloser
	res  *http.Response
	x    *exchange

	waiting bool // for the first token
	plain   bool // not compressed
	ended   bool
	first   firstToken
	ids     *idFinder
}

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	x := b.x
	x.clearDeadline() // until the engine has something, the client can't be slow
	n, err := b.body.Read(p)
	if n > 0 {
		b.look(p[:n])
	}
	if err != nil {
		b.end(err)
	}
	x.extendDeadline()
	return n, err
}

// look draws what there is to learn from a piece of the answer.
func (b *answerBody) look(piece []byte) {
	x := b.x
	if b.waiting && b.first.in(piece) {
		b.waiting = false
		if x.decision != nil {
			x.decision.FirstTokenAt(x.handler.now())
		}
	}
	if !b.plain {
		return
	}
	x.scratch.usage.add(piece)
	if b.ids != nil && x.decision != nil && b.ids.add(piece) {
		x.handler.Responses.remember(x.tenant, b.ids.id, x.decision.Endpoint.ID)
	}
}

// end is called when there is no more of the answer to come. The engine has done
// its work even if the client has yet to take the last piece, so the place is
// given back here.
func (b *answerBody) end(err error) {
	x := b.x
	if b.ended {
		return
	}
	b.ended = true
	switch {
	case err == io.EOF:
		x.outcome.Abandoned = false
		x.learnUsage()
		x.takeReport(b.res.Trailer)
	case x.request.Context().Err() == nil:
		x.outcome = router.Outcome{Err: err}
	}
	x.release()
}

// learnUsage takes over what the answer says about its prompt.
func (x *exchange) learnUsage() {
	u := x.scratch.usage.read()
	x.outcome.PromptTokens, x.outcome.CachedTokens = u.prompt, u.cached
	if n, ok := u.prompt.Get(); ok && x.asked.Prefix == &x.scratch.signature {
		x.handler.Hasher.Observe(x.asked.Prefix, int(n))
	}
}

// Close implements io.Closer. Before the end it means that the client has left.
func (b *answerBody) Close() error {
	if b.x.handler.Detach && !b.ended {
		io.Copy(io.Discard, b) // ends the exchange in the usual way
	}
	return b.body.Close()
}

// takeReport passes on the load that the endpoint has put on its answer.
func (x *exchange) takeReport(h http.Header) {
	if x.handler.Reports == nil || len(h) == 0 || x.decision == nil {
		return
	}
	if report, err := loadstats.ReadORCA(x.handler.now(), h); err == nil {
		x.handler.Reports.Report(x.decision.Endpoint.ID, report)
	}
}

// showDecision puts the decision into the headers of the answer.
func showDecision(h http.Header, d *router.Decision) {
	h.Set("X-Router-Endpoint", d.Endpoint.ID)
	h.Set("X-Router-Reason", d.Reason.String())
	h.Set("X-Router-Cached-Tokens", strconv.Itoa(d.CachedTokens))
}

func isBusy(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// retryAfter reads the header in either of its forms, zero if there is none.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if value == "" {
		return 0
	}
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(seconds, 0), 3600)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
