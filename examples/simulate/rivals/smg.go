package rivals

import "time"

// cacheAware is the default policy of SMG, the former SGLang router
// (https://github.com/lightseekorg/smg, model_gateway/src/policies/cache_aware.rs).
// The fleet is imbalanced when the longest queue is more than an absolute number
// above the shortest and more than a ratio of it; then the shortest queue gets the
// request. Otherwise it goes where the deepest prefix in the tree was sent last, if
// that is more than a share of the prompt, else to the shortest queue. If that
// engine is gone, the first one gets the request.
//
// The launcher's defaults are 0.3, 64 and 1.5, the library's 0.5, 32 and 1.1. Of
// equal queues the one that served fewer requests is taken, then the first. The
// launcher's tree begins to evict at 2^26 characters for each engine, which is not
// reached here.
type cacheAware struct {
	threshold, relative float64
	absolute            int

	tree      tree
	processed map[int]int // requests, by number of the engine
	lost      bool        // the engine of the last request's prefix is gone
}

func (c *cacheAware) choose(_ *fleet, r *request, candidates []*engine) (*engine, int) {
	c.lost = false
	lowest, highest := candidates[0].inFlight, 0
	for _, e := range candidates {
		lowest, highest = min(lowest, e.inFlight), max(highest, e.inFlight)
	}
	if highest-lowest > c.absolute && float64(highest) > c.relative*float64(lowest) {
		return c.shortest(candidates), 0
	}
	way := c.tree.walk(r.blocks)
	if tokens := agreed(way) * blockTokens; float64(tokens) > c.threshold*float64(r.tokens) {
		if e := lastSeen(way[len(way)-1].node, candidates); e != nil {
			return e, tokens
		}
		c.lost = true
		return candidates[0], 0
	}
	return c.shortest(candidates), 0
}

// lastSeen returns the engine that a node was sent to last. It is nil if that one
// is no candidate.
func lastSeen(n *node, candidates []*engine) *engine {
	last := -1
	var at time.Time
	for i, s := range n.seen {
		if s.last.After(at) {
			last, at = i, s.last
		}
	}
	for _, e := range candidates {
		if e.number == last {
			return e
		}
	}
	return nil
}

func (c *cacheAware) shortest(candidates []*engine) *engine {
	short := shortest(candidates)
	return least(short, func(e *engine) float64 { return float64(c.processed[e.number]) })[0]
}

// send tells the tree, but of what goes to the first engine because the one with
// its prefix is gone: that prefix stays where it was until it is evicted.
func (c *cacheAware) send(_ *fleet, r *request, l *flight) {
	if c.lost {
		return
	}
	if c.processed == nil {
		c.processed = make(map[int]int)
	}
	c.processed[l.engine.number]++
	c.tree.sent(r.blocks, l.engine.number, r.at)
}
