package rivals

import (
	"cmp"
	"slices"
	"time"
)

// preble is E2, the global scheduler of Preble (arXiv:2407.00023,
// https://github.com/WukLab/preble, multi_node/global_scheduler_with_time.py). A
// request of which more is in the tree than is new exploits: it goes to an engine
// that holds its nearest known prefix, of several to that of least cost. Others
// explore the least cost of all engines. The cost of an engine is that of the
// prefixes it holds, over the last 3 minutes:
//
//	miss rate · requests · prefill time / engines that hold it
//	+ requests in flight · time of decoding an answer
//
// Every 50 requests per engine, while the cost of the dearest engine is above 1.5
// times that of the cheapest, prefixes move from the one to the other, cheapest
// first, as long as that makes them more equal.
//
// A prefix is accounted at its nearest node that is longer than all before it.
// Prefill times are those of the simulated engines. What an engine evicts is not
// simulated, and a single hot prefix is not copied.
type preble struct {
	tree     tree
	prefixes map[*node]*prefix
	order    []*node // of prefixes, as they came: maps have none
	window   []visit
	picks    int
}

// prefix is what is known of a node.
type prefix struct {
	engines        []int // numbers of those that hold it
	requests       int   // in the window
	hits, tokens   int   // of them
	inFlight       map[int]int
	decoding       time.Duration // of those that ended
	decoded        int           // of them
	length, prompt int           // tokens of the node, and up to its end
}

// visit is a request in the window.
type visit struct {
	at           time.Time
	node         *node
	hits, tokens int
}

const (
	prebleWindow    = 3 * time.Minute
	prebleDecoding  = 45 * 0.15 // seconds, before any were measured: 45 tokens at 0.15 s
	prebleRebalance = 50        // requests per engine
	prebleShift     = 1.5
)

func newPreble() *preble {
	return &preble{prefixes: make(map[*node]*prefix)}
}

func (p *preble) choose(_ *fleet, r *request, candidates []*engine) (*engine, int) {
	way := p.tree.walk(r.blocks)
	known := agreed(way) * blockTokens
	costs := p.costs(r.at)
	cheapest := func(among []*engine) *engine {
		return least(among, func(e *engine) float64 { return costs[e.number] })[0]
	}
	e := cheapest(candidates)
	if 2*known > r.tokens {
		if holders := p.holders(way, candidates); len(holders) > 0 {
			e = cheapest(holders)
		}
	}
	return e, min(r.tokens, matched(way, e.number, time.Time{})*blockTokens)
}

// holders returns the candidates that hold the nearest node of a way that any
// holds.
func (p *preble) holders(way []step, candidates []*engine) []*engine {
	for i := len(way) - 1; i >= 0; i-- {
		var holders []*engine
		for _, e := range candidates {
			if x := p.prefixes[way[i].node]; x != nil && slices.Contains(x.engines, e.number) || x == nil && !way[i].on(e.number).last.IsZero() {
				holders = append(holders, e)
			}
		}
		if len(holders) > 0 {
			return holders
		}
	}
	return nil
}

// costs returns the cost of each engine, by number, in seconds.
func (p *preble) costs(now time.Time) map[int]float64 {
	p.forget(now)
	costs := make(map[int]float64)
	for _, n := range p.order {
		x := p.prefixes[n]
		for _, e := range x.engines {
			costs[e] += p.cost(x, e)
		}
	}
	return costs
}

func (p *preble) cost(x *prefix, e int) float64 {
	decoding := prebleDecoding
	if x.decoded > 0 {
		decoding = x.decoding.Seconds() / float64(x.decoded)
	}
	misses := 1 - float64(x.hits)/float64(max(1, x.tokens))
	prefill := float64(misses*float64(x.requests)) * prefillSeconds(x.length, x.prompt) / float64(len(x.engines))
	return prefill + float64(float64(x.inFlight[e])*decoding)
}

// prefillSeconds is the time that a simulated engine needs for the last tokens of
// a prompt.
func prefillSeconds(tokens, prompt int) float64 {
	before := float64(prompt - tokens)
	pairs := float64(tokens) * (before + float64(tokens)/2)
	return float64(75e-6*float64(tokens)) + float64(1.1e-9*pairs)
}

// forget drops what is out of the window.
func (p *preble) forget(now time.Time) {
	for len(p.window) > 0 && now.Sub(p.window[0].at) > prebleWindow {
		v := p.window[0]
		p.window = p.window[1:]
		x := p.prefixes[v.node]
		x.requests--
		x.hits -= v.hits
		x.tokens -= v.tokens
		p.drop(v.node)
	}
}

// drop forgets a prefix that is not in use any more.
func (p *preble) drop(n *node) {
	if x := p.prefixes[n]; x.requests > 0 || len(x.inFlight) > 0 {
		return
	}
	delete(p.prefixes, n)
	i := slices.Index(p.order, n)
	p.order = slices.Delete(p.order, i, i+1)
}

func (p *preble) send(f *fleet, r *request, l *flight) {
	known := agreed(p.tree.walk(r.blocks)) * blockTokens
	last := p.tree.sent(r.blocks, l.engine.number, r.at)
	if last == nil {
		return
	}
	n, length := important(last, len(r.blocks))
	x := p.prefixes[n]
	if x == nil {
		x = &prefix{inFlight: make(map[int]int)}
		p.prefixes[n] = x
		p.order = append(p.order, n)
	}
	x.length, x.prompt = len(n.blocks)*blockTokens, length*blockTokens
	if !slices.Contains(x.engines, l.engine.number) {
		x.engines = append(x.engines, l.engine.number)
	}
	x.requests++
	x.inFlight[l.engine.number]++
	hits := min(known, r.tokens)
	x.hits += hits
	x.tokens += r.tokens
	p.window = append(p.window, visit{r.at, n, hits, r.tokens})
	l.node = n
	p.picks++
	if p.picks%(prebleRebalance*len(f.engines)) == 0 {
		p.rebalance(f, r.at)
	}
}

// important returns the nearest node that is longer than all before it, and the
// number of blocks up to its end.
func important(n *node, length int) (*node, int) {
	for n.parent != nil && 2*len(n.blocks) <= length {
		length -= len(n.blocks)
		n = n.parent
	}
	return n, length
}

func (p *preble) release(_ *fleet, l *flight, at time.Time) {
	x := p.prefixes[l.node]
	if x == nil {
		return
	}
	e := l.engine.number
	if x.inFlight[e]--; x.inFlight[e] == 0 {
		delete(x.inFlight, e)
	}
	if !l.first.IsZero() {
		x.decoding += at.Sub(l.first)
		x.decoded++
	}
	p.drop(l.node)
}

// rebalance moves prefixes from the dearest engine to the cheapest.
func (p *preble) rebalance(f *fleet, now time.Time) {
	costs := p.costs(now)
	sorted := slices.Clone(f.engines)
	slices.SortStableFunc(sorted, func(a, b *engine) int { return cmp.Compare(costs[b.number], costs[a.number]) })
	for to := sorted[len(sorted)-1].number; len(sorted) > 1; sorted = sorted[1:] {
		from := sorted[0].number
		if costs[from] < prebleShift*costs[to] {
			return
		}
		p.shift(from, to, costs)
	}
}

func (p *preble) shift(from, to int, costs map[int]float64) {
	type moving struct {
		*prefix
		cost float64
	}
	var all []moving
	for _, n := range p.order {
		if x := p.prefixes[n]; x.requests > 1 && slices.Contains(x.engines, from) {
			all = append(all, moving{x, p.cost(x, from)})
		}
	}
	slices.SortStableFunc(all, func(a, b moving) int { return cmp.Compare(a.cost, b.cost) })
	for _, m := range all {
		if costs[from] < costs[to]+m.cost {
			return
		}
		costs[from] -= m.cost
		costs[to] += m.cost
		m.engines = []int{to}
	}
}
