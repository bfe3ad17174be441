package routertest

import (
	"math"
	"time"

	"github.com/warmroute/warmroute/internal/engine"
)

// job is a request in the engine. Its numbers are guarded by the engine's mutex.
type job struct {
	sent   time.Duration // model time
	cached int
	tokens int           // generated
	more   chan struct{} // holds a value if there are tokens nobody has looked at
	over   chan struct{} // closed when there will be no more
}

func (j *job) end() { close(j.over) }

// submit gives a prompt to the engine. The errors are the client's.
func (e *Engine) submit(p *prompt) (int64, *job, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server == nil {
		return 0, nil, errKilled
	}
	e.advance()
	id, now := e.nextID, e.now()
	err := e.model.Submit(now, engine.Request{
		ID: id, Blocks: p.blocks, PromptTokens: p.tokens, OutputTokens: p.maxTokens, Stream: p.stream,
	})
	if err != nil {
		return 0, nil, err
	}
	j := &job{sent: now, more: make(chan struct{}, 1), over: make(chan struct{})}
	e.jobs[id] = j
	e.nextID++
	e.requests++
	e.look()
	return id, j, nil
}

// cancel takes a request out of the engine, if it is still there.
func (e *Engine) cancel(id int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advance()
	if j := e.jobs[id]; j != nil {
		e.model.Cancel(e.now(), id)
		delete(e.jobs, id)
		j.end()
		e.look()
	}
}

// generated returns how many tokens of an answer there are, and how much of the
// prompt was cached.
func (e *Engine) generated(j *job) (tokens, cached int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return j.tokens, j.cached
}

// now is the model time.
func (e *Engine) now() time.Duration {
	return time.Duration(float64(time.Since(e.epoch)) * e.config.Speed)
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

// advance completes the iterations that are over, and returns how long the one
// under way takes in real time, or that there is none. Whoever changes what the
// engine has to do advances it first: a timer may be late, and nothing may happen
// before it was asked for.
func (e *Engine) advance() (wait time.Duration, busy bool) {
	for {
		end, busy := e.model.Next()
		if !busy {
			return 0, false
		}
		now := e.now()
		if end > now {
			// Rounded up, or the driver would wake too early and wait for nothing.
			return time.Duration(math.Ceil(float64(end-now) / e.config.Speed)), true
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
	j.cached, j.tokens = ev.CachedTokens, ev.OutputTokens
	switch ev.Kind {
	case engine.Admitted:
		return // nothing to show yet
	case engine.FirstToken:
		e.ttft.observe((ev.At - j.sent).Seconds())
	case engine.Done:
		delete(e.jobs, ev.ID)
		j.end()
		return
	}
	select {
	case j.more <- struct{}{}:
	default:
	}
}
