package engine_test

import (
	"slices"
	"time"

	"github.com/warmroute/warmroute/internal/engine"
)

// reference is the engine once more, as plainly as possible: every block on
// its own, every order found by looking at everything. It takes valid requests
// and times only.
type reference struct {
	cfg      engine.Config
	capacity int
	blocks   map[uint64]*refBlock
	stamp    int // of the latest release
	waiting  []*refSequence
	running  []*refSequence
	busy     bool
	start    time.Duration
	end      time.Duration
	pending  []engine.Event
	stats    engine.Stats
}

type refBlock struct {
	refs     int
	released int
}

type refSequence struct {
	begun bool // an iteration has had a share for it
	engine.Request
	cached, computed, generated, chunk int
	held                               int // leading blocks it refers to
}

func newReference(c engine.Config) *reference {
	c = c.WithDefaults()
	return &reference{cfg: c, capacity: c.KVTokens / c.BlockTokens, blocks: map[uint64]*refBlock{}}
}

func (e *reference) size(s *refSequence) int {
	n := (s.PromptTokens + s.OutputTokens) / e.cfg.BlockTokens
	if (s.PromptTokens+s.OutputTokens)%e.cfg.BlockTokens > 0 {
		n++
	}
	return n
}

// used counts blocks in the cache with references, without, and reserved.
func (e *reference) used() (pinned, idle, reserved int) {
	for _, b := range e.blocks {
		if b.refs > 0 {
			pinned++
		} else {
			idle++
		}
	}
	for _, s := range e.running {
		reserved += e.size(s) - s.held
	}
	return pinned, idle, reserved
}

func (e *reference) hit(blocks []uint64) int {
	n := 0
	for n < len(blocks) && e.blocks[blocks[n]] != nil {
		n++
	}
	return n
}

func (e *reference) submit(now time.Duration, r engine.Request) {
	e.waiting = append(e.waiting, &refSequence{Request: r})
	if !e.busy {
		e.begin(now)
	}
}

func (e *reference) cancel(id int64) bool {
	for i, s := range e.running {
		if s.ID == id {
			e.running = slices.Delete(e.running, i, i+1)
			e.release(s)
			return true
		}
	}
	n := len(e.waiting)
	e.waiting = slices.DeleteFunc(e.waiting, func(s *refSequence) bool { return s.ID == id })
	return len(e.waiting) < n
}

func (e *reference) release(s *refSequence) {
	for i := s.held - 1; i >= 0; i-- {
		b := e.blocks[s.Blocks[i]]
		b.refs--
		if b.refs == 0 {
			e.stamp++
			b.released = e.stamp
		}
	}
}

func (e *reference) begin(now time.Duration) {
	for len(e.waiting) > 0 && len(e.running) < e.cfg.MaxRunning {
		s := e.waiting[0]
		usable := s.Blocks
		for len(usable)*e.cfg.BlockTokens >= s.PromptTokens { // not all of the prompt, and none of the output
			usable = usable[:len(usable)-1]
		}
		hit := e.hit(usable)
		pinned, _, reserved := e.used()
		for _, h := range usable[:hit] {
			if e.blocks[h].refs == 0 {
				pinned++
			}
		}
		if pinned+reserved+e.size(s)-hit > e.capacity {
			break
		}
		for _, h := range usable[:hit] {
			e.blocks[h].refs++
		}
		s.held = hit
		s.cached = hit * e.cfg.BlockTokens
		s.computed = s.cached
		e.running = append(e.running, s)
		e.waiting = e.waiting[1:]
		for {
			pinned, idle, reserved := e.used()
			if pinned+idle+reserved <= e.capacity {
				break
			}
			e.evictOne()
		}
		e.stats.PrefixQueries += int64(s.PromptTokens)
		e.stats.PrefixHits += int64(s.cached)
		e.pending = append(e.pending, engine.Event{Kind: engine.Admitted, ID: s.ID, At: now, CachedTokens: s.cached})
	}
	e.busy = len(e.running) > 0
	if !e.busy {
		return
	}
	left := e.cfg.BatchTokens
	took := e.cfg.IterationTime
	for _, s := range e.running {
		if s.generated > 0 {
			left--
			took += e.cfg.SequenceTime + time.Duration(s.PromptTokens+s.generated)*e.cfg.ResidentTime
		}
	}
	pairs := 0.0
	for _, s := range e.running {
		s.chunk = 0
		if s.generated == 0 && left > 0 {
			s.chunk = min(left, s.PromptTokens-s.computed)
			s.begun = true
			left -= s.chunk
			took += time.Duration(s.chunk) * e.cfg.PrefillTime
			pairs += float64(s.chunk) * (float64(s.computed) + float64(s.chunk)/2)
		}
	}
	took += time.Duration(pairs * float64(e.cfg.AttentionTime) / 1e6)
	e.start, e.end = now, now+took
}

func (e *reference) evictOne() {
	victim, oldest := uint64(0), 0
	for h, b := range e.blocks {
		if b.refs == 0 && (oldest == 0 || b.released < oldest) {
			victim, oldest = h, b.released
		}
	}
	delete(e.blocks, victim)
}

func (e *reference) step(dst []engine.Event) []engine.Event {
	dst = append(dst, e.pending...)
	e.pending = nil
	e.stats.Iterations++
	e.stats.Busy += e.end - e.start
	for _, s := range slices.Clone(e.running) {
		kind := engine.Token
		if s.generated == 0 {
			s.computed += s.chunk
			e.store(s, s.computed)
			if s.computed < s.PromptTokens {
				continue
			}
			e.stats.PromptTokens += int64(s.PromptTokens)
			kind = engine.FirstToken
		}
		e.store(s, s.PromptTokens+s.generated) // what is generated now is fed back next time
		s.generated++
		e.stats.GenerationTokens++
		ev := engine.Event{Kind: kind, ID: s.ID, At: e.end, CachedTokens: s.cached, OutputTokens: s.generated}
		if kind == engine.FirstToken || s.Stream && s.generated < s.OutputTokens {
			dst = append(dst, ev)
		}
		if s.generated == s.OutputTokens {
			ev.Kind = engine.Done
			dst = append(dst, ev)
			e.stats.Finished++
			e.cancel(s.ID)
		}
	}
	e.begin(e.end)
	dst = append(dst, e.pending...)
	e.pending = nil
	return dst
}

// store caches the blocks of s that end within the given number of tokens.
func (e *reference) store(s *refSequence, tokens int) {
	for s.held < len(s.Blocks) && (s.held+1)*e.cfg.BlockTokens <= tokens {
		h := s.Blocks[s.held]
		if e.blocks[h] == nil {
			e.blocks[h] = &refBlock{}
		}
		e.blocks[h].refs++
		s.held++
	}
}

func (e *reference) state() engine.Stats {
	s := e.stats
	pinned, idle, reserved := e.used()
	s.Running, s.Waiting = len(e.running), len(e.waiting)
	for _, r := range e.running {
		if !r.begun {
			s.Unbegun++
		}
	}
	s.HeldTokens = (pinned + reserved) * e.cfg.BlockTokens
	s.IdleTokens = idle * e.cfg.BlockTokens
	s.KVTokens = e.capacity * e.cfg.BlockTokens
	s.KVUsage = float64(pinned+reserved) / float64(e.capacity)
	return s
}
