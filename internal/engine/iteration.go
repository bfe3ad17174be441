package engine

import "time"

// begin admits what fits and starts an iteration at time now, or leaves the
// engine idle if there is nothing to do.
func (e *Engine) begin(now time.Duration) {
	for e.admit(now) {
	}
	e.busy = len(e.running) > 0
	if !e.busy {
		return
	}
	e.start = now
	e.end = now + time.Duration(float64(e.plan())/e.speed)
}

// admit moves the first waiting request to the running ones if there is a
// place and memory for it.
func (e *Engine) admit(now time.Duration) bool {
	if len(e.waiting) == 0 || len(e.running) >= e.cfg.MaxRunning {
		return false
	}
	s := e.waiting[0]
	total := e.blocksFor(s.Request)
	usable := s.Blocks[:min(len(s.Blocks), (s.PromptTokens-1)/e.cfg.BlockTokens)]
	hit, idle := e.cache.match(usable)
	if e.cache.pinned+idle+e.reserved+total-hit > e.capacity {
		return false
	}
	s.tip, s.stored = e.cache.pin(nil, usable)
	s.cached = hit * e.cfg.BlockTokens
	s.computed = s.cached
	s.reserved = total - hit
	e.reserved += s.reserved
	if over := e.cache.pinned + e.cache.idle + e.reserved - e.capacity; over > 0 {
		e.cache.evict(over)
	}

	e.waiting[0] = nil
	e.waiting = e.waiting[1:]
	e.running = append(e.running, s)
	e.totals.PrefixQueries += int64(s.PromptTokens)
	e.totals.PrefixHits += int64(s.cached)
	e.admitted = append(e.admitted, Event{Kind: Admitted, ID: s.ID, At: now, CachedTokens: s.cached})
	return true
}

// plan assigns the work of the next iteration and returns its duration.
func (e *Engine) plan() time.Duration {
	var decoding, resident int
	for _, s := range e.running {
		if s.generated > 0 {
			s.chunk = 1 // the token generated last
			decoding++
			resident += s.computed + 1
		}
	}
	var prefill int
	var halves int64 // half pairs, for attention
	budget := max(e.cfg.BatchTokens-decoding, 0)
	for _, s := range e.running {
		if s.generated > 0 {
			continue
		}
		s.chunk = min(s.PromptTokens-s.computed, budget)
		budget -= s.chunk
		prefill += s.chunk
		halves += int64(s.chunk) * int64(2*s.computed+s.chunk)
	}
	return e.cfg.IterationTime +
		e.cfg.PrefillTime*time.Duration(prefill) +
		e.attention(halves) +
		e.cfg.SequenceTime*time.Duration(decoding) +
		e.cfg.ResidentTime*time.Duration(resident)
}

// attention returns the time for a number of half pairs. Whole millions and
// the rest are multiplied apart because their product may not fit 64 bits.
func (e *Engine) attention(halves int64) time.Duration {
	const million = 2_000_000
	whole, rest := time.Duration(halves/million), time.Duration(halves%million)
	return e.cfg.AttentionTime*whole + e.cfg.AttentionTime*rest/million
}

// complete applies the work of the iteration that ends, and removes the
// requests that are done.
func (e *Engine) complete(dst []Event) []Event {
	e.totals.Busy += e.end - e.start
	e.totals.Iterations++
	kept := e.running[:0]
	for _, s := range e.running {
		e.advance(s)
		if s.computed < s.PromptTokens {
			kept = append(kept, s)
			continue
		}
		kind := Token
		if s.generated == 0 {
			kind = FirstToken
			e.totals.PromptTokens += int64(s.PromptTokens)
		}
		s.generated++
		e.totals.GenerationTokens++
		done := s.generated == s.OutputTokens
		if kind == FirstToken || s.Stream && !done {
			dst = append(dst, e.event(kind, s))
		}
		if done {
			dst = append(dst, e.event(Done, s))
			e.totals.Finished++
			e.release(s)
			continue
		}
		kept = append(kept, s)
	}
	clear(e.running[len(kept):])
	e.running = kept
	return dst
}

// advance adds the chunk that was computed to the context of s, and the blocks
// that it filled to the cache.
func (e *Engine) advance(s *sequence) {
	s.computed += s.chunk
	s.chunk = 0
	if s.stored == len(s.Blocks) {
		return
	}
	full := min(s.computed/e.cfg.BlockTokens, len(s.Blocks))
	if full == s.stored {
		return
	}
	s.tip = e.cache.extend(s.tip, s.Blocks[s.stored:], full-s.stored)
	s.reserved -= full - s.stored
	e.reserved -= full - s.stored
	s.stored = full
}

// release gives back the memory of a sequence that leaves the running ones.
func (e *Engine) release(s *sequence) {
	e.cache.unpin(s.tip)
	e.reserved -= s.reserved
	delete(e.byID, s.ID)
}

func (e *Engine) event(k Kind, s *sequence) Event {
	return Event{Kind: k, ID: s.ID, At: e.end, CachedTokens: s.cached, OutputTokens: s.generated}
}

// blocksFor returns the blocks that r needs for its prompt and output.
func (e *Engine) blocksFor(r Request) int {
	return (r.PromptTokens + r.OutputTokens + e.cfg.BlockTokens - 1) / e.cfg.BlockTokens
}
