package routertest

import (
	"errors"
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
	// prefill that takes 3 s takes 300 ms. From 0.001 to 1,000,000; zero means 1.
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
// The header of a stream is sent when the request is accepted, as by vLLM. Its
// first token and its end are sent without delay; what comes in between is
// collected for 10 ms of real time into one event, so that many fast engines don't
// spend the machine on writing words.
//
// The methods are safe for concurrent use.
type Engine struct {
	// URL is the base URL, of the form http://127.0.0.1:port.
	URL string

	config EngineConfig
	wake   chan struct{}  // the driver has something to look at
	quit   chan struct{}  // closed by Close
	done   sync.WaitGroup // the driver, listeners and connections

	mu       sync.Mutex
	server   *http.Server // nil while killed
	listener net.Listener // of server
	epoch    time.Time    // of model time
	model    *engine.Engine
	jobs     map[int64]*job
	nextID   int64 // never used twice, not even after a restart
	status   int   // answered to every completion if not 0
	requests int   // accepted since the start
	ttft     histogram
	events   []engine.Event
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
	if !(c.Speed >= 1e-3 && c.Speed <= 1e6) {
		panic(fmt.Sprintf("routertest: EngineConfig.Speed %v is outside 0.001 to 1,000,000", c.Speed))
	}
	if _, err := engine.New(engine.Config{KVTokens: c.KVCacheTokens}); err != nil {
		panic(fmt.Sprintf("routertest: EngineConfig.KVCacheTokens %d: %v", c.KVCacheTokens, err))
	}
	e := &Engine{config: c, wake: make(chan struct{}, 1), quit: make(chan struct{})}
	if err := e.listen("127.0.0.1:0"); err != nil {
		panic(err.Error())
	}
	e.URL = "http://" + e.listener.Addr().String()
	e.done.Go(e.drive)
	return e
}

// listen starts to serve with an empty cache. The caller holds the mutex, except
// in NewEngine.
func (e *Engine) listen(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("routertest: %w", err)
	}
	m, err := engine.New(engine.Config{KVTokens: e.config.KVCacheTokens})
	if err != nil {
		return fmt.Errorf("routertest: %w", err)
	}
	e.model, e.epoch, e.jobs = m, time.Now(), make(map[int64]*job)
	e.requests, e.ttft = 0, histogram{}
	s := &http.Server{Handler: e.handler()}
	s.ConnState = func(c net.Conn, state http.ConnState) { e.track(s, c, state) }
	e.server, e.listener = s, l
	e.done.Go(func() { _ = s.Serve(l) }) // it ends when the server is closed
	return nil
}

// track counts a server's connections, so that Close can wait for them. A
// connection that was accepted while the server closed escapes its Close, and is
// closed here.
func (e *Engine) track(s *http.Server, c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		e.done.Add(1)
		e.mu.Lock()
		current := e.server == s
		e.mu.Unlock()
		if !current {
			_ = c.Close()
		}
	case http.StateClosed:
		e.done.Done()
	}
}

// Close stops the engine and breaks all connections. It waits until nothing of
// the engine runs any more. Further calls do nothing.
func (e *Engine) Close() {
	e.mu.Lock()
	if !e.closed() {
		close(e.quit)
	}
	e.mu.Unlock()
	e.Kill()
	e.done.Wait()
}

func (e *Engine) closed() bool {
	select {
	case <-e.quit:
		return true
	default:
		return false
	}
}

// Kill breaks all connections and stops listening, as a crash does: clients get
// an error, in the middle of their answers too. Restart ends it.
func (e *Engine) Kill() {
	e.mu.Lock()
	s, l := e.server, e.listener
	e.server, e.listener = nil, nil
	for id, j := range e.jobs {
		e.model.Cancel(e.now(), id)
		delete(e.jobs, id)
		j.end()
	}
	e.mu.Unlock()
	if s != nil {
		_ = l.Close() // the server closes it as well, but only once it serves
		_ = s.Close()
	}
}

var errClosed = errors.New("routertest: the engine is closed")

// Restart starts an engine again after Kill, on the same port, with an empty
// cache and counts of zero. It does nothing if the engine runs, and fails if it is
// closed or if the port was taken in the meantime.
func (e *Engine) Restart() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed():
		return errClosed
	case e.server != nil:
		return nil
	}
	return e.listen(strings.TrimPrefix(e.URL, "http://"))
}

// Fail makes the engine answer every completion with the given HTTP status, 400
// to 599, and an error; 0 makes it work again. Requests that it has already are
// not affected. It panics for any other status.
func (e *Engine) Fail(status int) {
	if status != 0 && (status < 400 || status > 599) {
		panic(fmt.Sprintf("routertest: Fail: status %d is neither 0 nor 400 to 599", status))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = status
}

// EngineStats is what an engine has done and is doing. Times are in model time.
type EngineStats struct {
	Requests         int           // accepted
	PromptTokens     int           // of the requests that were admitted from the queue
	CachedTokens     int           // of these, found in the cache
	GenerationTokens int           // generated
	Busy             time.Duration // time in which something was computed
	Running, Waiting int           // requests now
	KVCacheUsage     float64       // share of the KV cache in use now, 0 to 1
}

// Stats returns the engine's counts since it started or was restarted.
func (e *Engine) Stats() EngineStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advance()
	s := e.model.Stats()
	return EngineStats{
		Requests:         e.requests,
		PromptTokens:     int(s.PrefixQueries),
		CachedTokens:     int(s.PrefixHits),
		GenerationTokens: int(s.GenerationTokens),
		Busy:             s.Busy,
		Running:          s.Running,
		Waiting:          s.Waiting,
		KVCacheUsage:     s.KVUsage,
	}
}
