package rivals

import "github.com/warmroute/warmroute/router/routertest"

// gie is the endpoint picker of the Gateway API Inference Extension
// (https://github.com/kubernetes-sigs/gateway-api-inference-extension up to v1.5,
// since then https://github.com/llm-d/llm-d-router) with its default profile: the
// highest of 3 · prefix + 2 · queue + 2 · KV cache, ties at random.
//
//	prefix    share of the prompt's blocks that the engine is believed to have;
//	          only the first 256 blocks of 16 tokens are looked at
//	queue     1 for the fewest waiting requests, 0 for the most, 1 if all are equal
//	KV cache  share of the KV cache that is free
//
// Queue and KV cache are scraped. llm-d's precise prefix scorer takes the prefix
// from the engines' events instead, for the whole prompt.
type gie struct {
	blocks  int  // looked at; zero: all
	exact   bool // look into the engines
	gateway *routertest.Gateway
	index   blockIndex
}

const (
	prefixWeight = 3
	queueWeight  = 2
	cacheWeight  = 2
)

func (g *gie) choose(f *fleet, r *request, candidates []*engine) (*engine, int) {
	blocks := g.cut(r.blocks)
	cached := make(map[*engine]int, len(candidates))
	if g.exact {
		for _, e := range candidates {
			cached[e] = g.gateway.CachedTokens(e.endpoint.ID, blocks) / blockTokens
		}
	} else {
		cached = g.index.matches(blocks, candidates)
	}
	waiting, free := g.scraped(candidates)
	shortest, longest := waiting[0], waiting[0]
	for _, n := range waiting {
		shortest, longest = min(shortest, n), max(longest, n)
	}
	scores := make(map[*engine]float64, len(candidates))
	for i, e := range candidates {
		prefix, queue := 0.0, 1.0
		if len(blocks) > 0 {
			prefix = float64(cached[e]) / float64(len(blocks))
		}
		if longest > shortest {
			queue = float64(longest-waiting[i]) / float64(longest-shortest)
		}
		scores[e] = float64(prefixWeight*prefix) + float64(queueWeight*queue) + float64(cacheWeight*free[i])
	}
	e := f.anyOf(least(candidates, func(e *engine) float64 { return -scores[e] }))
	return e, cached[e] * blockTokens
}

func (g *gie) cut(blocks []uint64) []uint64 {
	if g.blocks > 0 {
		return blocks[:min(len(blocks), g.blocks)]
	}
	return blocks
}

// scraped returns the last report of each candidate, idle if there was none yet.
func (g *gie) scraped(candidates []*engine) (waiting []int64, free []float64) {
	for _, e := range candidates {
		report, _ := g.gateway.Reports.Latest(e.endpoint.ID)
		n, _ := report.Waiting.Get()
		usage, _ := report.KVCacheUsage.Get()
		waiting, free = append(waiting, n), append(free, 1-usage)
	}
	return waiting, free
}

func (g *gie) send(_ *fleet, r *request, l *flight) {
	if !g.exact {
		g.index.add(l.engine, g.cut(r.blocks))
	}
}
