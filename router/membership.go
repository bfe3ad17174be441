package router

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmroute/warmroute/ring"
)

// snapshot is the membership at one time. It is immutable.
type snapshot struct {
	members []entry // sorted by ID; positions are those of the ring
	ring    *ring.Ring
}

// entry is an endpoint as configured and the generation that serves it.
type entry struct {
	endpoint Endpoint
	*member
}

func (s *snapshot) find(id string) *entry {
	i, ok := slices.BinarySearchFunc(s.members, id, func(e entry, id string) int { return strings.Compare(e.id, id) })
	if !ok {
		return nil
	}
	return &s.members[i]
}

// SetEndpoints replaces the membership in one step. Endpoints that stay keep
// their cache, their load and their homes; those that left take no new
// requests, and what they have in flight is released to them. The slice is not
// kept. More than 65,535 endpoints, an ID that is empty or repeated and a number
// out of its range are errors; then the old membership stays in force.
func (p *Pool) SetEndpoints(endpoints []Endpoint) error {
	return p.SetEndpointsAt(time.Now(), endpoints)
}

// SetEndpointsAt is SetEndpoints at a given time.
func (p *Pool) SetEndpointsAt(now time.Time, endpoints []Endpoint) error {
	if err := p.setEndpoints(now, endpoints); err != nil {
		return err
	}
	p.dispatch(now)
	return nil
}

func (p *Pool) setEndpoints(now time.Time, endpoints []Endpoint) error {
	sorted, err := checkEndpoints(endpoints)
	if err != nil {
		return err
	}
	members := make([]ring.Member, len(sorted))
	for i, e := range sorted {
		members[i] = ring.Member{ID: e.ID, Weight: e.Weight}
	}
	p.setting.Lock()
	defer p.setting.Unlock()
	old := p.members.Load()
	homes, err := rebuild(old.ring, members)
	if err != nil {
		return fmt.Errorf("router: %w", err)
	}

	next := &snapshot{members: make([]entry, len(sorted)), ring: homes}
	for i, e := range sorted {
		was := old.find(e.ID)
		if was != nil && sameTarget(&was.endpoint, &e) {
			next.members[i] = entry{e, was.member}
			if was.capacity.configure(e.KVCacheTokens, p.config.KVCacheTokens) {
				p.index.SetCapacity(&was.slot, was.capacity.blocks())
			}
			continue
		}
		next.members[i] = entry{e, p.join(&e, now, len(old.members) > 0)}
	}
	for _, e := range p.replace(old, next) {
		p.index.Leave(&e.slot)
	}
	return nil
}

// replace brings the new membership into force and returns those that left. It
// is one step for whoever looks at members and leaving under the lock. When it
// returns, no pick that began before can put a request on an endpoint that
// drains or left without being seen there.
func (p *Pool) replace(old, next *snapshot) (left []entry) {
	p.leavingMu.Lock()
	defer p.leavingMu.Unlock()
	kept := make(map[*member]bool, len(next.members))
	for _, e := range next.members {
		kept[e.member] = true
		if e.endpoint.Weight > 0 {
			e.closed.Store(false)
		}
	}
	p.members.Store(next)
	for _, e := range next.members {
		if e.endpoint.Weight == 0 {
			e.closed.Store(true)
		}
	}
	for _, e := range old.members {
		if kept[e.member] {
			continue
		}
		left = append(left, e)
		e.closed.Store(true)
		if e.ledger.InFlight() > 0 {
			p.leaving = append(p.leaving, e)
		}
	}
	return left
}

// rebuild makes the ring for the members, from the old one when only one member
// differs: that costs a fraction of a new one.
func rebuild(old *ring.Ring, members []ring.Member) (*ring.Ring, error) {
	if old == nil {
		return ring.New(members)
	}
	var changed []ring.Member
	removed := ""
	left := 0
	i := 0
	for _, m := range members {
		for i < old.Len() && old.Member(i).ID < m.ID {
			removed = old.Member(i).ID
			left++
			i++
		}
		if i < old.Len() && old.Member(i).ID == m.ID {
			if old.Member(i).Weight != m.Weight {
				changed = append(changed, m)
			}
			i++
			continue
		}
		changed = append(changed, m)
	}
	if i < old.Len() {
		removed = old.Member(old.Len() - 1).ID
		left += old.Len() - i
	}
	switch {
	case left == 0 && len(changed) == 0:
		return old, nil
	case left == 0 && len(changed) == 1:
		return old.With(changed[0])
	case left == 1 && len(changed) == 0:
		return old.Without(removed)
	}
	return ring.New(members)
}

func (p *Pool) join(e *Endpoint, now time.Time, late bool) *member {
	m := &member{id: e.ID}
	m.capacity.configure(e.KVCacheTokens, p.config.KVCacheTokens)
	p.index.Join(&m.slot, m.capacity.blocks())
	if late {
		m.joined.Store(now.UnixNano())
	}
	if p.config.Reports != nil {
		m.report = p.config.Reports.Cell(e.ID)
	}
	return m
}

// WaitIdle waits until the endpoint with the given ID has nothing in flight,
// whether it is a member, draining with weight zero, or has left. It returns nil
// at once if the pool doesn't know it.
func (p *Pool) WaitIdle(ctx context.Context, id string) error {
	for {
		wake := p.wake()
		if p.inFlight(id) == 0 {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// inFlight counts the requests on every generation of an endpoint.
func (p *Pool) inFlight(id string) int {
	p.leavingMu.Lock()
	defer p.leavingMu.Unlock()
	n := 0
	if e := p.members.Load().find(id); e != nil {
		n = e.ledger.InFlight()
	}
	for _, e := range p.leaving {
		if e.id == id {
			n += e.ledger.InFlight()
		}
	}
	return n
}

// wake returns a channel that is closed the next time an endpoint becomes idle.
func (p *Pool) wake() <-chan struct{} {
	p.leavingMu.Lock()
	defer p.leavingMu.Unlock()
	if p.idled == nil {
		p.idled = make(chan struct{})
		p.waiting.Store(true)
	}
	return p.idled
}

// becameIdle is called when a member has nothing in flight any more.
func (p *Pool) becameIdle(m *member) {
	if !m.closed.Load() && !p.waiting.Load() {
		return
	}
	p.leavingMu.Lock()
	defer p.leavingMu.Unlock()
	p.leaving = slices.DeleteFunc(p.leaving, func(e entry) bool {
		return e.member == m && m.ledger.InFlight() == 0
	})
	if p.idled != nil {
		close(p.idled)
		p.idled = nil
		p.waiting.Store(false)
	}
}
