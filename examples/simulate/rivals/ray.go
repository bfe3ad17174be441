package rivals

import "time"

// rayPrefix is the PrefixCacheAffinityRouter of Ray Serve LLM
// (https://github.com/ray-project/ray,
// python/ray/llm/_internal/serve/routing_policies/prefix_aware): the replicas with
// the longest prefix in a tree that never forgets, if that is at least a tenth of
// the prompt, else those that were sent the fewest characters; of several the one
// with the shortest queue. The check for imbalance is off by default (its
// threshold is infinite), and with it every regard for load.
//
// Ray's routers share one tree; here each gateway has its own.
type rayPrefix struct{ tree tree }

const rayMatchRate = 0.1

func (p *rayPrefix) choose(f *fleet, r *request, candidates []*engine) (*engine, int) {
	way := p.tree.walk(r.blocks)
	depth := func(e *engine) int { return matched(way, e.number, time.Time{}) * blockTokens }
	deepest := least(candidates, func(e *engine) float64 { return -float64(depth(e)) })
	if tokens := depth(deepest[0]); float64(tokens) >= rayMatchRate*float64(r.tokens) {
		return f.anyOf(shortest(deepest)), tokens
	}
	smallest := least(candidates, func(e *engine) float64 { return float64(p.tree.size(e.number)) })
	e := f.anyOf(shortest(smallest))
	return e, depth(e)
}

func (p *rayPrefix) send(_ *fleet, r *request, l *flight) {
	p.tree.sent(r.blocks, l.engine.number, r.at)
}
