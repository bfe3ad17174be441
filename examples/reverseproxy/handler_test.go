package reverseproxy_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
)

func errorCode(t *testing.T, a answer) string {
	t.Helper()
	var e struct {
		Error struct{ Message, Type, Code string }
	}
	must(t, json.Unmarshal([]byte(a.body), &e))
	if e.Error.Message == "" || e.Error.Type == "" {
		t.Errorf("error without message or type: %s", a.body)
	}
	if got := a.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type = %q, want application/json", got)
	}
	return e.Error.Code
}

func TestHandler_ForwardsAndAnswers(t *testing.T) {
	rec := newRecorder()
	g := start(t, []string{engine(t, rec.ServeHTTP) + "/base"})
	body := chat("You are a tester.", 3000)
	a := g.send(http.MethodPost, "/v1/chat/completions?a=1&b=%2F", body, "Authorization: Bearer k")
	if a.StatusCode != 200 || a.body != `{"ok":true}` {
		t.Errorf("answer = %d %q, want the engine's", a.StatusCode, a.body)
	}
	r := <-rec.requests
	if got, want := r.URL.String(), "/base/v1/chat/completions?a=1&b=%2F"; got != want {
		t.Errorf("engine's URL = %q, want %q", got, want)
	}
	if got := r.Header.Get("Authorization"); got != "Bearer k" {
		t.Errorf("Authorization = %q, want the client's", got)
	}
	if r.ContentLength != int64(len(body)) || len(r.TransferEncoding) != 0 {
		t.Errorf("framing = length %d, %v; want length %d", r.ContentLength, r.TransferEncoding, len(body))
	}
	sameBytes(t, "engine's body", <-rec.bodies, []byte(body))
	d, o := g.decision(), g.outcome()
	if d.PromptTokens < 500 || d.Home == "" {
		t.Errorf("decision = %v, want one by prefix", d)
	}
	if o.Abandoned || o.Err != nil || o.StatusCode != 200 {
		t.Errorf("outcome = %+v, want success", o)
	}
}

func TestHandler_SamePrefixSameEngine(t *testing.T) {
	rec := newRecorder()
	var engines []string
	for range 4 {
		engines = append(engines, engine(t, rec.ServeHTTP))
	}
	g := start(t, engines)
	for _, system := range []string{"Persona one is brief.", "Persona two is not.", "Persona three sings."} {
		g.post(chat(system, 40_000))
		first := g.decision().Endpoint.ID
		for range 5 {
			g.post(chat(system, 40_000))
			if d := g.decision(); d.Endpoint.ID != first || d.Reason != balancer.Warm {
				t.Errorf("later request = %v, want warm at %s", d, first)
			}
		}
	}
}

func TestHandler_BadInputIsRoutedByLoad(t *testing.T) {
	for _, c := range []struct{ name, method, path, body string }{
		{"not JSON", "POST", "/v1/chat/completions", "hello <|im_start|> {"},
		{"empty body", "POST", "/v1/chat/completions", ""},
		{"white space", "POST", "/v1/chat/completions", " \n\t "},
		{"null", "POST", "/v1/chat/completions", "null"},
		{"cut off", "POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"us`},
		{"no messages", "POST", "/v1/chat/completions", `{"model":"m"}`},
		{"empty messages", "POST", "/v1/chat/completions", `{"model":"m","messages":[]}`},
		{"wrong types", "POST", "/v1/chat/completions", `{"model":7,"messages":"x"}`},
		{"deep", "POST", "/v1/chat/completions", strings.Repeat("[", 100_000)},
		{"NUL", "POST", "/v1/chat/completions", "\x00\x00\x00"},
		{"unknown path", "POST", "/what/is/this", `{"a":1}`},
		{"GET", "GET", "/v1/models", ""},
		{"DELETE", "DELETE", "/v1/responses/resp_1", ""},
		{"embeddings", "POST", "/v1/embeddings", `{"model":"m","input":["a","b"]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := newRecorder()
			g := start(t, []string{engine(t, rec.ServeHTTP), engine(t, rec.ServeHTTP)})
			a := g.send(c.method, c.path, c.body)
			if a.StatusCode != 200 {
				t.Errorf("status = %d, want the engine's 200", a.StatusCode)
			}
			if r := <-rec.requests; r.URL.Path != c.path || r.Method != c.method {
				t.Errorf("engine got %s %s, want %s %s", r.Method, r.URL.Path, c.method, c.path)
			}
			sameBytes(t, "engine's body", <-rec.bodies, []byte(c.body))
			g.outcome()
		})
	}
}

// C27, and "no shared empty key": requests without a prompt spread.
func TestC27_NoPromptNoSharedKey(t *testing.T) {
	rec := newRecorder()
	var engines []string
	for range 4 {
		engines = append(engines, engine(t, rec.ServeHTTP))
	}
	g := start(t, engines)
	used := map[string]int{}
	for range 64 {
		g.post(`{"model":"m","messages":[]}`)
		d := g.decision()
		used[d.Endpoint.ID]++
		if d.Home != "" {
			t.Fatalf("decision = %v, want none by prefix", d)
		}
	}
	if len(used) != 4 {
		t.Errorf("64 requests without prompt went to %v, want all four engines", used)
	}
}

func TestHandler_NoEndpoints(t *testing.T) {
	g := start(t, nil)
	a := g.post(chat("x", 10))
	if code := errorCode(t, a); a.StatusCode != 503 || code != "no_endpoints" {
		t.Errorf("answer = %d %s, want 503 no_endpoints", a.StatusCode, code)
	}
}

func TestHandler_AllDown(t *testing.T) {
	g := start(t, []string{deadEngine(t), deadEngine(t), deadEngine(t)})
	a := g.post(chat("x", 10))
	if code := errorCode(t, a); a.StatusCode != 502 || code != "endpoint_unreachable" {
		t.Errorf("answer = %d %s, want 502 endpoint_unreachable", a.StatusCode, code)
	}
	for range 3 {
		if o := g.outcome(); o.Err == nil {
			t.Errorf("outcome = %+v, want an error for each of the three", o)
		}
	}
	for _, s := range g.pool.Stats() {
		if strings.Contains(a.body, strings.TrimPrefix(s.Endpoint.ID, "http://")) {
			t.Errorf("answer names the engine: %s", a.body)
		}
	}
}

func TestHandler_EndpointWithoutURL(t *testing.T) {
	g := start(t, nil)
	must(t, g.pool.SetEndpoints([]router.Endpoint{{ID: "nowhere", Weight: 1}}))
	if a := g.post(chat("x", 10)); a.StatusCode != 503 {
		t.Errorf("status = %d, want 503", a.StatusCode)
	}
	g.outcome()
}

// The second request is refused without its body: the client sends none until
// it is asked to, and it never is.
func TestHandler_SaturatedBeforeTheBody(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	g := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		entered <- struct{}{}
		<-leave
	})}, func(c *router.Config, _ *reverseproxy.Handler) { c.MaxInFlight = 1 })
	done := make(chan struct{})
	go func() { defer close(done); g.post(chat("x", 10)) }()
	<-entered

	a := g.post(chat("y", 10))
	if code := errorCode(t, a); a.StatusCode != 503 || code != "saturated" || a.Header.Get("Retry-After") == "" {
		t.Errorf("answer = %d %s Retry-After %q, want 503 saturated with a hint", a.StatusCode, code, a.Header.Get("Retry-After"))
	}
	asked := false
	r, err := http.NewRequest(http.MethodPost, g.server.URL+"/v1/chat/completions", io.NopCloser(readFunc(func([]byte) (int, error) {
		asked = true
		return 0, io.EOF
	})))
	must(t, err)
	r.Header.Set("Expect", "100-continue")
	g.client.Transport.(*http.Transport).ExpectContinueTimeout = time.Hour
	if a := g.do(r); a.StatusCode != 503 {
		t.Errorf("status = %d, want 503", a.StatusCode)
	}
	if asked {
		t.Error("the body of a request that was refused was asked for")
	}

	close(leave)
	<-done
	go func() { <-entered }()
	if a := g.post(chat("z", 10)); a.StatusCode != 200 {
		t.Errorf("status = %d once there is room, want 200", a.StatusCode)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestHandler_ShowDecision(t *testing.T) {
	for _, show := range []bool{false, true} {
		rec := newRecorder()
		g := start(t, []string{engine(t, rec.ServeHTTP)}, func(_ *router.Config, h *reverseproxy.Handler) { h.ShowDecision = show })
		a := g.post(chat("x", 10))
		if got := a.Header.Get("X-Router-Endpoint") != ""; got != show {
			t.Errorf("ShowDecision %v: decision in the headers = %v", show, got)
		}
	}
}

func TestHandler_UsedDirectly(t *testing.T) {
	rec := newRecorder()
	g := start(t, []string{engine(t, rec.ServeHTTP)})
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/completions", strings.NewReader(`{"prompt":"x"}`)))
	if w.Code != 200 || w.Body.String() != `{"ok":true}` {
		t.Errorf("answer = %d %q, want the engine's", w.Code, w.Body)
	}
}
