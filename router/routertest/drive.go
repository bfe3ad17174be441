package routertest

import (
	"context"
	"time"

	"github.com/warmroute/warmroute/internal/engine"
)

// job is a request in the engine. Its fields are guarded by the engine's mutex.
type job struct {
	sent    time.Duration // model time
	cached  int
	tokens  int // generated
	ended   bool
	changed chan struct{} // holds one value when something is new
}

func (j *job) finish() {
	j.ended = true
	j.notify()
}

func (j *job) notify() {
	select {
	case j.changed <- struct{}{}:
	default:
	}
}

// submit gives a prompt to the engine.
func (e *Engine) submit(p *prompt) (int64, *job, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	j := &job{sent: now, changed: make(chan struct{}, 1)}
	id := e.nextID
	err := e.model.Submit(now, engine.Request{
		ID: id, Blocks: p.blocks, PromptTokens: p.tokens, OutputTokens: p.maxTokens, Stream: p.stream,
	})
	if err != nil {
		return 0, nil, err
	}
	e.nextID++
	e.jobs[id] = j
	e.look()
	return id, j, nil
}

// cancel takes a request out of the engine, if it is still there.
func (e *Engine) cancel(id int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.jobs[id] != nil {
		e.model.Cancel(e.now(), id)
		delete(e.jobs, id)
		e.look()
	}
}

// progress waits until the job has more than the given number of tokens or has
// ended. complete says that it ended by itself; the error is that of the
// context.
func (e *Engine) progress(ctx context.Context, j *job, seen int) (tokens int, ended bool, err error) {
	for {
		e.mu.Lock()
		tokens, ended = j.tokens, j.ended
		e.mu.Unlock()
		if tokens > seen || ended {
			return tokens, ended, nil
		}
		select {
		case <-j.changed:
		case <-ctx.Done():
			return tokens, ended, ctx.Err()
		}
	}
}

// look makes the driver look again.
func (e *Engine) look() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// drive is the one goroutine in which the engine computes.
func (e *Engine) drive() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		e.mu.Lock()
		wait, busy := e.advance()
		e.mu.Unlock()
		var due <-chan time.Time
		if busy {
			timer.Reset(wait)
			due = timer.C
		}
		select {
		case <-due:
		case <-e.wake:
		case <-e.quit:
			return
		}
	}
}

// advance completes the iterations that are over, and returns how long the next
// one takes in real time, or that there is none.
func (e *Engine) advance() (wait time.Duration, busy bool) {
	for {
		end, busy := e.model.Next()
		if !busy {
			return 0, false
		}
		now := e.now()
		if end > now {
			return time.Duration(float64(end-now) / e.config.Speed), true
		}
		e.events = e.model.Step(now, e.events[:0])
		for i := range e.events {
			e.apply(&e.events[i])
		}
	}
}

func (e *Engine) apply(ev *engine.Event) {
	j := e.jobs[ev.ID]
	if j == nil {
		return
	}
	switch ev.Kind {
	case engine.Admitted:
		j.cached = ev.CachedTokens
		return // nothing to show yet
	case engine.FirstToken:
		e.ttft.observe((ev.At - j.sent).Seconds())
	}
	j.tokens = ev.OutputTokens
	if ev.Kind == engine.Done {
		j.ended = true
		delete(e.jobs, ev.ID)
	}
	j.notify()
}
