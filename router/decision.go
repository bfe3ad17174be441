package router

import (
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router/internal/prefixindex"
)

// Decision is the answer of Pick: where the request goes, and why. It holds a
// place at the endpoint until Release. The exported fields are set before Pick
// returns; neither they nor what they point to may be changed. The methods are
// safe for concurrent use; a Decision must not be copied.
type Decision struct {
	// Endpoint is where the request goes.
	Endpoint Endpoint
	// Reason says why, in a word.
	Reason balancer.Reason
	// Held is what the request last waited for in the queue, and Waited how long
	// it was there. Both are zero for what was sent when it came.
	Held   Hold
	Waited time.Duration

	// PromptTokens is the size of the prompt, as known or estimated.
	PromptTokens int
	// CachedTokens is how much of it the endpoint is believed to have cached,
	// and BestCachedTokens the most that any endpoint has.
	CachedTokens, BestCachedTokens int
	// Continues says that the request was taken for a later turn of a
	// conversation, as opposed to the first of one.
	Continues bool

	// Home is the ID of the endpoint where a prompt that nobody has cached
	// belongs; empty if the request had neither prefix nor key.
	Home string
	// HomeRank is the position of Endpoint in the home order, zero for the home
	// itself. Positions from 16 on mean only "further away".
	HomeRank int
	// InFlight is the number of requests that were at the endpoint before this
	// one, and Limit the most that it may have, math.MaxInt if there is no limit.
	InFlight, Limit int
	// Candidates is the number of endpoints that the policy could choose from.
	Candidates int

	// Cost is what the policy weighed, in tokens of prefill work; all zero if
	// the policy has no costs.
	Cost balancer.Cost
	// Alternatives are the next best candidates, cheapest first.
	Alternatives []Alternative
	// At is the time of the decision.
	At time.Time

	lease        lease
	alternatives [2]Alternative
	shadow       *Decision // follows this one
}

// Alternative is a candidate that was not chosen.
type Alternative struct {
	ID           string        `json:"id"`
	CachedTokens int           `json:"cached_tokens"`
	Cost         balancer.Cost `json:"cost"`
}

// lease is the place that a decision holds.
type lease struct {
	pool     *Pool
	member   *member
	pin      prefixindex.Pin
	sent     time.Time
	uncached int
	tail     uint64 // of the prompt, if this is the first one being computed
	probe    bool
	measured bool   // the tokens of the prompt are those of its blocks, not of a key
	id       uint64 // among the announced ones
	state    atomic.Uint32
	// distance is how large the cache must be for what was predicted to be found,
	// in blocks; zero if that is not known or not asked.
	distance int32
}

// States of a lease.
const (
	prefilling uint32 = iota
	decoding
	released
)

func newDecision(p *Pool, s *scratch, r *Request, choice balancer.Choice, e *entry) *Decision {
	c := &s.info.Candidates[choice.Index]
	d := &Decision{
		Endpoint:         e.endpoint,
		Reason:           choice.Reason,
		PromptTokens:     s.info.PromptTokens,
		CachedTokens:     c.CachedTokens,
		BestCachedTokens: s.tokens(r, s.match.Deepest),
		Continues:        s.info.Continues,
		InFlight:         s.seen[choice.Index],
		Limit:            p.limitOf(s, e),
		Candidates:       len(s.entries),
		Cost:             choice.Cost,
		At:               s.now,
	}
	if s.info.Keyed && len(s.order) > 0 {
		d.Home = s.home
		d.HomeRank = homeDepth
		for rank, ordinal := range s.order {
			if ordinal == c.Ordinal {
				d.HomeRank = rank
			}
		}
	}
	if d.Reason == balancer.Warm && d.CachedTokens < d.BestCachedTokens || d.Reason == balancer.Cold && d.HomeRank > 0 {
		d.Reason = balancer.Spillover // the better place was not even a candidate
	}
	for _, o := range choice.Others[:choice.NumOthers] {
		a := &s.info.Candidates[o.Index]
		d.alternatives[len(d.Alternatives)] = Alternative{a.ID, a.CachedTokens, o.Cost}
		d.Alternatives = d.alternatives[:len(d.Alternatives)+1]
	}
	d.lease.pool, d.lease.member = p, e.member
	d.lease.measured = r.Prefix != nil && len(r.Prefix.Blocks) > 0
	return d
}

// FirstToken says that a streamed answer has begun: the prefill is over, and what
// is left is decoding. It is for the first byte of the answer's body: engines send
// the headers of a stream before they compute anything, and at that time it would
// teach a speed of prefill that is far too high. An answer that comes in one piece
// has no first token to tell of: when its body comes everything is over, and the
// speed would be far too low. Without FirstToken the request counts as prefill
// until Release. Further calls do nothing.
func (d *Decision) FirstToken() { d.FirstTokenAt(time.Now()) }

// FirstTokenAt is FirstToken at a given time.
func (d *Decision) FirstTokenAt(now time.Time) {
	l := &d.lease
	if l.pool == nil || !l.state.CompareAndSwap(prefilling, decoding) {
		return
	}
	l.firstToken(now)
	l.pool.learnResident(l)
	l.member.untold.add(0)
	l.pool.announce(d, Event{Kind: FirstToken, At: now})
	l.pool.dispatch(now)
	if d.shadow != nil {
		d.shadow.FirstTokenAt(now)
	}
}

// Release gives the place back and says how the request ended. It must be
// called for each decision; a deferred call covers panics too, if the outcome is
// not an argument of the defer, which would be what it was before anything
// happened. Calls after the first do nothing; the result says whether this was the
// first.
func (d *Decision) Release(o Outcome) bool { return d.ReleaseAt(time.Now(), o) }

// ReleaseAt is Release at a given time.
func (d *Decision) ReleaseAt(now time.Time, o Outcome) bool {
	return d.release(now, o, o.Abandoned || o.verdict() == good)
}

// withdraw releases a decision of which no endpoint has heard.
func (d *Decision) withdraw(now time.Time) {
	if d.shadow != nil {
		d.shadow.withdraw(now)
	}
	d.release(now, Outcome{Abandoned: true}, false)
}

// release is ReleaseAt; computed says whether the endpoint is believed to have
// computed the prompt, or to be at it, if it has not answered.
func (d *Decision) release(now time.Time, o Outcome, computed bool) bool {
	l := &d.lease
	if l.pool == nil {
		return false
	}
	was := l.state.Swap(released)
	if was == released {
		return false
	}
	v := o.verdict()
	l.release(now, was == prefilling, computed, v)
	if was == prefilling && v == good {
		l.member.untold.add(1)
	}
	l.pool.learn(d, now, v, &o)
	l.pool.announceReleased(d, now, v, was == prefilling && !computed)
	if d.shadow != nil {
		d.shadow.release(now, o.seenBy(d, d.shadow), computed || d.shadow.Endpoint.ID != d.Endpoint.ID)
	}
	if f := l.pool.config.Hooks.Released; f != nil {
		f(d, o)
	}
	l.pool.dispatch(now)
	return true
}

// firstToken and release change the books; they are the same for decisions of
// this pool and those that another announced.
func (l *lease) firstToken(now time.Time) {
	l.member.ledger.FirstToken(now, l.sent, l.uncached)
	l.endDuplicate()
}

func (l *lease) release(now time.Time, prefill, computed bool, v verdict) {
	m := l.member
	if prefill {
		l.endDuplicate()
	}
	if prefill && !computed {
		l.pool.index.Withdraw(l.pin)
	} else {
		l.pool.index.Unpin(l.pin, now.UnixNano())
	}
	m.ledger.Release(now, l.uncached, prefill)
	if m.ledger.InFlight() == 0 {
		l.pool.becameIdle(m)
	}
	if v == good {
		m.ledger.Outcome(now, false)
	} else if v == poor || v == bad {
		m.ledger.Outcome(now, true)
	}
}

func (l *lease) endDuplicate() {
	if l.tail != 0 {
		l.pool.duplicates.end(l.tail)
	}
}

// maxBackPressure bounds the time for which an endpoint may ask to be left
// alone.
const maxBackPressure = 30 * time.Second

// learn draws the conclusions from an outcome that only the pool that sent the
// request can draw.
func (p *Pool) learn(d *Decision, now time.Time, v verdict, o *Outcome) {
	m := d.lease.member
	nano := now.UnixNano()
	opened := m.circuit.end(nano, d.lease.sent.UnixNano(), v, d.lease.probe, &p.config.Breaker)
	if opened {
		p.forget(m, now)
	}
	switch v {
	case busy:
		wait := min(max(o.RetryAfter, time.Second), maxBackPressure)
		m.busyUntil.Store(nano + int64(wait))
	case good:
		d.learnCached(now, o)
	}
}

// learnCached compares what was predicted to be cached with what the answer says.
func (d *Decision) learnCached(now time.Time, o *Outcome) {
	l := &d.lease
	if _, ok := o.CachedTokens.Get(); ok && l.measured && l.pool != nil {
		l.pool.learnCapacity(l.member, d, now, o.cachedOf(d.PromptTokens))
	}
}
