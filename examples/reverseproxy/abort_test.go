package reverseproxy_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
)

// open starts a request and returns its answer as soon as it has a head.
func (g *gateway) open(ctx context.Context, body string) (*http.Response, error) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.server.URL+"/v1/chat/completions", strings.NewReader(body))
	must(g.t, err)
	return g.client.Do(r)
}

// hanging is an engine that sends one event, if told to, and waits until its
// request is cancelled.
type hanging struct {
	events   int
	arrived  chan struct{}
	canceled chan time.Time
	finish   chan struct{} // lets it end without
}

func newHanging(events int) *hanging {
	return &hanging{events, make(chan struct{}, 1000), make(chan time.Time, 1000), make(chan struct{})}
}

func (e *hanging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	e.arrived <- struct{}{}
	for i := range e.events {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %d\n\n", i)
		w.(http.Flusher).Flush()
	}
	select {
	case <-r.Context().Done():
		e.canceled <- time.Now()
	case <-e.finish:
	}
}

// C01: 100 clients leave while they wait for headers. Nothing stays counted, and
// new keys spread as if nothing had been.
func TestC01_AbortBeforeHeaders(t *testing.T) {
	var hang atomic.Bool
	hang.Store(true)
	h := newHanging(0)
	serve := func(w http.ResponseWriter, r *http.Request) {
		if hang.Load() {
			h.ServeHTTP(w, r)
			return
		}
		io.WriteString(w, "{}")
	}
	engines := []string{engine(t, serve), engine(t, serve), engine(t, serve)}
	g := start(t, engines)
	ctx, leave := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	for i := range 100 {
		clients.Go(func() {
			if res, err := g.open(ctx, chat(fmt.Sprint("Persona ", i), 2000)); err == nil {
				res.Body.Close()
			}
		})
	}
	for range 100 {
		<-h.arrived
	}
	if n := inFlight(g.pool); n != 100 {
		t.Errorf("in flight = %d with 100 open, want 100", n)
	}
	leave()
	clients.Wait()
	for range 100 {
		if o := g.outcome(); !o.Abandoned || o.Err != nil {
			t.Fatalf("outcome = %+v, want abandoned", o)
		}
	}
	if n := inFlight(g.pool); n != 0 {
		t.Errorf("in flight = %d after the clients left, want 0", n)
	}
	for _, s := range g.pool.Stats() {
		if s.Cooling || s.Load.FailureShare != 0 {
			t.Errorf("%s is blamed for the clients: %+v", s.Endpoint.ID, s)
		}
	}

	hang.Store(false)
	before := map[string]int64{}
	for _, s := range g.pool.Stats() {
		before[s.Endpoint.ID] = s.Picks
	}
	for i := range 30 {
		g.post(chat(fmt.Sprint("New persona ", i), 2000))
	}
	for _, s := range g.pool.Stats() {
		if n := s.Picks - before[s.Endpoint.ID]; n < 3 || n > 20 {
			t.Errorf("%s got %d of 30 new keys, want about 10", s.Endpoint.ID, n)
		}
	}
}

// C02: nothing resets the count of open streams.
// C06: a stream counts as load until its end, not until its headers.
func TestC06_StreamCountsUntilItsEnd(t *testing.T) {
	finish := make(chan struct{})
	g := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		<-finish
		io.WriteString(w, "data: [DONE]\n\n")
	})})
	var streams []*http.Response
	for range 10 {
		res, err := g.open(context.Background(), chat("x", 100))
		must(t, err)
		streams = append(streams, res)
	}
	for range 5 {
		must(t, g.pool.SetEndpoints(endpoints(t, []string{g.pool.Stats()[0].Endpoint.ID})))
		if n := inFlight(g.pool); n != 10 {
			t.Errorf("in flight = %d with 10 open streams, want 10", n)
		}
	}
	close(finish)
	for _, res := range streams {
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		g.outcome()
	}
	if n := inFlight(g.pool); n != 0 {
		t.Errorf("in flight = %d after the streams, want 0", n)
	}
}

// C03 and C15: an endpoint leaves and comes back under its name while a request
// runs. The late release is for the old one.
func TestC03_C15_EndpointLeavesAndReturns(t *testing.T) {
	h := newHanging(1)
	url := engine(t, h.ServeHTTP)
	g := start(t, []string{url})
	first, cancelFirst := context.WithCancel(context.Background())
	res, err := g.open(first, chat("a", 10))
	must(t, err)
	defer res.Body.Close()
	must(t, g.pool.SetEndpoints(nil))
	must(t, g.pool.SetEndpoints(endpoints(t, []string{url})))
	second, cancelSecond := context.WithCancel(context.Background())
	res, err = g.open(second, chat("b", 10))
	must(t, err)
	defer res.Body.Close()
	current := func() int {
		for _, s := range g.pool.Stats() {
			if !s.Left {
				return s.Load.InFlight
			}
		}
		return -1
	}
	if n := current(); n != 1 {
		t.Errorf("in flight at the new endpoint = %d, want 1", n)
	}
	cancelFirst()
	g.outcome()
	if n := current(); n != 1 {
		t.Errorf("in flight at the new endpoint = %d after the old request left, want 1", n)
	}
	cancelSecond()
	g.outcome()
	if n := current(); n != 0 {
		t.Errorf("in flight at the new endpoint = %d after both, want 0", n)
	}
}

// closer is a transport whose answers have a body of the test's choice.
type closer struct {
	http.RoundTripper
	wrap func(io.ReadCloser) io.ReadCloser
}

func (c closer) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = c.wrap(res.Body)
	}
	return res, err
}

type body struct {
	io.Reader
	close func() error
}

func (b body) Close() error { return b.close() }

// C05: the engine's body breaks, and then even Close fails, or panics.
func TestC05_CloseFails(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("close failed") },
		"panic": func() error { panic(http.ErrAbortHandler) },
	} {
		for _, broken := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/broken=%v", name, broken), func(t *testing.T) {
				rec := newRecorder()
				g := start(t, []string{engine(t, rec.ServeHTTP)}, func(_ *router.Config, h *reverseproxy.Handler) {
					h.Transport = closer{h.Transport, func(c io.ReadCloser) io.ReadCloser {
						r := io.Reader(c)
						if broken {
							r = io.MultiReader(io.LimitReader(c, 3), readFunc(func([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }))
						}
						return body{r, func() error { c.Close(); return fail() }}
					}}
				})
				res, err := g.open(context.Background(), chat("x", 10))
				if err == nil {
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				o := g.outcome()
				if broken && !errors.Is(o.Err, io.ErrUnexpectedEOF) || !broken && (o.Err != nil || o.Abandoned) {
					t.Errorf("outcome = %+v with broken = %v", o, broken)
				}
				select {
				case o := <-g.released:
					t.Errorf("released again with %+v", o)
				default:
				}
			})
		}
	}
}

// C07: every way to fail gives the place back.
func TestC07_FailuresRelease(t *testing.T) {
	t.Run("dial", func(t *testing.T) {
		g := start(t, []string{deadEngine(t)})
		if a := g.post(chat("x", 10)); a.StatusCode != 502 {
			t.Errorf("status = %d, want 502", a.StatusCode)
		}
		if o := g.outcome(); o.Err == nil {
			t.Errorf("outcome = %+v, want an error", o)
		}
	})
	t.Run("header timeout", func(t *testing.T) {
		h := newHanging(0)
		g := start(t, []string{engine(t, h.ServeHTTP)}, func(_ *router.Config, h *reverseproxy.Handler) {
			h.Transport.(*http.Transport).ResponseHeaderTimeout = 50 * time.Millisecond
		})
		if a := g.post(chat("x", 10)); a.StatusCode != 502 {
			t.Errorf("status = %d, want 502", a.StatusCode)
		}
		if o := g.outcome(); o.Err == nil {
			t.Errorf("outcome = %+v, want an error", o)
		}
	})
	t.Run("500", func(t *testing.T) {
		g := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) })})
		if a := g.post(chat("x", 10)); a.StatusCode != 500 || a.body != "no\n" {
			t.Errorf("answer = %d %q, want the engine's", a.StatusCode, a.body)
		}
		if o := g.outcome(); o.StatusCode != 500 {
			t.Errorf("outcome = %+v, want status 500", o)
		}
	})
	t.Run("reset before headers", func(t *testing.T) {
		g := start(t, []string{engine(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })})
		a := g.post(chat("x", 10))
		if code := errorCode(t, a); a.StatusCode != 502 || code != "endpoint_failed" {
			t.Errorf("answer = %d %s, want 502 endpoint_failed", a.StatusCode, code)
		}
		if o := g.outcome(); o.Err == nil {
			t.Errorf("outcome = %+v, want an error", o)
		}
	})
	t.Run("reset in the answer", func(t *testing.T) {
		g := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})})
		res, err := g.open(context.Background(), chat("x", 10))
		must(t, err)
		defer res.Body.Close()
		if b, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("client read %q to a proper end, want an error", b)
		}
		if o := g.outcome(); o.Err == nil || o.Abandoned {
			t.Errorf("outcome = %+v, want an error", o)
		}
	})
}

// C10: after an abort in the middle of the answer ReverseProxy panics with
// http.ErrAbortHandler. The place is given back, the panic goes on to the server,
// nobody logs a crash.
func TestC10_AbortInTheAnswer(t *testing.T) {
	var logged bytes.Buffer
	var mu sync.Mutex
	h := newHanging(1)
	g := start(t, []string{engine(t, h.ServeHTTP)})
	panicked := make(chan any, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			panicked <- p
			if p != nil {
				panic(p)
			}
		}()
		g.handler.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(writeFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return logged.Write(p)
	}), "", 0)
	server.Start()
	defer server.Close()

	ctx, leave := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/chat/completions", strings.NewReader(chat("x", 10)))
	must(t, err)
	res, err := g.client.Do(r)
	must(t, err)
	defer res.Body.Close()
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	if err != nil || line != "data: 0\n" {
		t.Fatalf("first line = %q, %v", line, err)
	}
	leave()
	if o := g.outcome(); !o.Abandoned {
		t.Errorf("outcome = %+v, want abandoned", o)
	}
	if p := <-panicked; p != nil && p != http.ErrAbortHandler {
		t.Errorf("panic = %v, want none or http.ErrAbortHandler", p)
	}
	server.Close()
	mu.Lock()
	defer mu.Unlock()
	if logged.Len() > 0 {
		t.Errorf("logged %q, want nothing", logged.String())
	}
}

type writeFunc func([]byte) (int, error)

func (f writeFunc) Write(p []byte) (int, error) { return f(p) }

// C13: the engine learns within 100 ms that the client has left: at once, for
// nothing waits on the way.
func TestC13_AbortReachesTheEngine(t *testing.T) {
	for _, events := range []int{0, 1} {
		t.Run(fmt.Sprintf("events=%d", events), func(t *testing.T) {
			var h *hanging // made in the bubble, or time would stand still while somebody waits for it
			serve := func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) }
			inTime(t, http.HandlerFunc(serve), func(*timed, *http.Server, *reverseproxy.Handler) { h = newHanging(events) }, func(g *timed) {
				ctx, leave := context.WithCancel(g.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway/", strings.NewReader(chat("x", 10)))
					must(g.T, err)
					if res, err := g.client.Do(r); err == nil {
						io.Copy(io.Discard, res.Body)
						res.Body.Close()
					}
				}()
				<-h.arrived
				time.Sleep(10 * time.Second)
				left := time.Now()
				leave()
				select {
				case at := <-h.canceled:
					if d := at.Sub(left); d != 0 {
						g.Errorf("the engine knew after %v, want at once", d)
					}
				case <-time.After(time.Minute):
					g.Error("the engine was not told within a minute")
					close(h.finish)
					<-done
					return
				}
				if o := <-g.outcome; !o.Abandoned || o.Err != nil || since(left) != 0 {
					g.Errorf("outcome after %v = %+v, want abandoned at once", since(left), o)
				}
				<-done
			})
		})
	}
}

// C14: with Detach the engine finishes what the client has left, and the place
// is held until then.
func TestC14_Detach(t *testing.T) {
	arrived, finish, canceled := make(chan struct{}), make(chan struct{}), make(chan struct{})
	g := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		close(arrived)
		select {
		case <-finish:
		case <-r.Context().Done():
			close(canceled)
			return
		}
		for range 1000 {
			io.WriteString(w, "data: more and more\n\n")
			w.(http.Flusher).Flush()
		}
		io.WriteString(w, `data: {"usage":{"prompt_tokens":7}}`+"\n\n")
	})}, func(_ *router.Config, h *reverseproxy.Handler) { h.Detach = true })
	ctx, leave := context.WithCancel(context.Background())
	res, err := g.open(ctx, chat("x", 10))
	must(t, err)
	<-arrived
	leave()
	res.Body.Close()
	g.client.CloseIdleConnections()
	select {
	case <-canceled:
		t.Fatal("the engine was cancelled")
	case o := <-g.released:
		t.Fatalf("released with %+v before the engine was done", o)
	case <-time.After(50 * time.Millisecond):
	}
	if n := inFlight(g.pool); n != 1 {
		t.Errorf("in flight = %d, want 1", n)
	}
	close(finish)
	o := g.outcome()
	if n, ok := o.PromptTokens.Get(); o.Abandoned || !ok || n != 7 {
		t.Errorf("outcome = %+v, want a whole answer with its usage", o)
	}
}

// C12: an engine that fails every request at once must not draw all of them.
func TestC12_FastFailureDrawsNoTraffic(t *testing.T) {
	bad := engine(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) })
	good := newRecorder()
	g := start(t, []string{bad, engine(t, good.ServeHTTP), engine(t, good.ServeHTTP)})
	failed := 0
	for range 90 {
		if g.post(`{"messages":[]}`).StatusCode == 500 {
			failed++
		}
		for len(good.requests) > 0 {
			<-good.requests
			<-good.bodies
		}
	}
	if failed > 30 {
		t.Errorf("%d of 90 requests went to the failing engine, want less than its share", failed)
	}
}

// C09: aborted requests leave nothing behind; see also the check for goroutines
// after each test.
func TestC09_ClientBreaksOffItsRequest(t *testing.T) {
	rec := newRecorder()
	g := start(t, []string{engine(t, rec.ServeHTTP)}, func(_ *router.Config, h *reverseproxy.Handler) { h.MaxPeek = 1 << 10 })
	for _, sent := range []int{0, 100, 100_000} { // within the peek, and behind it
		c, err := net.Dial("tcp", g.server.Listener.Addr().String())
		must(t, err)
		fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
		if sent > 0 {
			fmt.Fprintf(c, "%x\r\n%s\r\n", sent, strings.Repeat("x", sent))
		}
		c.Close()
	}
	if o := g.outcome(); !o.Abandoned || o.Err != nil {
		t.Errorf("outcome = %+v, want abandoned: the engine is not to blame", o)
	}
	if s := g.pool.Stats()[0]; s.Load.FailureShare != 0 {
		t.Errorf("failure share = %v, want 0", s.Load.FailureShare)
	}
	// The others are refused before anything is picked.
	if !eventually(func() bool { return inFlight(g.pool) == 0 }) {
		t.Error("something stays in flight")
	}
}
