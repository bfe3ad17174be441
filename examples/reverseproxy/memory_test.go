package reverseproxy_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// memory is a network without a machine, for tests in which time passes: inside
// of a synctest bubble, connections made of pipes leave the clock to the test.
type memory struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newMemory() *memory { return &memory{conns: make(chan net.Conn), done: make(chan struct{})} }

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	m.once.Do(func() { close(m.done) })
	return nil
}

func (m *memory) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case m.conns <- addressed{server}:
		return client, nil
	case <-m.done:
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// addressed is a pipe with an address that looks like one.
type addressed struct{ net.Conn }

func (addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }

// timed is a gateway with one engine in a bubble.
type timed struct {
	*testing.T
	pool    *router.Pool
	client  *http.Client
	server  *http.Server
	outcome chan router.Outcome
}

// inTime runs a test in a bubble.
func inTime(t *testing.T, engine http.Handler, change func(*timed, *http.Server, *reverseproxy.Handler), test func(*timed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		engines, gateways := newMemory(), newMemory()
		engineServer := &http.Server{Handler: engine}
		transport := reverseproxy.NewTransport()
		transport.DialContext = engines.dial
		g := &timed{T: t, outcome: make(chan router.Outcome, 10_000), server: engineServer}
		pool, err := router.New(router.Config{
			Endpoints: endpoints(t, []string{"http://engine"}),
			Hooks:     router.Hooks{Released: func(_ *router.Decision, o router.Outcome) { g.outcome <- o }},
		})
		must(t, err)
		g.pool = pool
		handler := &reverseproxy.Handler{Router: pool, Hasher: new(tokenprefix.Hasher), Transport: transport}
		server := &http.Server{Handler: handler}
		clientTransport := &http.Transport{DialContext: gateways.dial, DisableCompression: true}
		g.client = &http.Client{Transport: clientTransport}
		if change != nil {
			change(g, server, handler)
		}
		var serving sync.WaitGroup
		serving.Go(func() { engineServer.Serve(engines) })
		serving.Go(func() { server.Serve(gateways) })
		test(g)
		clientTransport.CloseIdleConnections()
		transport.CloseIdleConnections()
		server.Close()
		engineServer.Close()
		serving.Wait()
		time.Sleep(time.Hour) // for handlers that wait for the time of their next piece
		if n := inFlight(pool); n != 0 {
			t.Errorf("%d in flight after the test, want 0", n)
		}
	})
}

// open starts a request and returns its answer as soon as it has a head.
func (g *timed) open(ctx context.Context, headers ...string) *http.Response {
	g.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway/v1/chat/completions", strings.NewReader(chat("x", 3000)))
	must(g.T, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	res, err := g.client.Do(r)
	must(g.T, err)
	return res
}

// since is the time that has passed in the bubble.
func since(start time.Time) time.Duration { return time.Since(start) }
