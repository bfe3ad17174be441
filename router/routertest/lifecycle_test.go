package routertest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/router/routertest"
)

// Nothing of an engine may outlive its Close, and every test closes its engines.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := engineGoroutines(); code == 0 && left != "" {
		_, _ = os.Stderr.WriteString("goroutines of engines are left:\n" + left)
		code = 1
	}
	os.Exit(code)
}

// engineGoroutines returns the stacks that run an engine. A handler that panicked
// to break its connection may be on its last steps, so it looks many times.
func engineGoroutines() (left string) {
	for range 10_000 {
		if left = engineStacks(); left == "" {
			break
		}
		runtime.Gosched()
	}
	return left
}

func engineStacks() string {
	stacks := make([]byte, 1<<22)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var left strings.Builder
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "routertest.(*Engine)") || strings.Contains(stack, "routertest.(*answer)") ||
			strings.Contains(stack, "http.(*conn).serve") {
			left.WriteString(stack + "\n\n")
		}
	}
	return left.String()
}

// open starts a stream and returns it after its first event.
func open(t testing.TB, ctx context.Context, e *routertest.Engine, body string) (io.Closer, *bufio.Reader) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "POST", e.URL+"/v1/completions", strings.NewReader(body))
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	in := bufio.NewReader(res.Body)
	line, err := in.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, " tok")
	return res.Body, in
}

const endless = `{"prompt":"Hello","max_tokens":100000,"stream":true}`

func TestEngine_CloseLeavesNothing(t *testing.T) {
	e := start(t, routertest.EngineConfig{Speed: 1})
	for range 3 {
		body, _ := open(t, t.Context(), e, endless)
		defer body.Close()
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(e.URL, "http://")) // a connection without a request
	require.NoError(t, err)
	defer c.Close()
	e.Close()
	e.Close() // does nothing
	if left := engineGoroutines(); left != "" {
		t.Errorf("after Close:\n%s", left)
	}
	if err := e.Restart(); err == nil {
		t.Error("a closed engine restarts")
	}
	if s := e.Stats(); s.Running != 0 || s.Requests != 3 {
		t.Errorf("Stats after Close = %+v, want 3 requests, none running", s)
	}
}

// A client that leaves frees its place; here each request needs the memory that
// the one before holds.
func TestEngine_CancellationFreesThePlace(t *testing.T) {
	e := start(t, routertest.EngineConfig{Speed: 1, KVCacheTokens: 8000})
	for _, body := range []string{
		`{"prompt":"One","max_tokens":7900,"stream":true}`,
		`{"prompt":"Two","max_tokens":7900,"stream":true}`, // would wait for two minutes
		`{"prompt":"Three","max_tokens":7900,"stream":true}`,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		stream, _ := open(t, ctx, e, body)
		cancel()
		stream.Close()
	}
}

func TestEngine_CancellationOfWhatIsNotStreamed(t *testing.T) {
	e := start(t, routertest.EngineConfig{Speed: 1, KVCacheTokens: 8000})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", e.URL+"/v1/completions", strings.NewReader(`{"prompt":"One","max_tokens":7900}`))
	require.NoError(t, err)
	failed := make(chan error)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			res.Body.Close()
		}
		failed <- err
	}()
	for e.Stats().Running == 0 {
		runtime.Gosched()
	}
	cancel()
	if err := <-failed; err == nil {
		t.Error("a cancelled request was answered")
	}
	stream, _ := open(t, t.Context(), e, `{"prompt":"Two","max_tokens":7900,"stream":true}`)
	stream.Close()
}

func TestEngine_KillBreaksAnswers(t *testing.T) {
	e := start(t, routertest.EngineConfig{Speed: 1})
	stream, in := open(t, t.Context(), e, endless)
	defer stream.Close()
	whole := make(chan error)
	go func() {
		res, err := http.Post(e.URL+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"Hello","max_tokens":100000}`))
		if err == nil {
			res.Body.Close()
		}
		whole <- err
	}()
	for e.Stats().Running < 2 {
		runtime.Gosched()
	}
	e.Kill()
	e.Kill() // does nothing
	if _, err := io.ReadAll(in); err == nil {
		t.Error("the stream of a killed engine ends without an error")
	}
	if err := <-whole; err == nil {
		t.Error("a killed engine answers what it had")
	}
	if res, err := http.Get(e.URL + "/health"); err == nil {
		res.Body.Close()
		t.Error("a killed engine answers")
	}
	if s := e.Stats(); s.Running != 0 || s.Requests != 2 {
		t.Errorf("Stats of a killed engine = %+v, want 2 requests, none running", s)
	}
}

func TestEngine_RestartBeginsAnew(t *testing.T) {
	e := start(t, routertest.EngineConfig{})
	prompt := `{"prompt":"` + strings.Repeat("Hello ", 100) + `","max_tokens":1}`
	for range 2 {
		post(t, e.URL+"/v1/completions", prompt)
	}
	if s := e.Stats(); s.CachedTokens == 0 {
		t.Fatalf("Stats = %+v, want cached tokens", s)
	}
	if err := e.Restart(); err != nil || e.Stats().Requests != 2 {
		t.Errorf("Restart of a running engine = %v, %+v, want nothing to happen", err, e.Stats())
	}
	url := e.URL
	e.Kill()
	http.DefaultClient.CloseIdleConnections() // they are broken
	require.NoError(t, e.Restart())
	if s := e.Stats(); s != (routertest.EngineStats{}) || e.URL != url {
		t.Errorf("after a restart: %s, %+v, want %s and zeros", e.URL, s, url)
	}
	_, text := post(t, e.URL+"/v1/completions", prompt)
	if got := parse(t, text).Usage.PromptTokensDetails.CachedTokens; got != 0 {
		t.Errorf("%d tokens cached after a restart, want 0", got)
	}
	if s := e.Stats(); s.Requests != 1 {
		t.Errorf("Stats = %+v, want 1 request", s)
	}
}

func TestEngine_Fail(t *testing.T) {
	e := start(t, routertest.EngineConfig{})
	for _, status := range []int{503, 429, 0} {
		e.Fail(status)
		res, text := post(t, e.URL+"/v1/completions", `{"prompt":"Hello","max_tokens":1}`)
		if want := max(status, 200); status != 0 && (res.StatusCode != status || !strings.Contains(text, "told to fail")) || status == 0 && res.StatusCode != want {
			t.Errorf("Fail(%d): status %d: %s", status, res.StatusCode, text)
		}
	}
	if s := e.Stats(); s.Requests != 1 {
		t.Errorf("%d requests accepted, want the one that did not fail", s.Requests)
	}
}

func TestEngine_PanicsOnWhatMakesNoSense(t *testing.T) {
	e := start(t, routertest.EngineConfig{})
	require.PanicsWithValue(t, "routertest: Fail: status 200 is neither 0 nor 400 to 599", func() { e.Fail(200) })
	require.PanicsWithValue(t, "routertest: EngineConfig.Speed -1 is outside 0.001 to 1,000,000",
		func() { routertest.NewEngine(routertest.EngineConfig{Speed: -1}) })
	require.PanicsWithValue(t, "routertest: EngineConfig.KVCacheTokens 5: engine: KVTokens 5 is less than one block of 16 tokens",
		func() { routertest.NewEngine(routertest.EngineConfig{KVCacheTokens: 5}) })
}

// Engines die and come back while clients send: an answer is whole or an error,
// and nothing stays in an engine.
func TestEngine_DiesUnderTraffic(t *testing.T) {
	e := start(t, routertest.EngineConfig{KVCacheTokens: 20_000})
	const clients, requests, deaths = 8, 40, 10
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var whole, broken atomic.Int64
	var sending sync.WaitGroup
	for i := range clients {
		sending.Go(func() {
			for j := range requests {
				stream, tokens := (i+j)%2 == 0, 1+50*(j%3)
				body := fmt.Sprintf(`{"prompt":"%s","max_tokens":%d,"stream":%v}`, strings.Repeat("x", 100*(i%4)+1), tokens, stream)
				res, err := client.Post(e.URL+"/v1/completions", "application/json", strings.NewReader(body))
				if err != nil {
					broken.Add(1)
					continue
				}
				text, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil {
					broken.Add(1)
					continue
				}
				whole.Add(1)
				if got := strings.Count(string(text), " tok"); res.StatusCode != 200 || got != tokens {
					t.Errorf("status %d, %d tokens of %d without an error: %s", res.StatusCode, got, tokens, text)
				}
			}
		})
	}
	for range deaths {
		for before := whole.Load() + broken.Load(); whole.Load()+broken.Load() < before+clients && whole.Load()+broken.Load() < clients*requests; {
			runtime.Gosched()
		}
		e.Kill()
		_ = e.Stats()
		if err := e.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	sending.Wait()
	t.Logf("%d whole answers, %d broken", whole.Load(), broken.Load())
	if whole.Load() == 0 {
		t.Error("no whole answer, though the engine came back each time")
	}
	if s := e.Stats(); s.Running != 0 || s.Waiting != 0 || s.KVCacheUsage != 0 {
		t.Errorf("Stats at the end = %+v, want nothing running", s)
	}
}
