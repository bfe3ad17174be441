package reverseproxy_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// gateway is a handler with everything around it, over real connections.
type gateway struct {
	t       *testing.T
	pool    *router.Pool
	handler *reverseproxy.Handler
	server  *httptest.Server
	client  *http.Client

	decided  chan *router.Decision
	released chan router.Outcome
}

// start serves a handler for the engines at the given URLs. When the test is
// over nothing may be in flight, and no goroutine left.
func start(t *testing.T, engines []string, change ...func(*router.Config, *reverseproxy.Handler)) *gateway {
	t.Helper()
	before := runtime.NumGoroutine()
	g := &gateway{
		t:        t,
		decided:  make(chan *router.Decision, 10_000),
		released: make(chan router.Outcome, 10_000),
	}
	config := router.Config{Endpoints: endpoints(t, engines)}
	transport := reverseproxy.NewTransport()
	g.handler = &reverseproxy.Handler{Hasher: &tokenprefix.Hasher{}, Transport: transport}
	for _, f := range change {
		f(&config, g.handler)
	}
	config.Hooks.Decided = func(d *router.Decision) { g.decided <- d }
	config.Hooks.Released = func(_ *router.Decision, o router.Outcome) { g.released <- o }
	pool, err := router.New(config)
	must(t, err)
	g.pool, g.handler.Router = pool, pool
	g.server = httptest.NewServer(g.handler)
	g.client = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100}}
	t.Cleanup(func() {
		g.server.Close()
		g.client.CloseIdleConnections()
		transport.CloseIdleConnections()
		if n := inFlight(pool); n != 0 {
			t.Errorf("%d in flight after the test, want 0", n)
		}
		noGrowth(t, before)
	})
	return g
}

// noGrowth fails the test if goroutines have come to stay.
func noGrowth(t *testing.T, before int) {
	t.Helper()
	const some = 4 // of the engines' servers, which are closed later
	ok := eventually(func() bool { return runtime.NumGoroutine() <= before+some })
	if !ok {
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
	}
}

// eventually waits for what other goroutines do on their own.
func eventually(done func() bool) bool {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if done() {
			return true
		}
	}
	return false
}

func endpoints(t *testing.T, urls []string) []router.Endpoint {
	t.Helper()
	list, err := router.ParseEndpoints(urls...)
	must(t, err)
	return list
}

func inFlight(p *router.Pool) int {
	n := 0
	for _, s := range p.Stats() {
		n += s.Load.InFlight
	}
	return n
}

// engine serves a fake engine for the time of the test.
func engine(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

// deadEngine returns the URL of an engine that is not there: the port of a
// client, which is taken, so that nobody else comes to listen there.
func deadEngine(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	t.Cleanup(func() { c.Close(); l.Close() })
	return "http://" + c.LocalAddr().String()
}

// answer is an answer that was read to its end.
type answer struct {
	*http.Response
	body string
}

func (g *gateway) post(body string, headers ...string) answer {
	g.t.Helper()
	return g.send(http.MethodPost, "/v1/chat/completions", body, headers...)
}

// send sends a request and reads its answer. Headers are "Name: value".
func (g *gateway) send(method, path, body string, headers ...string) answer {
	g.t.Helper()
	r, err := http.NewRequest(method, g.server.URL+path, strings.NewReader(body))
	must(g.t, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return g.do(r)
}

func (g *gateway) do(r *http.Request) answer {
	g.t.Helper()
	res, err := g.client.Do(r)
	must(g.t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	must(g.t, err)
	return answer{res, string(b)}
}

func (g *gateway) outcome() router.Outcome {
	g.t.Helper()
	select {
	case o := <-g.released:
		return o
	case <-time.After(10 * time.Second):
		g.t.Fatal("nothing was released within 10 s")
		return router.Outcome{}
	}
}

func (g *gateway) decision() *router.Decision {
	g.t.Helper()
	select {
	case d := <-g.decided:
		return d
	default:
		g.t.Fatal("no decision was made")
		return nil
	}
}

// chat returns a chat body with about the given size of text.
func chat(system string, size int) string {
	text := strings.Repeat(system+" and some more. ", size/(len(system)+16)+1)
	return `{"model":"m","messages":[{"role":"system","content":"` + text + `"},{"role":"user","content":"go"}],"stream":true}`
}

// recorder is an engine that keeps what it was sent.
type recorder struct {
	requests chan *http.Request
	bodies   chan []byte
}

func newRecorder() *recorder {
	return &recorder{make(chan *http.Request, 100), make(chan []byte, 100)}
}

func (e *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	e.requests <- r
	e.bodies <- body
	io.WriteString(w, `{"ok":true}`)
}

func sameBytes(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s = %d bytes %.80q, want %d bytes %.80q", what, len(got), got, len(want), want)
	}
}

func target(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	must(t, err)
	return u
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
