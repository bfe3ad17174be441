package balancer

import (
	"math"

	"github.com/warmroute/warmroute/loadstats"
)

// Affinity weighs what a warm prefix saves against what waiting for it costs.
// Everything is counted in tokens of prefill work, so that nothing has to be
// normalised and no threshold switches affinity off when load is high:
//
//	cost = backlog              prefill that waits there already
//	     + own                  prefill that is new on every endpoint
//	     + recompute · price    prefill that the deepest holder could save
//	     + in flight · Sharing  decoding that slows the prefill, and is slowed by it
//	     + others               the same, and what waits, of other gateways
//	     + memory               cache that is not there
//
// The least cost wins; equal costs go by home order, so that a cold prefix has
// the same home in every gateway. Costs are divided by the endpoint's weight, but
// for own: were that divided too, every prompt would begin at the heaviest
// endpoint as long as it is idle, however little heavier it is.
//
// The price of recomputing is 1, and grows with the share of the fleet that is
// busy: work spent on copies while everyone waits delays everyone, and without
// that the fleet has a second, bad stable state. An endpoint with a queue however
// long counts as one, so that idle ones are still used. A request that branches
// off a prefix that others share makes a copy that later requests repay, so it is
// divided by the number of recent branches, as long as the prefix has fewer copies
// than its share of all branches.
//
// The zero value is the default; the fields exist for ablation and for
// simulation against a user's own traffic.
type Affinity struct {
	// Pressure is by how much the price of recomputing grows when every endpoint
	// is busy, in proportion when some are. Zero means 10; negative means none.
	Pressure float64
	// Sharing is what one request in flight costs another, in tokens of
	// prefill. Zero means 200; negative means none.
	Sharing float64
}

// memoryShare is the share of the KV cache that pinned and new tokens may take
// together before the engine has to queue the request for memory.
const memoryShare = 0.95

// busyBacklog is the backlog, in tokens, from which on an endpoint is fully
// busy; below it is in proportion. It is two iterations of an engine.
const busyBacklog = 4000

// othersWaiting is what a request of another gateway costs that waits for its
// prefill, in tokens: reports say how many wait, not how long their prompts are.
const othersWaiting = 1000

// manyWaiting is more than any endpoint can have, so that absurd reports leave the
// other terms their weight.
const manyWaiting = 1 << 20

// othersGap bounds what reports may cost an endpoint, in tokens: so much more than
// the one that they cost least. An engine that exaggerates would get nothing any
// more if it was believed. Where it told the truth, first tokens that don't come
// make its backlog grow.
const othersGap = 1200

// Choose returns the candidate of least cost.
func (a Affinity) Choose(p *PickInfo) (Choice, error) {
	if len(p.Candidates) == 0 {
		return Choice{}, ErrNoCandidates
	}
	m := a.model(p)
	var best [3]struct {
		index int
		total float64
	}
	n := 0
	for i := range p.Candidates {
		total := m.total(&p.Candidates[i])
		at := n
		for at > 0 && total < best[at-1].total {
			if at < len(best) {
				best[at] = best[at-1]
			}
			at--
		}
		if at < len(best) {
			best[at].index, best[at].total = i, total
			n = min(n+1, len(best))
		}
	}
	c := Choice{Index: best[0].index, Cost: m.cost(&p.Candidates[best[0].index]), NumOthers: n - 1}
	for i := range c.NumOthers {
		index := best[i+1].index
		c.Others[i] = Ranked{index, m.cost(&p.Candidates[index])}
	}
	c.Reason = warmth(p, c.Index, m.deepest)
	return c, nil
}

// model is what the cost of every candidate of one pick shares.
type model struct {
	deepest    int
	own        float64
	copyPrice  float64 // of a token that a holder could save
	sharing    float64
	meanWeight float64
	believed   float64 // most that others may cost
}

func (a Affinity) model(p *PickInfo) model {
	m := model{sharing: defaulted(a.Sharing, 200)}
	busy, weight, holders, others := 0, 0, 0, math.Inf(1)
	for i := range p.Candidates {
		c := &p.Candidates[i]
		if cost := m.others(&c.Load); cost < others {
			others = cost
		}
		busy += min(c.Load.Backlog, busyBacklog)
		weight += c.Weight
		switch {
		case c.CachedTokens > m.deepest:
			m.deepest, holders = c.CachedTokens, 1
		case c.CachedTokens == m.deepest:
			holders++
		}
	}
	m.believed = others + othersGap
	n := float64(len(p.Candidates))
	m.own = float64(max(0, p.PromptTokens-m.deepest))
	m.meanWeight = float64(weight) / n
	m.copyPrice = 1 + float64(defaulted(a.Pressure, 10)*float64(busy)/(n*busyBacklog))
	if m.deepest > 0 && float64(holders) < n*(p.Branches+1)/max(1, p.AllBranches) {
		m.copyPrice /= 1 + p.Branches
	}
	return m
}

// total is the cost of one candidate. The conversions forbid fused multiply-add,
// which only some architectures have: the same inputs give the same decision on
// all.
func (m *model) total(c *Candidate) float64 {
	l := &c.Load
	recompute := float64(m.deepest - c.CachedTokens)
	differs := float64(l.Backlog) + float64(recompute*m.copyPrice) + m.inFlight(l) + m.memory(l, recompute)
	if w := float64(c.Weight); w != m.meanWeight {
		differs *= m.meanWeight / w
	}
	return m.own + float64(differs)
}

func (m *model) inFlight(l *loadstats.Load) float64 {
	requests := float64(l.InFlight)
	if l.FailureShare > 0 {
		requests += float64(failurePenalty * l.FailureShare)
	}
	cost := float64(m.sharing * requests)
	if l.Fresh {
		cost += min(m.others(l), m.believed)
	}
	return cost
}

// others is what the requests cost that a report shows beyond the caller's own.
// Without one it costs nothing to ask.
func (m *model) others(l *loadstats.Load) float64 {
	if !l.Fresh || l.Report == nil {
		return 0
	}
	return m.reported(l)
}

func (m *model) reported(l *loadstats.Load) float64 {
	waiting, _ := l.Report.Waiting.Get()
	waiting = min(waiting, manyWaiting)
	cost := float64(m.sharing * float64(l.Requests()-l.InFlight))
	return cost + float64(othersWaiting*float64(max(0, waiting-int64(l.PendingPrefills))))
}

func (m *model) memory(l *loadstats.Load, recompute float64) float64 {
	if l.CapacityTokens == 0 {
		return 0
	}
	return max(0, float64(l.PinnedTokens)+m.own+recompute-float64(memoryShare*float64(l.CapacityTokens)))
}

// cost explains the total.
func (m *model) cost(c *Candidate) Cost {
	recompute := float64(m.deepest - c.CachedTokens)
	return Cost{
		Total:     m.total(c),
		Backlog:   float64(c.Load.Backlog),
		Own:       m.own,
		Recompute: float64(recompute * m.copyPrice),
		InFlight:  m.inFlight(&c.Load),
		Memory:    m.memory(&c.Load, recompute),
	}
}

// defaulted reads a constant of which zero means the default and a negative
// value means none.
func defaulted(v, zero float64) float64 {
	if v == 0 {
		return zero
	}
	return max(0, v)
}
