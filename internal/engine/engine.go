// Package engine models one LLM inference engine in virtual time: continuous
// batching with chunked prefill, and a prefix cache of reference-counted KV
// blocks, in the manner of vLLM (https://docs.vllm.ai/en/latest/design/).
//
// The model is a pure state machine. It has no clock, no goroutine and no
// lock; its owner tells it the time, as a duration since an epoch of the
// owner's choice. A simulator jumps from one Next to the following; a fake
// server sleeps until then. Equal calls give equal answers everywhere.
//
// # Iterations
//
// An iteration decodes one token of each sequence whose prefill is over, and
// spends what is left of BatchTokens on prefill, first come first served. It
// takes
//
//	IterationTime
//	+ PrefillTime · prompt tokens
//	+ AttentionTime · Σ chunk · (tokens before it + chunk/2) / 1,000,000
//	+ SequenceTime · decoding sequences
//	+ ResidentTime · their tokens
//
// The iteration that computes the last prompt token yields the first output
// token.
//
// # Memory
//
// A request is admitted, in order of arrival, when the blocks of its whole
// prompt and output fit; there is no preemption. Its cache hit is fixed at
// that moment, and at least one token is always computed. Its blocks enter the
// cache as they fill, those of the prompt with its chunks and those of the
// output with its tokens, and stay there after its end, idle, until the space
// is needed. The last output token is never fed back, so it is not in them.
package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrTooLarge reports a request that can never fit the KV cache.
var ErrTooLarge = errors.New("request exceeds the KV cache")

// Request is one prompt for an engine.
type Request struct {
	ID int64 // unique among the requests of the engine that have not ended

	// Blocks names the full blocks of the prompt, and of the output to come as
	// far as it is known: Blocks[i] is a hash of all tokens up to the end of
	// block i, so that equal values mean equal prefixes. It may be shorter;
	// what it does not name is not cached. The engine reads it until the
	// request ends.
	Blocks []uint64

	PromptTokens int  // at least 1
	OutputTokens int  // at least 1; generation stops exactly there
	Stream       bool // report a Token event for each token between the first and the last
}

// Engine is the state of one engine. It is not safe for concurrent use, and
// must not be copied. Times given to it must not decrease; one that does
// counts as the latest time seen.
type Engine struct {
	cfg      Config
	capacity int     // blocks
	speed    float64 // relative to cfg

	cache    *cache
	reserved int // blocks set aside for admitted requests and not (yet) in the cache
	waiting  []*sequence
	running  []*sequence // in order of admission
	byID     map[int64]*sequence

	clock    time.Duration // latest time seen
	busy     bool          // an iteration is under way
	start    time.Duration // of that iteration
	end      time.Duration
	admitted []Event // not yet handed out

	totals Stats // counters only
}

// sequence is a request and how far it got.
type sequence struct {
	Request
	cached    int  // prompt tokens found in the cache at admission
	computed  int  // tokens in the KV cache, cached ones included
	generated int  // output tokens; positive once the prefill is over
	chunk     int  // tokens being computed by the iteration under way
	tip       *run // end of its path in the cache
	stored    int  // blocks on that path
	reserved  int  // blocks set aside beside it
}

// New returns an idle engine with an empty cache.
func New(c Config) (*Engine, error) {
	c = c.WithDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Engine{
		cfg:      c,
		capacity: c.KVTokens / c.BlockTokens,
		speed:    1,
		cache:    newCache(),
		byID:     make(map[int64]*sequence),
	}, nil
}

// Submit queues r at time now. An idle engine starts on it at once, a busy one
// considers it when the current iteration ends. The errors are for requests
// that could never run: ErrTooLarge, sizes that contradict each other, an ID
// in use.
func (e *Engine) Submit(now time.Duration, r Request) error {
	switch {
	case r.PromptTokens < 1:
		return fmt.Errorf("engine: request %d: %d prompt tokens, want at least 1", r.ID, r.PromptTokens)
	case r.OutputTokens < 1:
		return fmt.Errorf("engine: request %d: %d output tokens, want at least 1", r.ID, r.OutputTokens)
	case r.PromptTokens > e.cfg.KVTokens || r.OutputTokens > e.cfg.KVTokens || e.blocksFor(r) > e.capacity:
		return fmt.Errorf("engine: request %d: %d prompt and %d output tokens: %w of %d",
			r.ID, r.PromptTokens, r.OutputTokens, ErrTooLarge, e.cfg.KVTokens)
	case len(r.Blocks) > (r.PromptTokens+r.OutputTokens)/e.cfg.BlockTokens:
		return fmt.Errorf("engine: request %d: %d blocks of %d tokens in %d tokens of prompt and output",
			r.ID, len(r.Blocks), e.cfg.BlockTokens, r.PromptTokens+r.OutputTokens)
	case e.byID[r.ID] != nil:
		return fmt.Errorf("engine: request %d is already queued or running", r.ID)
	}
	s := &sequence{Request: r}
	e.byID[r.ID] = s
	e.waiting = append(e.waiting, s)
	e.clock = max(e.clock, now)
	if !e.busy {
		e.begin(e.clock)
	}
	return nil
}

// Cancel ends a request without a Done event, waiting or running, and frees
// its place and memory. What it stored in the cache so far stays there, idle.
// It reports whether there was such a request. An iteration under way does
// not get shorter.
func (e *Engine) Cancel(now time.Duration, id int64) bool {
	s := e.byID[id]
	if s == nil {
		return false
	}
	e.clock = max(e.clock, now)
	if i := slices.Index(e.running, s); i >= 0 {
		e.running = slices.Delete(e.running, i, i+1)
		e.release(s)
	} else {
		i = slices.Index(e.waiting, s)
		e.waiting = slices.Delete(e.waiting, i, i+1)
		delete(e.byID, id)
	}
	return true
}

// SetSpeed makes the engine so many times faster than its Config says, from the
// next iteration on. Only 0.01 to 100 make sense; anything else is an error.
func (e *Engine) SetSpeed(speed float64) error {
	if !(speed >= 0.01 && speed <= 100) {
		return fmt.Errorf("engine: speed %v is outside 0.01 to 100", speed)
	}
	e.speed = speed
	return nil
}

// Next returns the time at which the iteration under way ends, or false if
// the engine is idle.
func (e *Engine) Next() (time.Duration, bool) { return e.end, e.busy }

// Step completes the iteration under way if it has ended by now, starts the
// next one at that moment, appends what happened to dst in order of time, and
// returns dst. It completes one iteration at most: an owner who is late calls
// it while Next is not after now.
func (e *Engine) Step(now time.Duration, dst []Event) []Event {
	e.clock = max(e.clock, now)
	if !e.busy || e.end > now {
		return dst
	}
	dst = e.handOver(dst)
	dst = e.complete(dst)
	e.begin(e.end)
	return e.handOver(dst)
}

// handOver appends the admissions that no Step has reported yet.
func (e *Engine) handOver(dst []Event) []Event {
	dst = append(dst, e.admitted...)
	e.admitted = e.admitted[:0]
	return dst
}

// Cached returns how many tokens of a prompt with these blocks are in the
// cache now. It changes nothing, not even the order of eviction.
func (e *Engine) Cached(blocks []uint64) int {
	n, _ := e.cache.match(blocks)
	return n * e.cfg.BlockTokens
}
