package router

import (
	"fmt"
	"math"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router/internal/prefixindex"
)

const (
	// homeDepth is how much of the home order is taken from the ring; the rest
	// of the endpoints follow in rotation. Cold prompts go to the first few.
	homeDepth = 16
	// keyBlocks is the length of the prompt that a request with a key and no
	// prefix stands for: 4,096 tokens, enough to outweigh ordinary differences
	// of load and little enough to leave an endpoint that has a queue.
	keyBlocks = 16
	// answerTokens is the room that an answer is expected to need, of which
	// MaxOutputTokens may say that it is less. Most limits are far above what
	// is generated, so they can't be taken for it.
	answerTokens = BlockTokens
	// othersBranched is the number of recent branches from which on a prefix
	// counts as shared.
	othersBranched = 0.5
)

// scratch is the memory of one Pick, used again by later ones.
type scratch struct {
	now     time.Time
	nano    int64 // now as UnixNano
	match   prefixindex.Match
	info    balancer.PickInfo
	entries []*entry // of info.Candidates
	order   []int
	placed  []bool
	chain   []uint64
	keyed   [keyBlocks]uint64
	homeKey uint64
	home    string // first of order
	seen    []int  // requests in flight of info.Candidates, out of a policy's reach
	retryAt int64  // earliest end of a back-pressure seen, UnixNano
	broken  bool   // whoever could take the request is broken
	plan    plan   // of the pass over the queue

	// What the bound depends on.
	total, weight     int  // requests in flight and weight of all candidates
	fullest, lightest int  // most requests in flight, least weight
	ramping           bool // somebody may not have its full share yet
	relaxed           bool // all were at their bound, so only the hard cap counts
}

func (p *Pool) release(s *scratch) {
	s.chain = nil // may belong to the caller
	s.plan.reset()
	clear(s.entries)
	p.scratch.Put(s)
}

// describe fills in what the request itself says.
func (s *scratch) describe(r *Request, now time.Time) {
	s.now, s.nano = now, now.UnixNano()
	s.info = balancer.PickInfo{Candidates: s.info.Candidates[:0], MaxOutputTokens: max(0, r.MaxOutputTokens)}
	s.chain = nil
	if r.Prefix != nil {
		s.chain = r.Prefix.Blocks
		s.info.PromptTokens = min(r.Prefix.Tokens, maxTokens)
		if r.Prefix.Tokens <= 0 {
			s.info.PromptTokens = len(s.chain) * BlockTokens
		}
		s.homeKey, s.info.Keyed = homeKey(r)
	}
	if r.Key != "" {
		s.homeKey, s.info.Keyed = xxhash.Sum64String(r.Key), true
		if len(s.chain) == 0 {
			h := s.homeKey
			for i := range s.keyed {
				h = mix(h)
				s.keyed[i] = h
			}
			s.chain = s.keyed[:]
			s.info.PromptTokens = max(s.info.PromptTokens, keyBlocks*BlockTokens)
		}
	}
}

// homeKey places a prefix on the ring: by its system part, so that all
// conversations with the same one have the same home while they are cold, else
// by its beginning.
func homeKey(r *Request) (uint64, bool) {
	sig := r.Prefix
	switch n := min(sig.SystemBlocks, len(sig.Blocks)); {
	case n > 0:
		return sig.Blocks[n-1], true
	case len(sig.Blocks) > 0:
		return sig.Blocks[0], true
	}
	return sig.Tail, sig.Tail != 0
}

// tokens is the size of the first blocks of the chain, in the measure of
// PromptTokens.
func (s *scratch) tokens(r *Request, blocks int) int {
	if blocks == 0 {
		return 0
	}
	if sig := r.Prefix; sig != nil && sig.Tokens > 0 && len(sig.Blocks) > 0 {
		return sig.PrefixTokens(blocks)
	}
	return min(blocks*BlockTokens, s.info.PromptTokens)
}

// ownBlocks is the number of blocks that the request needs beyond its chain, for
// the end of its prompt and for its answer.
func (s *scratch) ownBlocks() int {
	answer := answerTokens
	if most := s.info.MaxOutputTokens; most > 0 {
		answer = min(answer, most)
	}
	rest := max(0, s.info.PromptTokens-len(s.chain)*BlockTokens)
	return (rest + answer + BlockTokens - 1) / BlockTokens
}

// collect finds the candidates for a request, in home order, with their loads.
func (p *Pool) collect(s *scratch, r *Request) error {
	snap := p.members.Load()
	n := len(snap.members)
	s.info.Candidates, s.entries = s.info.Candidates[:0], s.entries[:0]
	s.seen = s.seen[:0]
	s.retryAt = 0
	s.total, s.weight, s.fullest, s.lightest = 0, 0, 0, math.MaxInt
	s.ramping, s.relaxed = false, false
	if cap(s.placed) < n {
		s.placed = make([]bool, n)
	}
	s.placed = s.placed[:n]
	clear(s.placed)

	start := int(s.info.Random % uint64(max(1, n)))
	if s.info.Keyed && n > 0 {
		s.order = snap.ring.AppendWalk(s.order[:0], s.homeKey, homeDepth)
		if len(s.order) > 0 {
			start = s.order[0]
			s.home = snap.members[start].id
		}
	} else {
		s.order = s.order[:0]
	}
	// With the breaker on, then, if it leaves nobody, without.
	for _, broken := range [2]bool{false, true} {
		s.broken = broken
		for _, i := range s.order {
			s.placed[i] = true
			p.consider(s, r, &snap.members[i], i)
		}
		for k := range n {
			i := start + k
			if i >= n {
				i -= n
			}
			if !s.placed[i] {
				p.consider(s, r, &snap.members[i], i)
			}
		}
		if len(s.entries) > 0 || s.retryAt != 0 {
			break
		}
	}
	if len(s.entries) == 0 {
		if s.retryAt != 0 {
			return saturated(s.nano, s.retryAt)
		}
		if n == 0 {
			return ErrNoEndpoints
		}
		return fmt.Errorf("%w for this request: each of %d has weight 0, is excluded or is not eligible", ErrNoEndpoints, n)
	}
	if !p.bound(s) {
		return saturated(s.nano, 0) // room may come with the next release
	}
	s.relate(r)
	return nil
}

// consider makes a member a candidate if it may take the request.
func (p *Pool) consider(s *scratch, r *Request, e *entry, ordinal int) {
	weight := e.endpoint.Weight
	if weight == 0 {
		return
	}
	for _, id := range r.Exclude {
		if id == e.id {
			return
		}
	}
	if r.Eligible != nil && !r.Eligible(&e.endpoint) {
		return
	}
	if !s.broken && !e.circuit.allows(s.nano) {
		return
	}
	if e.busy(s.nano) {
		if until := e.busyUntil.Load(); s.retryAt == 0 || until < s.retryAt {
			s.retryAt = until
		}
		return
	}
	s.entries = append(s.entries, e)
	c := s.candidate()
	c.ID, c.Ordinal, c.Weight = e.endpoint.ID, ordinal, weight
	c.CachedTokens = s.tokens(r, s.match.Depth(&e.slot))
	e.read(&c.Load, s.now, p.config.ReportMaxAge)
	s.seen = append(s.seen, c.Load.InFlight)
	s.total += c.Load.InFlight
	s.weight += weight
	s.fullest, s.lightest = max(s.fullest, c.Load.InFlight), min(s.lightest, weight)
	s.ramping = s.ramping || e.joined.Load() != 0
	if c.Load.Fresh {
		if tokens, ok := c.Load.Report.KVCacheTokens.Get(); ok && e.capacity.reported(tokens) {
			p.index.SetCapacity(&e.slot, e.capacity.blocks())
		}
	}
}

// candidate returns one more candidate, whose fields are those of an earlier
// pick.
func (s *scratch) candidate() *balancer.Candidate {
	n := len(s.info.Candidates)
	if n < cap(s.info.Candidates) {
		s.info.Candidates = s.info.Candidates[:n+1]
	} else {
		s.info.Candidates = append(s.info.Candidates, balancer.Candidate{})
	}
	return &s.info.Candidates[n]
}

// bound removes the candidates that are at their limit of requests in flight.
// It is false if all are.
func (p *Pool) bound(s *scratch) bool {
	if !s.ramping && s.fullest < p.limit(s, s.lightest) {
		return true // nobody is, as is usual
	}
	kept := 0
	for i := range s.info.Candidates {
		c, e := &s.info.Candidates[i], s.entries[i]
		if c.Load.InFlight >= p.limitOf(s, e) {
			continue
		}
		if kept != i {
			s.info.Candidates[kept], s.entries[kept], s.seen[kept] = *c, e, s.seen[i]
		}
		kept++
	}
	if kept == 0 {
		return p.relax(s)
	}
	s.keep(kept)
	return true
}

// limit is the most requests in flight that a candidate of the given weight may
// have.
func (p *Pool) limit(s *scratch, weight int) int {
	if s.relaxed {
		return p.config.MaxInFlight
	}
	return min(p.config.Bound.Limit(s.total, weight, s.weight), p.config.MaxInFlight)
}

// limitOf is the limit of one that may not have its full share yet.
func (p *Pool) limitOf(s *scratch, e *entry) int {
	limit := p.limit(s, e.endpoint.Weight)
	if share := e.ramp(s.nano, p.config.SlowStart); share < 1 && !s.relaxed {
		limit = min(limit, max(1, int(share*float64(min(limit, s.total+1)))))
	}
	return limit
}

// keep drops all but the first n candidates.
func (s *scratch) keep(n int) {
	s.info.Candidates, s.entries, s.seen = s.info.Candidates[:n], s.entries[:n], s.seen[:n]
}

// relax is for the case that every candidate is at its limit: the least loaded
// of those below the hard cap takes the request.
func (p *Pool) relax(s *scratch) bool {
	best := -1
	for i := range s.info.Candidates {
		c := &s.info.Candidates[i]
		if c.Load.InFlight >= p.config.MaxInFlight {
			continue
		}
		if best < 0 || c.Load.InFlight*s.info.Candidates[best].Weight < s.info.Candidates[best].Load.InFlight*c.Weight {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	s.info.Candidates[0], s.entries[0], s.seen[0] = s.info.Candidates[best], s.entries[best], s.seen[best]
	s.keep(1)
	s.relaxed = true
	return true
}

// relate fills in how the request relates to others with the same prefix.
func (s *scratch) relate(r *Request) {
	s.info.Branches, s.info.AllBranches = s.match.Branches, s.match.AllBranches
	deepest := s.match.Deepest
	s.info.Continues = deepest > 0 && s.match.Branches <= othersBranched
	if sig := r.Prefix; sig != nil && deepest > sig.SystemBlocks && deepest <= sig.HistoryBlocks {
		s.info.Continues = true
	}
	if r.Key != "" && (r.Prefix == nil || len(r.Prefix.Blocks) == 0) {
		s.info.Continues = deepest > 0
	}
}

func saturated(now, retryAt int64) error {
	return &SaturatedError{RetryAfter: max(time.Second, time.Duration(retryAt-now))}
}
