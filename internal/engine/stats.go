package engine

import "time"

// Stats is what an engine says about itself, under the names that vLLM's
// metrics use where there is one.
type Stats struct {
	Running  int     // admitted and not done (num_requests_running)
	Waiting  int     // not yet admitted (num_requests_waiting)
	Unbegun  int     // of Running, those that no iteration has had a share for yet; vLLM counts them as waiting
	KVUsage  float64 // share of the blocks that requests hold, 0 to 1; idle cached blocks are free (kv_cache_usage_perc)
	KVTokens int     // capacity in tokens

	HeldTokens int // tokens of the blocks behind KVUsage; shared prefixes count once, reserved space counts
	IdleTokens int // tokens of idle cached blocks

	// Totals since New.
	PrefixQueries    int64         // prompt tokens of admitted requests (prefix_cache_queries)
	PrefixHits       int64         // those found in the cache (prefix_cache_hits)
	PromptTokens     int64         // prompt tokens whose prefill is over, cached ones included (prompt_tokens)
	GenerationTokens int64         // output tokens (generation_tokens)
	Finished         int64         // requests that are done (request_success)
	Iterations       int64         // iterations completed
	Busy             time.Duration // duration of those iterations
}

// Stats returns the present state and the totals.
func (e *Engine) Stats() Stats {
	s := e.totals
	s.Running = len(e.running)
	s.Waiting = len(e.waiting)
	for _, r := range e.running {
		if r.generated == 0 && r.chunk == 0 && r.computed == r.cached {
			s.Unbegun++
		}
	}
	held := e.cache.pinned + e.reserved
	s.KVUsage = float64(held) / float64(e.capacity)
	s.KVTokens = e.capacity * e.cfg.BlockTokens
	s.HeldTokens = held * e.cfg.BlockTokens
	s.IdleTokens = e.cache.idle * e.cfg.BlockTokens
	return s
}
