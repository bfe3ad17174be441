package reverseproxy_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
)

// C91: what continues a response goes to the engine that holds it.
func TestC91_PreviousResponse(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/conversations"):
			io.WriteString(w, `{"id": "conv_55aa","object":"conversation"}`)
		case strings.Contains(string(b), `"stream":true`):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "event: response.created\n"+`data: {"type":"response.created","response":{"id":"resp_0a1b2c3d"}}`+"\n\n")
			w.(http.Flusher).Flush()
			io.WriteString(w, `data: {"id":"msg_1"}`+"\n\n")
		default:
			io.WriteString(w, "{}")
		}
	}
	var engines []string
	for range 8 {
		engines = append(engines, engine(t, answer))
	}
	g := start(t, engines, func(_ *router.Config, h *reverseproxy.Handler) {
		h.Responses = new(reverseproxy.ResponseTable)
		h.Scope = reverseproxy.HeaderTenant("X-Tenant")
	})
	endpoint := func(method, path, body string, headers ...string) string {
		if a := g.send(method, path, body, headers...); a.StatusCode != 200 {
			t.Errorf("%s %s = %d, want 200", method, path, a.StatusCode)
		}
		g.outcome()
		return g.decision().Endpoint.ID
	}
	holder := endpoint("POST", "/v1/responses", `{"model":"m","input":"hello","stream":true}`, "X-Tenant: a")
	conversation := endpoint("POST", "/v1/conversations", `{}`, "X-Tenant: a")
	others := 0
	for range 16 {
		for _, follow := range []struct{ method, path, body, want string }{
			{"POST", "/v1/responses", string(input(t, "responses_previous_id.json")), holder},
			{"GET", "/v1/responses/resp_0a1b2c3d", "", holder},
			{"POST", "/v1/responses/resp_0a1b2c3d/cancel", "", holder},
			{"POST", "/v1/responses", string(input(t, "responses_conversation_id.json")), conversation},
		} {
			if got := endpoint(follow.method, follow.path, follow.body, "X-Tenant: a"); got != follow.want {
				t.Errorf("%s %s went to %s, want %s", follow.method, follow.path, got, follow.want)
			}
		}
		// Ids nobody knows, or another tenant's, pin nothing.
		for _, c := range []struct{ path, tenant string }{
			{"/v1/responses/resp_0a1b2c3d", "b"}, {"/v1/responses/msg_1", "a"}, {"/v1/responses/resp_unknown", "a"},
		} {
			if endpoint("GET", c.path, "", "X-Tenant: "+c.tenant) != holder {
				others++
			}
		}
	}
	if others < 16 {
		t.Errorf("%d of 48 requests with other ids went elsewhere, want most", others)
	}

	// The holder leaves: any other will say what it thinks of the id.
	var left []string
	for _, url := range engines {
		if url != holder {
			left = append(left, url)
		}
	}
	must(t, g.pool.SetEndpoints(endpoints(t, left)))
	if got := endpoint("GET", "/v1/responses/resp_0a1b2c3d", "", "X-Tenant: a"); got == holder {
		t.Errorf("went to %s, which has left", got)
	}
}

// That the holder of a response is full says nothing about others, and that it
// can't be reached sends the request to one of them.
func TestC91_HolderFullOrGone(t *testing.T) {
	entered, leave := make(chan struct{}, 10), make(chan struct{})
	holder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); strings.Contains(string(b), "previous") {
			entered <- struct{}{}
			<-leave
		}
		io.WriteString(w, `{"id":"resp_0a1b2c3d"}`)
	}))
	rec := newRecorder()
	g := start(t, []string{holder.URL}, func(c *router.Config, h *reverseproxy.Handler) {
		c.MaxInFlight = 1
		h.Responses = new(reverseproxy.ResponseTable)
		// A connection that the holder closes while it is being used again is a
		// failure of another kind.
		h.Transport = &http.Transport{DisableKeepAlives: true}
	})
	g.send(http.MethodPost, "/v1/responses", `{"model":"m","input":"hello"}`)
	must(t, g.pool.SetEndpoints(endpoints(t, []string{holder.URL, engine(t, rec.ServeHTTP)})))
	follow := string(input(t, "responses_previous_id.json"))
	done := make(chan struct{})
	go func() { defer close(done); g.send(http.MethodPost, "/v1/responses", follow) }()
	<-entered
	if a := g.send(http.MethodPost, "/v1/responses", follow); a.StatusCode != 503 {
		t.Errorf("status = %d with the holder full, want 503", a.StatusCode)
	}
	if a := g.send(http.MethodPost, "/v1/responses", `{"model":"m","input":"other"}`); a.StatusCode != 200 {
		t.Errorf("status of another request = %d, want 200", a.StatusCode)
	}
	close(leave)
	<-done
	holder.Close()
	if a := g.send(http.MethodPost, "/v1/responses", follow); a.StatusCode != 200 || a.body != `{"ok":true}` {
		t.Errorf("answer = %d %s with the holder gone, want the other engine's", a.StatusCode, a.body)
	}
}

func TestResponseTable_IsBounded(t *testing.T) {
	table := &reverseproxy.ResponseTable{Size: 100}
	for i := range 10_000 {
		table.Remember("t", fmt.Sprint("resp_", i), "e")
		table.Find("t", "resp_0") // in use: stays
	}
	kept := 0
	for i := 1; i < 10_000; i++ {
		if table.Find("t", fmt.Sprint("resp_", i)) != "" {
			kept++
		}
	}
	if kept < 40 || kept > 100 {
		t.Errorf("%d ids kept, want about 50 to 100", kept)
	}
	if got := reverseproxy.FindID([]byte(`{"id":"` + strings.Repeat("x", 1000) + `"}`)); got != "" {
		t.Errorf("id of 1000 bytes = %q, want none", got)
	}
	all := &reverseproxy.ResponseTable{Size: math.MaxInt}
	for i := range 100 {
		all.Remember("t", fmt.Sprint("resp_", i), "e")
	}
	if all.Find("t", "resp_0") != "e" {
		t.Error("a table of any size has forgotten the first of 100 ids")
	}
	fresh := &reverseproxy.ResponseTable{Size: 100}
	fresh.Remember("t", "resp_0", "e")
	for i := range 60 {
		fresh.Remember("t", fmt.Sprint("x", i), "e")
		if fresh.Find("t", "resp_0") != "e" {
			t.Fatalf("an id in use was forgotten after %d others", i)
		}
	}
}

func FuzzFindID(f *testing.F) {
	f.Add([]byte(`data: {"response":{"id": "resp_1"}}`), 3)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		if size <= 0 || len(text) > 1<<14 {
			t.Skip()
		}
		if whole, cut := reverseproxy.FindID(text), reverseproxy.FindID(pieces(string(text), size)...); whole != cut {
			t.Errorf("id = %q in one piece, %q in pieces of %d", whole, cut, size)
		}
	})
}
