package routertest

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/warmroute/warmroute/internal/engine"
)

// EngineConfig describes a fake engine. The zero value is about a 70B model on
// four datacenter GPUs, in real time.
type EngineConfig struct {
	// Model is the name of the model that it serves. Empty means "fake".
	Model string
	// Speed is how many times faster than real the engine runs: with 10, a
	// prefill that takes 3 s takes 300 ms. Zero means 1.
	Speed float64
	// KVCacheTokens is the size of the KV cache. Zero means 400,000.
	KVCacheTokens int
}

// Engine is a fake LLM engine behind HTTP:
//
//	POST /v1/chat/completions, /v1/completions   streaming or not
//	GET  /v1/models, /health, /metrics
//
// Time passes as in an engine with continuous batching, chunked prefill and a
// prefix cache: an iteration decodes a token for each running request and spends
// the rest of 2,048 tokens on prefill, first come first served. Prompts are
// counted at 4 bytes a token and cached in blocks of 16 tokens, by the text that
// a chat template would make of them; the model and cache_salt tell caches
// apart. Answers are filler words, as many tokens as max_tokens allows (100 if it
// is absent), and their usage says how much of the prompt was cached. A client
// that leaves frees its place at once.
//
// The methods are safe for concurrent use.
type Engine struct {
	// URL is the base URL, of the form http://127.0.0.1:port.
	URL string

	config EngineConfig
	epoch  time.Time
	wake   chan struct{} // the driver has something to look at
	quit   chan struct{}
	done   sync.WaitGroup

	mu     sync.Mutex
	server *http.Server // nil while killed
	model  *engine.Engine
	jobs   map[int64]*job
	nextID int64
	status int // answered to every request if not 0
	ttft   histogram
	events []engine.Event
}

// NewEngine starts an engine on a loopback port of the system's choice. It must
// be closed. It panics if it can't listen, or if the configuration makes no
// sense, as tests have no use for it then.
func NewEngine(c EngineConfig) *Engine {
	if c.Model == "" {
		c.Model = "fake"
	}
	if c.Speed == 0 {
		c.Speed = 1
	}
	if !(c.Speed > 0 && c.Speed <= 1e6) {
		panic(fmt.Sprintf("routertest: EngineConfig.Speed %v is not within 0 to 1,000,000", c.Speed))
	}
	e := &Engine{
		config: c,
		epoch:  time.Now(),
		wake:   make(chan struct{}, 1),
		quit:   make(chan struct{}),
		jobs:   make(map[int64]*job),
	}
	e.reset()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(fmt.Sprintf("routertest: %v", err))
	}
	e.URL = "http://" + l.Addr().String()
	e.serve(l)
	e.done.Go(e.drive)
	return e
}

// reset makes the engine idle with an empty cache.
func (e *Engine) reset() {
	m, err := engine.New(engine.Config{KVTokens: e.config.KVCacheTokens})
	if err != nil {
		panic(fmt.Sprintf("routertest: EngineConfig: %v", err))
	}
	e.model = m
}

func (e *Engine) serve(l net.Listener) {
	s := &http.Server{Handler: e.handler()}
	e.server = s
	e.done.Go(func() { _ = s.Serve(l) }) // it ends when the server is closed
}

// Close stops the engine and closes all connections. It waits until nothing of
// the engine runs any more.
func (e *Engine) Close() {
	e.Kill()
	e.mu.Lock()
	select {
	case <-e.quit:
	default:
		close(e.quit)
	}
	e.mu.Unlock()
	e.done.Wait()
}

// Kill breaks all connections and stops listening, as a crash does.
func (e *Engine) Kill() {
	e.mu.Lock()
	s := e.server
	e.server = nil
	for id, j := range e.jobs {
		e.model.Cancel(e.now(), id)
		j.finish()
		delete(e.jobs, id)
	}
	e.mu.Unlock()
	if s != nil {
		_ = s.Close()
	}
}

// Restart listens on the same port again after Kill, with an empty cache. It
// does nothing if the engine runs.
func (e *Engine) Restart() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server != nil {
		return nil
	}
	l, err := net.Listen("tcp", strings.TrimPrefix(e.URL, "http://"))
	if err != nil {
		return fmt.Errorf("routertest: %w", err)
	}
	e.reset()
	e.epoch = time.Now()
	e.serve(l)
	return nil
}

// Fail makes the engine answer every completion with the given HTTP status and
// an error; 0 makes it work again.
func (e *Engine) Fail(status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = status
}

// EngineStats is what an engine has done and is doing. Times are in model time.
type EngineStats struct {
	Requests         int           // accepted
	PromptTokens     int           // of admitted requests
	CachedTokens     int           // of these, found in the cache
	GenerationTokens int           // generated
	Busy             time.Duration // time in which something was computed
	Running, Waiting int           // now
	KVCacheUsage     float64       // share of the KV cache in use now, 0 to 1
}

// Stats returns the engine's counts since it started or was restarted.
func (e *Engine) Stats() EngineStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.model.Stats()
	return EngineStats{
		Requests:         int(e.nextID),
		PromptTokens:     int(s.PrefixQueries),
		CachedTokens:     int(s.PrefixHits),
		GenerationTokens: int(s.GenerationTokens),
		Busy:             s.Busy,
		Running:          s.Running,
		Waiting:          s.Waiting,
		KVCacheUsage:     s.KVUsage,
	}
}

// now is the model time.
func (e *Engine) now() time.Duration {
	return time.Duration(float64(time.Since(e.epoch)) * e.config.Speed)
}
