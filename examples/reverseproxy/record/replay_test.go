package record_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/examples/reverseproxy/record"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/router/routertest"
	"github.com/warmroute/warmroute/tokenprefix"
)

// words are a text that is not repeated anywhere.
func words(what string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%d ", what, i)
	}
	return b.String()
}

// bodies are the turns of some conversations: all have the same system prompt.
func bodies(conversations, turns int) []string {
	system := words("system", 1000)
	var all []string
	for c := range conversations {
		messages := fmt.Sprintf(`{"role":"system","content":%q}`, system)
		for i := range turns {
			messages += fmt.Sprintf(`,{"role":"user","content":%q}`, words(fmt.Sprintf("secret%d-%d-", c, i), 250))
			all = append(all, fmt.Sprintf(`{"model":"topmodel","messages":[%s],"max_tokens":%d,"stream":%v,"stream_options":{"include_usage":true}}`, messages, 20+i, i%2 == 0))
			messages += fmt.Sprintf(`,{"role":"assistant","content":%q}`, words("answer", 20))
		}
	}
	return all
}

// Real requests over real connections become a file that can be simulated, and
// that says nothing about what was in them.
func TestRecorder_RealRequestsAreReplayed(t *testing.T) {
	const speed = 1000
	var urls []string
	for range 2 {
		e := routertest.NewEngine(routertest.EngineConfig{Speed: speed})
		defer e.Close()
		urls = append(urls, e.URL)
	}
	endpoints, err := router.ParseEndpoints(urls...)
	require.NoError(t, err)
	pool, err := router.New(router.Config{Endpoints: endpoints})
	require.NoError(t, err)
	recorder := newRecorder(t, record.Config{})
	scope := tokenprefix.Scope{Tenant: "acme"}
	gateway := httptest.NewServer(recorder.Handler(&reverseproxy.Handler{
		Router: pool,
		Hasher: new(tokenprefix.Hasher),
		Scope:  func(*http.Request) tokenprefix.Scope { return scope },
		Refine: recorder.Refine,
	}))
	defer gateway.Close()

	name := filepath.Join(t.TempDir(), "trace.jsonl")
	file, err := os.Create(name)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- recorder.Run(ctx, file) }()

	const conversations, turns = 3, 4
	sent := bodies(conversations, turns)
	for _, body := range sent {
		res, err := http.Post(gateway.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		if res.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s", res.StatusCode, text)
		}
	}
	gateway.Close() // ends what handlers do after the last byte of an answer
	cancel()
	require.NoError(t, <-done)
	require.NoError(t, file.Close())
	if got := recorder.Stats(); got != (record.Stats{Recorded: conversations * turns}) {
		t.Errorf("Stats() = %+v, want %d recorded", got, conversations*turns)
	}

	text, err := os.ReadFile(name)
	require.NoError(t, err)
	lines := parse(t, string(text))
	if len(lines) != len(sent) {
		t.Fatalf("%d lines, want %d", len(lines), len(sent))
	}
	for i, l := range lines {
		if l.Outcome != "answered" || l.Status != 200 || l.OutputLength != 20+i%turns || l.TTFT <= 0 || l.E2E < l.TTFT {
			t.Errorf("request %d: %+v", i, l)
		}
		if size := len(sent[i]) / 4; l.InputLength < size*9/10 || l.InputLength > size*11/10 {
			t.Errorf("request %d: input_length %d of a body of %d bytes", i, l.InputLength, len(sent[i]))
		}
		if l.PromptTokens == nil || l.CachedTokens == nil {
			t.Errorf("request %d: no usage", i)
		} else if warm := i > 0; warm && *l.CachedTokens < 1024 {
			t.Errorf("request %d: %d tokens were cached, want the system prompt at least", i, *l.CachedTokens)
		}
		if i%turns > 0 {
			before := lines[i-1]
			for k := range before.InputLength / 512 {
				if before.HashIDs[k] != l.HashIDs[k] {
					t.Errorf("request %d: hash %d is not that of the turn before", i, k)
				}
			}
		}
	}
	tellsNothing(t, string(text), scope, sent)

	w, err := routertest.Trace(name, routertest.TraceConfig{Speedup: 1.0 / speed})
	require.NoError(t, err)
	r, err := routertest.Simulate(routertest.Scenario{Workload: w, Engines: make([]routertest.EngineSpec, 2)})
	require.NoError(t, err)
	if r.Requests != len(sent) || r.LaterTurns < conversations*(turns-1) {
		t.Errorf("simulated: %d requests, %d of them later turns, want %d and at least %d", r.Requests, r.LaterTurns, len(sent), conversations*(turns-1))
	}
	var cached, prompt int
	for _, l := range lines {
		cached += *l.CachedTokens
		prompt += *l.PromptTokens
	}
	// A trace's blocks of 512 tokens hide the last part of each shared prefix.
	if was := float64(cached) / float64(prompt); r.HitRate > was || r.HitRate < was-0.1 {
		t.Errorf("simulated hit rate %.3f, the real one was %.3f", r.HitRate, was)
	}
}

// tellsNothing fails the test if a file has anything in it that only who saw the
// requests could know.
func tellsNothing(t *testing.T, file string, scope tokenprefix.Scope, bodies []string) {
	t.Helper()
	for _, word := range []string{"secret", "system", "acme", "topmodel", "127.0.0.1", "tok"} {
		if strings.Contains(strings.ReplaceAll(strings.ReplaceAll(file, "prompt_tokens", ""), "cached_tokens", ""), word) {
			t.Errorf("the file has %q", word)
		}
	}
	h := new(tokenprefix.Hasher)
	s := new(tokenprefix.Signature)
	for _, body := range bodies {
		_, err := h.BodyAs(s, scope, tokenprefix.ShapeChat, []byte(body))
		require.NoError(t, err)
		for _, hash := range append(s.Blocks, s.Tail) {
			for _, n := range numbers(hash) {
				if strings.Contains(file, n) {
					t.Errorf("the file has the unsalted hash %s", n)
				}
			}
		}
	}
}
