package reverseproxy_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// The tests in this file are about what a transport may do with its request, with
// transports that do it.

// script is a transport whose attempts are functions, in order; the last one is
// used again.
type script struct {
	attempts []func(*http.Request) (*http.Response, error)
	n        int
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	f := s.attempts[min(s.n, len(s.attempts)-1)]
	s.n++
	res, err := f(r)
	if err != nil && r.Body != nil {
		r.Body.Close()
	}
	return res, err
}

func scripted(attempts ...func(*http.Request) (*http.Response, error)) func(*router.Config, *reverseproxy.Handler) {
	return func(_ *router.Config, h *reverseproxy.Handler) {
		h.MaxPeek = 1 << 10
		h.Transport = &script{attempts: attempts}
	}
}

var errDial = &net.OpError{Op: "dial", Err: errors.New("refused")}

func respond(r *http.Request, status int, text string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)), Request: r}
}

func echo(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	return respond(r, 200, string(b)), nil
}

var twoEndpoints = []string{"http://one/base1", "http://two/base2"}

// Once some of what streams from the client has been read, it can't be sent
// again, whatever the error.
func TestTransport_NoRetryOfSpentBody(t *testing.T) {
	g := start(t, twoEndpoints, scripted(func(r *http.Request) (*http.Response, error) {
		io.CopyN(io.Discard, r.Body, 8<<10)
		return nil, errDial
	}, echo))
	if a := g.post(chat("x", 50_000)); a.StatusCode != 502 {
		t.Errorf("status = %d, want 502", a.StatusCode)
	}
	g.outcome()
	if n := len(g.decided); n != 1 {
		t.Errorf("%d decisions, want 1", n)
	}
}

// C100: a transport that finds its connection closed asks for the body again.
func TestTransport_GetBody(t *testing.T) {
	for _, size := range []int{100, 50_000} { // within the peek, and behind it
		g := start(t, twoEndpoints, scripted(func(r *http.Request) (*http.Response, error) {
			io.CopyN(io.Discard, r.Body, 50) // into the closed connection
			r.Body.Close()
			again, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			r.Body = again
			return echo(r)
		}))
		b := chat("x", size)
		req, err := http.NewRequest(http.MethodPost, g.server.URL+"/v1/x", reader(b, true))
		must(t, err)
		if a := g.do(req); a.StatusCode != 200 || a.body != b {
			t.Errorf("answer of %d bytes = %d, %d bytes; want 200 and the body", len(b), a.StatusCode, len(a.body))
		}
	}
}

// A body that is gone is not given out again.
func TestTransport_GetBodyOfSpentBody(t *testing.T) {
	var got error
	g := start(t, twoEndpoints, scripted(func(r *http.Request) (*http.Response, error) {
		io.CopyN(io.Discard, r.Body, 8<<10)
		_, got = r.GetBody()
		return nil, errDial
	}))
	g.post(chat("x", 50_000))
	if got == nil {
		t.Error("GetBody of a body that was not kept succeeds, want an error")
	}
}

// C82: an engine is busy after it has read the body. Another gets all of the body
// again, or, if it was not kept, none.
func TestC82_RetrySendsTheWholeBody(t *testing.T) {
	busy := func(r *http.Request) (*http.Response, error) {
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
		return respond(r, 503, "busy"), nil
	}
	for _, c := range []struct{ size, attempts int }{{100, 2}, {50_000, 1}} { // within the peek, and behind it
		g := start(t, twoEndpoints, scripted(busy, echo), func(_ *router.Config, h *reverseproxy.Handler) { h.RetryBusy = true })
		b, want := chat("x", c.size), "busy"
		if c.attempts > 1 {
			want = b
		}
		if a := g.post(b); a.body != want {
			t.Errorf("answer to %d bytes = %.80q, want %.80q", len(b), a.body, want)
		}
		if n := len(g.decided); n != c.attempts {
			t.Errorf("%d decisions for a body of %d bytes, want %d", n, len(b), c.attempts)
		}
	}
}

// With RetryBusy a body that was not kept is not risked even if nobody has read
// of it: the first engine may still do.
func TestTransport_BusyBeforeReading(t *testing.T) {
	busy := func(r *http.Request) (*http.Response, error) { return respond(r, 503, "busy"), nil }
	g := start(t, twoEndpoints, scripted(busy, echo), func(_ *router.Config, h *reverseproxy.Handler) { h.RetryBusy = true })
	if a := g.post(chat("x", 50_000)); a.body != "busy" {
		t.Errorf("answer = %.80q, want the first one's", a.body)
	}
}

// The request of an attempt is left alone when the next one is made, and that one
// has its own target.
func TestTransport_AttemptsAreApart(t *testing.T) {
	var first *http.Request
	var url, header string
	g := start(t, twoEndpoints, scripted(func(r *http.Request) (*http.Response, error) {
		first, url, header = r, r.URL.String(), fmt.Sprint(r.Header)
		return nil, errDial
	}, func(r *http.Request) (*http.Response, error) {
		if first == r || first.URL.String() != url || fmt.Sprint(first.Header) != header {
			t.Errorf("first request is now %s %v, was %s %s", first.URL, first.Header, url, header)
		}
		want := map[string]string{"one": "http://one/base1", "two": "http://two/base2"}[r.URL.Host] + "/v1/x?a=b"
		if r.URL.String() != want || r.URL.Host == first.URL.Host {
			t.Errorf("second request goes to %s after %s, want the other's %s", r.URL, url, want)
		}
		return respond(r, 200, ""), nil
	}))
	if a := g.send(http.MethodPost, "/v1/x?a=b", "{}", reverseproxy.AttemptHeader+": 99"); a.StatusCode != 200 {
		t.Errorf("status = %d, want 200", a.StatusCode)
	}
	if strings.Contains(header, reverseproxy.AttemptHeader) {
		t.Errorf("headers of the first attempt = %s, want no %s", header, reverseproxy.AttemptHeader)
	}
}

// A transport that reads on after everything is over gets an error, and the
// client's body is left alone: by then it belongs to somebody else.
func TestTransport_ReadsAfterTheEnd(t *testing.T) {
	var late *http.Request
	g := start(t, twoEndpoints, scripted(func(r *http.Request) (*http.Response, error) {
		late = r
		return respond(r, 200, ""), nil
	}))
	reads := 0
	body := readFunc(func(p []byte) (int, error) {
		reads++
		return len(p), nil
	})
	g.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/x", body))
	before := reads
	b, err := io.ReadAll(io.LimitReader(late.Body, 1<<20))
	if err == nil || reads != before {
		t.Errorf("read %d bytes after the end, %v, %d reads of the client's body; want an error and none", len(b), err, reads-before)
	}
	late.Body.Close()
	late.Body.Close()
	if _, err := late.Body.Read(make([]byte, 1)); err == nil {
		t.Error("Read after Close succeeds, want an error")
	}
	if _, err := late.GetBody(); err == nil {
		t.Error("GetBody after the end succeeds, want an error")
	}
}

// The memory of a body serves the next one as soon as the transport has sent it,
// not when the stream that answers it ends.
func TestTransport_StreamsHoldNoBodies(t *testing.T) {
	const streams, size = 60, 500_000
	end := make(chan struct{})
	g := start(t, twoEndpoints, scripted(func(r *http.Request) (*http.Response, error) {
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
		res := respond(r, 200, "")
		res.Body = io.NopCloser(readFunc(func([]byte) (int, error) { <-end; return 0, io.EOF }))
		return res, nil
	}), func(_ *router.Config, h *reverseproxy.Handler) { h.MaxPeek = 1 << 20 })
	b := chat("x", size)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it would empty the pool
	grown := allocated(func() {
		var open sync.WaitGroup
		defer open.Wait()
		defer close(end)
		for range streams { // one after the other, and all stay open
			answered := make(chan struct{})
			open.Go(func() {
				r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(b))
				g.handler.ServeHTTP(headed{httptest.NewRecorder(), answered}, r)
			})
			<-answered
		}
	})
	// Under the race detector a sync.Pool loses a quarter of what it is given.
	if grown > streams*size*3/4 {
		t.Errorf("%d bytes allocated for %d streams with bodies of %d, want the memory of a few", grown, streams, size)
	}
}

// headed is a writer that tells when it has the header.
type headed struct {
	*httptest.ResponseRecorder
	answered chan struct{}
}

func (h headed) WriteHeader(status int) {
	h.ResponseRecorder.WriteHeader(status)
	close(h.answered)
}

// Nothing is added to what clients accept, or they would get something else.
func TestNewTransport_AcceptEncoding(t *testing.T) {
	rec := newRecorder()
	g := start(t, []string{engine(t, rec.ServeHTTP)})
	g.post("{}")
	if got := (<-rec.requests).Header.Values("Accept-Encoding"); len(got) != 0 {
		t.Errorf("Accept-Encoding = %q, want none as from the client", got)
	}
}

// What can't have a signature is not waited for.
func TestHandler_BodiesThatStreamThrough(t *testing.T) {
	for _, c := range []struct {
		name, contentType string
		length            int64
		hasher            *tokenprefix.Hasher
	}{
		{"multipart", "multipart/form-data; boundary=x", -1, new(tokenprefix.Hasher)},
		{"longer than the peek", "application/json", 5 << 20, new(tokenprefix.Hasher)},
		{"no hasher", "application/json", -1, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			arrived := make(chan struct{})
			g := start(t, []string{engine(t, func(_ http.ResponseWriter, r *http.Request) {
				io.ReadFull(r.Body, make([]byte, 5))
				close(arrived)
				io.Copy(io.Discard, r.Body)
			})}, func(_ *router.Config, h *reverseproxy.Handler) { h.Hasher = c.hasher })
			read, write := io.Pipe()
			go func() {
				io.WriteString(write, "begin")
				<-arrived // before there is more of it
				if c.length > 0 {
					io.WriteString(write, strings.Repeat("x", int(c.length)-5))
				}
				write.Close()
			}()
			req, err := http.NewRequest(http.MethodPost, g.server.URL+"/v1/audio", read)
			must(t, err)
			req.ContentLength = c.length
			req.Header.Set("Content-Type", c.contentType)
			if a := g.do(req); a.StatusCode != 200 {
				t.Errorf("status = %d, want 200", a.StatusCode)
			}
		})
	}
}

// That the endpoints of one adapter are full says nothing about others.
func TestHandler_SaturatedForSome(t *testing.T) {
	entered, leave := make(chan struct{}, 10), make(chan struct{})
	slow := engine(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		entered <- struct{}{}
		<-leave
	})
	rec := newRecorder()
	g := start(t, nil, func(c *router.Config, h *reverseproxy.Handler) {
		c.MaxInFlight = 1
		h.Refine = func(_ *http.Request, m *tokenprefix.Meta, r *router.Request) {
			id := string(m.Model)
			r.Eligible = func(e *router.Endpoint) bool { return e.ID == id }
		}
	})
	must(t, g.pool.SetEndpoints([]router.Endpoint{
		{ID: "slow", URL: target(t, slow), Weight: 1}, {ID: "idle", URL: target(t, engine(t, rec.ServeHTTP)), Weight: 1},
	}))
	done := make(chan struct{})
	go func() { defer close(done); g.post(`{"model":"slow","prompt":"x"}`) }()
	<-entered
	if a := g.post(`{"model":"slow","prompt":"y"}`); a.StatusCode != 503 {
		t.Errorf("status = %d where there is no room, want 503", a.StatusCode)
	}
	if a := g.post(`{"model":"idle","prompt":"y"}`); a.StatusCode != 200 {
		t.Errorf("status = %d where there is room, want 200", a.StatusCode)
	}
	close(leave)
	<-done
}

// The place is free when the engine has sent everything, whenever the client
// takes it.
func TestHandler_SlowClientHoldsNoPlace(t *testing.T) {
	const size = 30_000 // one piece, beyond all buffers on the way
	inTime(t, http.NotFoundHandler(), func(_ *timed, _ *http.Server, h *reverseproxy.Handler) {
		h.Transport = &script{attempts: []func(*http.Request) (*http.Response, error){func(r *http.Request) (*http.Response, error) {
			res := respond(r, 200, strings.Repeat("x", size))
			text := res.Body
			res.Body = io.NopCloser(readFunc(func(p []byte) (int, error) { // the end comes with the last bytes
				n, err := io.ReadFull(text, p[:size])
				return n, cmp.Or(err, io.EOF)
			}))
			return res, nil
		}}}
	}, func(g *timed) {
		res := g.open(g.Context())
		defer res.Body.Close()
		if o := <-g.outcome; o.Abandoned || o.Err != nil { // before anything is read
			g.Errorf("outcome = %+v, want success", o)
		}
		if n, err := io.Copy(io.Discard, res.Body); n != size || err != nil {
			g.Errorf("body = %d bytes, %v; want %d", n, err, size)
		}
	})
}
