package debugpage_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmroute/warmroute/examples/reverseproxy/debugpage"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newPage returns the page of a pool with the given endpoints.
func newPage(t *testing.T, ids ...string) *debugpage.Page {
	t.Helper()
	page := &debugpage.Page{Now: func() time.Time { return epoch }}
	pool, err := router.New(router.Config{
		Endpoints: list(ids...), KVCacheTokens: 100_000,
		Hooks: router.Hooks{Decided: page.Decided, Released: page.Released},
	})
	must(t, err)
	page.Pool = pool
	return page
}

func list(ids ...string) []router.Endpoint {
	var l []router.Endpoint
	for _, id := range ids {
		l = append(l, router.Endpoint{ID: id, URL: &url.URL{Scheme: "http", Host: id}, Weight: 1})
	}
	return l
}

func pick(t *testing.T, p *debugpage.Page, text string) *router.Decision {
	t.Helper()
	var sig tokenprefix.Signature
	new(tokenprefix.Hasher).Text(&sig, tokenprefix.Scope{}, []byte(text))
	d, err := p.Pool.Pick(router.Request{Prefix: &sig, At: epoch})
	must(t, err)
	return d
}

func get(t *testing.T, p *debugpage.Page, target string, accept string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func TestPage_JSON(t *testing.T) {
	page := newPage(t, "a", "b")
	text := strings.Repeat("a long prompt ", 2000)
	first := pick(t, page, text)
	first.ReleaseAt(epoch, router.Outcome{StatusCode: 200, PromptTokens: loadstats.Known(1000), CachedTokens: loadstats.Known(250)})
	second := pick(t, page, text)
	defer second.Release(router.Outcome{})

	for _, w := range []*httptest.ResponseRecorder{
		get(t, page, "/debug/router", "application/json"), get(t, page, "/debug/router?format=json", "*/*"),
	} {
		var s debugpage.Snapshot
		must(t, json.Unmarshal(w.Body.Bytes(), &s))
		if len(s.Endpoints) != 2 || len(s.Decisions) != 2 {
			t.Fatalf("%d endpoints, %d decisions; want 2, 2", len(s.Endpoints), len(s.Decisions))
		}
		for _, e := range s.Endpoints {
			if e.ID != first.Endpoint.ID {
				continue
			}
			if e.State != "serving" || e.InFlight != 1 || e.Picks != 2 || e.HitRate != 0.25 || e.CapacityTokens < 99_000 || e.CachedTokens == 0 {
				t.Errorf("endpoint = %+v", e)
			}
		}
		if d := s.Decisions[0]; d.Reason != "warm" || d.CachedTokens == 0 || d.Endpoint != first.Endpoint.ID {
			t.Errorf("latest decision = %+v, want a warm one", d)
		}
		if d := s.Decisions[1]; d.Reason != "cold" || d.CachedTokens != 0 {
			t.Errorf("earlier decision = %+v, want a cold one", d)
		}
	}
}

func TestPage_HTML(t *testing.T) {
	page := newPage(t)
	if got := get(t, page, "/", "text/html").Body.String(); !strings.Contains(got, "none: every request is answered 503") {
		t.Errorf("page without endpoints = %s", got)
	}
	page = newPage(t, `"><script>alert(1)</script>`, "b")
	d := pick(t, page, "hello")
	d.FirstTokenAt(epoch.Add(100 * time.Millisecond))
	d.ReleaseAt(epoch, router.Outcome{Err: http.ErrServerClosed, PromptTokens: loadstats.Known(10), CachedTokens: loadstats.Known(5)})
	unkeyed, err := page.Pool.Pick(router.Request{At: epoch})
	must(t, err)
	defer unkeyed.Release(router.Outcome{})
	w := get(t, page, "/", "text/html")
	got := w.Body.String()
	if strings.Contains(got, "<script>") {
		t.Error("the page runs what an endpoint is called")
	}
	if !strings.Contains(got, "</table>") || strings.Count(got, "<tr>") != 2+2+2 || !strings.Contains(got, "50.0 %") {
		t.Errorf("page = %s", got)
	}
	if ct := w.Header().Get("Content-Type"); ct != "text/html; charset=utf-8" {
		t.Errorf("Content-Type = %q", ct)
	}
}

// The page tells how many requests wait, and of decisions how long they did and
// for what.
func TestPage_Queue(t *testing.T) {
	page := &debugpage.Page{Now: func() time.Time { return epoch }}
	pool, err := router.New(router.Config{Endpoints: list("a"), MaxInFlight: 1, Hooks: router.Hooks{Decided: page.Decided}})
	must(t, err)
	page.Pool = pool
	first := pick(t, page, "hello")
	for range 2 {
		pool.Enqueue(router.Request{At: epoch.Add(-2 * time.Second)}, func(*router.Decision, error) {})
	}
	if got := get(t, page, "/", "text/html").Body.String(); !strings.Contains(got, "2 requests wait, the oldest for 2000 ms") {
		t.Errorf("page = %s", got)
	}
	first.ReleaseAt(epoch, router.Outcome{})
	s := page.Snapshot()
	if want := (debugpage.Queue{Length: 1, OldestMillis: 2000}); s.Queue != want {
		t.Errorf("queue = %+v, want %+v", s.Queue, want)
	}
	if d := s.Decisions[0]; d.Held != "room" || d.WaitedMillis != 2000 {
		t.Errorf("decision = %+v, want one that waited 2 s for room", d)
	}
	if got := get(t, page, "/", "text/html").Body.String(); !strings.Contains(got, "<td>2000 ms<td class=\"text\">room") {
		t.Errorf("page = %s", got)
	}
}

func TestPage_States(t *testing.T) {
	page := newPage(t, "busy", "cooling", "draining", "left", "serving")
	for _, d := range []struct {
		id string
		o  router.Outcome
		n  int
	}{
		{"busy", router.Outcome{StatusCode: 429, RetryAfter: time.Second}, 1},
		{"cooling", router.Outcome{Err: http.ErrServerClosed}, 5},
	} {
		for range d.n {
			one, err := page.Pool.Pick(router.Request{At: epoch, Eligible: func(e *router.Endpoint) bool { return e.ID == d.id }})
			must(t, err)
			one.ReleaseAt(epoch, d.o)
		}
	}
	left, err := page.Pool.Pick(router.Request{At: epoch, Eligible: func(e *router.Endpoint) bool { return e.ID == "left" }})
	must(t, err)
	defer left.Release(router.Outcome{})
	next := list("busy", "cooling", "draining", "serving")
	next[2].Weight = 0
	must(t, page.Pool.SetEndpointsAt(epoch, next))
	for _, e := range page.Snapshot().Endpoints {
		if e.ID != e.State {
			t.Errorf("state of %s = %s", e.ID, e.State)
		}
	}
}

func TestPage_KeepsTheLatest(t *testing.T) {
	page := newPage(t, "a")
	page.Latest = 3
	for i := range 10 {
		d, err := page.Pool.Pick(router.Request{At: epoch.Add(time.Duration(i))})
		must(t, err)
		d.Release(router.Outcome{})
	}
	s := page.Snapshot()
	if len(s.Decisions) != 3 {
		t.Fatalf("%d decisions kept, want 3", len(s.Decisions))
	}
	for i, d := range s.Decisions {
		if want := epoch.Add(time.Duration(9 - i)); !d.At.Equal(want) {
			t.Errorf("decision %d was at %v, want %v", i, d.At, want)
		}
	}
}

func TestPage_RefusesOtherMethods(t *testing.T) {
	w := httptest.NewRecorder()
	newPage(t, "a").ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("status of POST = %d, want 405", w.Code)
	}
}

func TestPage_Concurrent(t *testing.T) {
	page := newPage(t, "a", "b")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				d, err := page.Pool.Pick(router.Request{At: epoch})
				if err != nil {
					t.Error(err)
					return
				}
				d.ReleaseAt(epoch, router.Outcome{PromptTokens: loadstats.Known(10), CachedTokens: loadstats.Known(4)})
				page.Snapshot()
			}
		})
	}
	wg.Wait()
	tokens := int64(0)
	for _, e := range page.Snapshot().Endpoints {
		tokens += e.PromptTokens
	}
	if tokens != 8*200*10 {
		t.Errorf("prompt tokens = %d, want %d", tokens, 8*200*10)
	}
}

// A browser makes of the page what it is meant to be.
func TestPage_Browser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium: apt-get install chromium")
	}
	page := newPage(t, "http://engine-1:8000", "http://engine-2:8000")
	d := pick(t, page, strings.Repeat("prompt ", 1000))
	defer d.Release(router.Outcome{})
	s := httptest.NewServer(page)
	defer s.Close()
	out, err := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(), "--dump-dom", s.URL).Output()
	must(t, err)
	dom := string(out)
	for _, want := range []string{`<tbody>`, "engine-1:8000</td>", `<td class="text serving">serving`, `<td class="text cold">cold`, ">here</td>", `in use, `} {
		if !strings.Contains(dom, want) {
			t.Errorf("DOM lacks %q:\n%s", want, dom)
		}
	}
}

func TestPage_Metrics(t *testing.T) {
	page := newPage(t, `a"\`+"\n", "b")
	d, err := page.Pool.Pick(router.Request{At: epoch, Eligible: func(e *router.Endpoint) bool { return e.ID == "b" }})
	must(t, err)
	defer d.Release(router.Outcome{})
	w := httptest.NewRecorder()
	page.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		"# TYPE router_in_flight gauge\n", `router_in_flight{endpoint="b"} 1` + "\n", `router_in_flight{endpoint="a\"\\\n"} 0` + "\n",
		`router_picks_total{endpoint="b"} 1` + "\n", `router_cache_capacity_tokens{endpoint="b"} 99840` + "\n",
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("metrics lack %q:\n%s", want, w.Body)
		}
	}
}
