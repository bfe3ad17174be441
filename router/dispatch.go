package router

import (
	"errors"
	"time"
)

const (
	// lookAhead is how many requests are left waiting in a pass before it ends.
	// Those behind would hardly be sent before them: 64 change nothing in the
	// simulation; with 4 a swarm of 200 agents is served 10.5 times a second, not
	// 12.8 times.
	lookAhead = 16
	// lookFurther takes its place as long as an endpoint has nothing to do, which
	// those in front may not want or be allowed to have.
	lookFurther = 128
	// passInterval is how often the queue is looked at when nothing happens: an
	// estimate of progress, the end of a cooling or a slow start make room
	// without telling. The figures of the simulation are the same without.
	passInterval = 50 * time.Millisecond
)

// DispatchAt looks at the requests in the queue and sends those that can be sent.
// It returns when to do so again even if nothing happens until then, zero if
// nothing is held. Pools do this on their own when room may have come, and
// Acquire sees to the rest; it is for those who use Enqueue, with times of their
// own.
func (p *Pool) DispatchAt(now time.Time) (next time.Time) {
	p.dispatch(now)
	if p.queue.count.Load() == 0 {
		return time.Time{}
	}
	return now.Add(passInterval)
}

// dispatch makes a pass over the queue, or has the one who is at it make another:
// there is one at a time, so that nobody waits for a lock while requests are
// looked at, and what a hook does to the pool from within one is seen by the next.
func (p *Pool) dispatch(now time.Time) {
	q := &p.queue
	if q.count.Load() == 0 {
		return
	}
	q.mu.Lock()
	q.now = now
	q.mu.Unlock()
	if q.wanted.Add(1) > 1 {
		return
	}
	done := false
	defer func() {
		if !done { // a hook panicked; the next event makes a pass
			q.wanted.Store(0)
		}
	}()
	for !done {
		n := q.wanted.Load()
		p.pass()
		done = q.wanted.CompareAndSwap(n, 0)
	}
}

// pass goes through the requests in their order.
func (p *Pool) pass() {
	q := &p.queue
	q.rate, _ = p.prefillRate()
	now, order, gone := q.begin()
	defer func() { clear(order); clear(gone) }()
	for _, h := range gone {
		p.announceGone(h, now)
	}
	s := p.scratch.Get().(*scratch)
	defer p.release(s)
	left, enough := 0, false
	for _, h := range order {
		if left == lookAhead || left == lookFurther {
			enough = left == lookFurther || !p.someIdle(&s.plan)
		}
		if enough && now.Sub(h.arrived) < p.config.Queue.MaxWait {
			if h.told {
				p.announceWaiting(h, now) // others must not leave it a place that it has not
			}
			continue
		}
		if p.look(s, h, now) {
			left++
		}
	}
}

// someIdle says whether there is an endpoint with nothing to do and nothing
// planned.
func (p *Pool) someIdle(plan *plan) bool {
	for _, e := range p.members.Load().members {
		if e.endpoint.Weight > 0 && e.ledger.InFlight() == 0 && plan.of(e.member) == 0 {
			return true
		}
	}
	return false
}

// look sends a request if there is room, and says whether it is left waiting.
func (p *Pool) look(s *scratch, h *Held, now time.Time) bool {
	d, waits, err := p.decide(s, h, now)
	if d == nil && err == nil {
		if waits {
			p.announceWaiting(h, now)
		}
		return waits
	}
	sent := 0
	if d != nil {
		sent = d.lease.uncached
	}
	p.queue.remove(h, sent)
	if d == nil {
		// A hook's panic must not keep the answer from the one who waits for it.
		defer func() { h.ready(nil, err) }()
		p.announceGone(h, now)
		return false
	}
	if err = caught(func() { p.decided(d, s) }); err != nil {
		d = nil // which has been withdrawn
	}
	h.ready(d, err)
	return false
}

// decide is the part of look that the request's caller can't get in between. The
// request is sent, or has failed, or waits; or it was over before.
func (p *Pool) decide(s *scratch, h *Held, now time.Time) (d *Decision, waits bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over.Load() {
		return nil, false, nil
	}
	if now.Sub(h.arrived) >= p.config.Queue.MaxWait {
		h.over.Store(true)
		if h.isRemote() {
			return nil, false, nil // the next pass takes it out
		}
		return nil, false, p.overfull()
	}
	s.describe(&h.request, now)
	s.info.Seq, s.info.Random = h.seq, p.random(h.seq)
	if h.isRemote() {
		if caught(func() { waits = p.expect(s, &h.request) }) != nil {
			h.over.Store(true) // its own pool shows the panic to its caller
		}
		return nil, waits, nil
	}
	var why Hold
	if panicked := caught(func() { d, why, err = p.send(s, &h.request) }); panicked != nil {
		err = panicked
	}
	if d == nil && err == nil {
		own := h.own
		h.place(s.own(&h.request), p.queue.rate)
		p.queue.tokens.Add(int64(h.own - own))
		h.why = why
		if p.config.Hooks.Announce != nil && !h.told {
			// A copy, as the caller may leave before it is told.
			h.blocks, h.prompt = append(h.blocks[:0], s.chain...), s.info.PromptTokens
		}
		return nil, true, nil
	}
	h.over.Store(true)
	if d != nil {
		d.Waited, d.Held = max(0, now.Sub(h.arrived)), h.why
	}
	return d, false, err
}

// send reserves a place for a request if it need not wait; else it says what the
// request waits for, and plans where it is going to be sent.
func (p *Pool) send(s *scratch, r *Request) (*Decision, Hold, error) {
	for {
		p.index.Match(&s.match, s.chain, s.nano)
		choice, err := p.choose(s, r)
		if errors.Is(err, ErrSaturated) {
			return nil, HeldForRoom, nil
		}
		if err != nil {
			return nil, NotHeld, err
		}
		c, e := &s.info.Candidates[choice.Index], s.entries[choice.Index]
		uncached := max(0, s.info.PromptTokens-c.CachedTokens)
		if why := holdFor(c, e.member, s.plan.of(e.member), uncached); why != NotHeld {
			s.plan.add(e.member, uncached)
			return nil, why, nil
		}
		if d := p.reserve(s, r, choice); d != nil {
			return d, NotHeld, nil
		}
	}
}

// own is how many tokens of the request no endpoint has cached.
func (s *scratch) own(r *Request) int {
	return max(0, s.info.PromptTokens-s.tokens(r, s.match.Deepest))
}

// prefillRate is the mean speed of the endpoints, in tokens per second, and their
// number.
func (p *Pool) prefillRate() (mean float64, n int) {
	sum := 0.0
	for _, e := range p.members.Load().members {
		if e.endpoint.Weight == 0 {
			continue
		}
		n++
		if rate := e.ledger.PrefillRate(); rate > 0 {
			sum += rate
		} else {
			sum += assumedRate
		}
	}
	if n == 0 {
		return assumedRate, 0
	}
	return sum / float64(n), n
}
