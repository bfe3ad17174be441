package router

import (
	"slices"
	"time"

	"github.com/warmroute/warmroute/tokenprefix"
)

// Pools that announce to each other keep one order: each tells what it holds and
// when it is due, and leaves the place of those that are due earlier elsewhere to
// them. With an order of its own, each gateway would fill the engines with small
// prompts while another holds one that needs much of an engine's memory. Every
// change of an order is told, so that no two requests wait for each other for
// longer than an announcement takes.

// announceWaiting tells other pools of a request that waits, and of a change of
// its place. What the request has is told once.
func (p *Pool) announceWaiting(h *Held, now time.Time) {
	f := p.config.Hooks.Announce
	if f == nil || h.isRemote() || h.told && h.toldAt == h.key {
		return
	}
	due := max(-maxDue, min(time.Duration(h.key-now.UnixNano()), maxDue))
	e := Event{Kind: Waiting, Origin: p.config.Origin, ID: h.seq, Due: due, At: now}
	if !h.told {
		e.Blocks, e.Tokens = h.blocks, h.prompt
	}
	h.told, h.toldAt, h.blocks = true, h.key, nil
	f(&e)
}

// announceGone tells other pools that a request they know of waits no more, and
// was not sent.
func (p *Pool) announceGone(h *Held, now time.Time) {
	if f := p.config.Hooks.Announce; f != nil && h.told {
		f(&Event{Kind: Released, Origin: p.config.Origin, ID: h.seq, At: now})
	}
}

// applyWaiting puts a request of another pool into the order, or changes its place.
func (p *Pool) applyWaiting(now time.Time, e *Event, id remoteID) {
	due := now.Add(e.Due).UnixNano()
	if h := p.queue.find(id); h != nil {
		p.queue.mu.Lock()
		h.due = due
		p.queue.mu.Unlock()
		return
	}
	if e.Tokens == 0 || p.remote.has(id) {
		return // nothing to plan for, or it has been sent and this comes late
	}
	h := &Held{pool: p, arrived: now, seq: e.ID, due: due, remote: id}
	h.request.Prefix = &tokenprefix.Signature{Blocks: slices.Clone(e.Blocks), Tokens: e.Tokens, BlockTokens: BlockTokens}
	p.queue.add(h, &p.config.Queue)
}

// find returns a request of another pool.
func (q *queue) find(id remoteID) *Held {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, h := range q.held {
		if h.isRemote() && h.remote == id && !h.over.Load() {
			return h
		}
	}
	return nil
}

// endRemote is called when a request of another pool waits no more. The next pass
// takes it out.
func (q *queue) endRemote(id remoteID) bool {
	h := q.find(id)
	if h == nil {
		return false
	}
	h.over.Store(true)
	return true
}

// endOrigin ends what waits at one pool.
func (q *queue) endOrigin(origin uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, h := range q.held {
		if h.isRemote() && h.remote.origin == origin {
			h.over.Store(true)
		}
	}
}

// expect plans where a request that waits at another pool is going to be sent. To an
// endpoint that has nothing to do its own pool would have sent it, if it could.
func (p *Pool) expect(s *scratch, r *Request) bool {
	p.index.Match(&s.match, s.chain, s.nano)
	choice, err := p.choose(s, r)
	if err != nil {
		return false
	}
	c := &s.info.Candidates[choice.Index]
	if c.Load.InFlight == 0 {
		return false
	}
	s.plan.add(s.entries[choice.Index].member, max(0, s.info.PromptTokens-c.CachedTokens))
	return true
}
