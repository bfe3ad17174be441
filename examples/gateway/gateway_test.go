package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/examples/reverseproxy/debugpage"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/router/routertest"
)

// served is a gateway that answers over HTTP.
type served struct {
	*gateway
	t      *testing.T
	server *httptest.Server
}

// serveGateway serves a gateway with default flags for the time of the test.
func serveGateway(t *testing.T, endpoints []router.Endpoint) *served {
	t.Helper()
	o, err := parseOptions(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGateway(o, endpoints, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s := &served{g, t, httptest.NewServer(g.handler)}
	t.Cleanup(func() {
		s.server.Close()
		g.transport.CloseIdleConnections()
	})
	return s
}

// open sends a prompt and returns the status of the answer, and the decision. A
// stream is left open until the end of the test.
func (s *served) open(text string) (status int, d debugpage.Decision) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"stream":true}`, model, text)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.server.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := s.server.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { cancel(); res.Body.Close() })
	return res.StatusCode, s.page.Snapshot().Decisions[0]
}

// scrape asks every engine once, as the poller does every second.
func (s *served) scrape() {
	s.t.Helper()
	for _, id := range s.poller.Endpoints() {
		r, err := s.poller.Reporter.Report(s.t.Context(), id)
		if err != nil {
			s.t.Fatal(err)
		}
		s.poller.Table.Report(id, r)
	}
}

// Two gateways with the same engines know of each other only what the engines
// report. The first has filled one engine. The second keeps off it, and without
// reports goes right into it.
func TestGateway_SeesOthersThroughReports(t *testing.T) {
	const prompt = "Which way?"
	engines := startFleet(2, 0.001) // nothing ends before the test
	t.Cleanup(engines.close)
	endpoints, err := engines.endpoints()
	if err != nil {
		t.Fatal(err)
	}
	_, d := serveGateway(t, endpoints).open(prompt)
	full := d.Endpoint

	first := serveGateway(t, slices.DeleteFunc(slices.Clone(endpoints), func(e router.Endpoint) bool { return e.ID != full }))
	const others = 20
	for i := range others {
		first.open(fmt.Sprint(i, strings.Repeat(" A long prompt.", 1000)))
	}

	if _, got := serveGateway(t, endpoints).open(prompt); got.Endpoint != full {
		t.Errorf("decision without reports = %+v, want the full engine %s: it is the prompt's home", got, full)
	}
	second := serveGateway(t, endpoints)
	second.scrape()
	r, _ := second.poller.Table.Latest(full)
	running, _ := r.Running.Get()
	waiting, _ := r.Waiting.Get()
	if waiting == 0 || running+waiting < others {
		t.Errorf("report = %d running, %d waiting; want the others' %d, some of them waiting", running, waiting, others)
	}
	if _, got := second.open(prompt); got.Endpoint == full || got.Home != full {
		t.Errorf("decision with reports = %+v, want the idle engine rather than the home %s", got, full)
	}
}

// How large the KV caches are comes from the engines as well. A prompt whose home
// is too small for it goes where it fits; without reports it is refused there.
func TestGateway_LearnsCapacity(t *testing.T) {
	engines := fleet{
		routertest.NewEngine(routertest.EngineConfig{Model: model, KVCacheTokens: 64_000}),
		routertest.NewEngine(routertest.EngineConfig{Model: model, KVCacheTokens: 256_000}),
	}
	t.Cleanup(engines.close)
	endpoints, err := engines.endpoints()
	if err != nil {
		t.Fatal(err)
	}
	small, large := engines[0].URL, engines[1].URL
	prompt := ""
	for i, home := 0, ""; home != small; i++ {
		prompt = fmt.Sprint(i, strings.Repeat(" A prompt that is long.", 14_000)) // 80,000 tokens
		status, d := serveGateway(t, endpoints).open(prompt)
		if home = d.Home; d.Endpoint == small && status != http.StatusBadRequest {
			t.Fatalf("status = %d from the small engine, want 400", status)
		}
	}
	g := serveGateway(t, endpoints)
	g.scrape()
	g.open("Hello!") // the pool reads its reports when it is asked, for the next one
	if status, d := g.open(prompt); status != http.StatusOK || d.Endpoint != large || d.Home != small {
		t.Errorf("status %d, decision with reports = %+v; want 200 from %s rather than the home %s", status, d, large, small)
	}
	for _, s := range g.pool.Stats() {
		want := map[string]int{small: 64_000, large: 256_000}[s.Endpoint.ID]
		if got := s.Load.CapacityTokens; got != want {
			t.Errorf("capacity of %s = %d, want the engine's %d", s.Endpoint.ID, got, want)
		}
	}
}
