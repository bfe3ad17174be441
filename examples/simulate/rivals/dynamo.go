package rivals

import (
	"time"

	"github.com/warmroute/warmroute/router/routertest"
)

// dynamo is the KV router of NVIDIA Dynamo
// (https://github.com/ai-dynamo/dynamo, lib/kv-router/src/scheduling/selector). In
// blocks, the least of
//
//	max(0, (prefill tokens sent without a first token + prompt)/block - cached)
//	+ blocks in use with the request, each counted once
//
// with an overlap credit of 1, no decay, temperature 0, ties at random and no
// queue in the router. Without events of the engines it believes for 120 s that
// what it sent is cached.
type dynamo struct {
	gateway *routertest.Gateway // to look into the engines; nil: approximate
	tree    tree
	active  map[int]int // blocks in use, by number of the engine
}

const dynamoTTL = 120 * time.Second

func (d *dynamo) choose(f *fleet, r *request, candidates []*engine) (*engine, int) {
	way := d.tree.walk(r.blocks)
	cached := func(e *engine) int {
		if d.gateway != nil {
			return d.gateway.CachedTokens(e.endpoint.ID, r.blocks) / blockTokens
		}
		return matched(way, e.number, r.at.Add(-dynamoTTL))
	}
	e := f.anyOf(least(candidates, func(e *engine) float64 {
		shared := 0
		for _, s := range way {
			if s.on(e.number).refs > 0 {
				shared += s.agree
			}
		}
		prefill := float64(e.prefill+r.tokens)/blockTokens - float64(cached(e))
		return max(0, prefill) + float64(d.active[e.number]+len(r.blocks)-shared)
	}))
	return e, cached(e) * blockTokens
}

func (d *dynamo) send(_ *fleet, r *request, l *flight) {
	l.node = d.tree.sent(r.blocks, l.engine.number, r.at)
	if d.active == nil {
		d.active = make(map[int]int)
	}
	for n := l.node; n != nil; n = n.parent {
		s := n.at(l.engine.number)
		if s.refs == 0 {
			d.active[l.engine.number] += len(n.blocks)
		}
		s.refs++
	}
}

func (d *dynamo) release(_ *fleet, l *flight, _ time.Time) {
	for n := l.node; n != nil; n = n.parent {
		s := n.at(l.engine.number)
		s.refs--
		if s.refs == 0 {
			d.active[l.engine.number] -= len(n.blocks)
		}
	}
}
