package router

import (
	"fmt"
	"time"

	"github.com/warmroute/warmroute/balancer"
)

// CheckInvariants compares the pool's books with each other and with the number
// of live decisions of each endpoint, this pool's and announced ones, that the
// caller knows of.
func (p *Pool) CheckInvariants(live map[string]int) error {
	if err := p.index.CheckInvariants(); err != nil {
		return err
	}
	counted := map[string]int{}
	seen := map[*member]bool{}
	add := func(m *member) error {
		if seen[m] {
			return nil
		}
		seen[m] = true
		if err := m.ledger.CheckInvariants(); err != nil {
			return fmt.Errorf("%s: %w", m.id, err)
		}
		counted[m.id] += m.ledger.InFlight()
		return nil
	}
	for _, e := range p.members.Load().members {
		if closed := e.closed.Load(); closed != (e.endpoint.Weight == 0) {
			return fmt.Errorf("member %s of weight %d: closed = %v", e.id, e.endpoint.Weight, closed)
		}
		if err := add(e.member); err != nil {
			return err
		}
	}
	for _, e := range p.leaving {
		if !e.closed.Load() || e.ledger.InFlight() == 0 {
			return fmt.Errorf("leaving %s: closed = %v, %d in flight", e.id, e.closed.Load(), e.ledger.InFlight())
		}
		if err := add(e.member); err != nil {
			return err
		}
	}
	for id, n := range live {
		if counted[id] != n {
			return fmt.Errorf("%s has %d in flight, %d decisions live", id, counted[id], n)
		}
		delete(counted, id)
	}
	for id, n := range counted {
		if n != 0 {
			return fmt.Errorf("%s has %d in flight, no decision lives", id, n)
		}
	}
	return nil
}

// Duplicates returns the number of prompts that are known to be computed.
func (p *Pool) Duplicates() int {
	p.duplicates.mu.Lock()
	defer p.duplicates.mu.Unlock()
	return len(p.duplicates.first)
}

// Remotes returns the IDs of the requests of other pools that are tracked.
func (p *Pool) Remotes() map[uint64]bool {
	p.remote.mu.Lock()
	defer p.remote.mu.Unlock()
	ids := map[uint64]bool{}
	for id := range p.remote.leases {
		ids[id.id] = true
	}
	return ids
}

// MaxRemoteAge is the age at which a request of another pool counts as over.
const MaxRemoteAge = maxRemoteAge

// Probe returns the generation of the decision's endpoint, to compare, and
// whether it is a probe of its breaker.
func (d *Decision) Probe() (generation any, probe bool) { return d.lease.member, d.lease.probe }

// LearnedCapacity returns what the pool takes for an endpoint's KV cache.
func (p *Pool) LearnedCapacity(id string) int {
	return int(p.members.Load().find(id).capacity.tokens.Load())
}

// Rules of the queue.
const (
	PassInterval = passInterval
	LookAhead    = lookAhead
)

// Allowance is allowance.
func Allowance(own int, rate float64) time.Duration { return allowance(own, rate) }

// HoldFor is holdFor at an endpoint whose cache size is known or not, and of whose
// answers many have no first token or not.
func HoldFor(c *balancer.Candidate, planned, uncached int, capacityKnown, untold bool) Hold {
	m := new(member)
	m.capacity.known.Store(capacityKnown)
	if untold {
		for range 100 {
			m.untold.add(1)
		}
	}
	return holdFor(c, m, planned, uncached)
}

// Tenants returns the number of tenants that the queue knows.
func (p *Pool) Tenants() int {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return len(p.queue.tenants.byName)
}

// RemotelyHeld returns the number of requests that are known to wait elsewhere.
func (p *Pool) RemotelyHeld() int {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return p.queue.remote
}

// CheckQueue compares the queue's books with each other.
func (p *Pool) CheckQueue() error {
	q := &p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	tokens, remote, waiting := 0, 0, map[*tenant]int{}
	for _, h := range q.held {
		if h.over.Load() && !h.isRemote() {
			return fmt.Errorf("request %d is over and held", h.seq)
		}
		tokens += h.own
		if h.tenant != nil {
			waiting[h.tenant]++
		}
		if h.isRemote() {
			remote++
		}
	}
	if n := int(q.count.Load()); n != len(q.held) {
		return fmt.Errorf("%d requests are held, counted %d", len(q.held), n)
	}
	if q.remote != remote {
		return fmt.Errorf("%d requests of other pools are held, counted %d", remote, q.remote)
	}
	if n := int(q.tokens.Load()); n != tokens {
		return fmt.Errorf("%d tokens are held, counted %d", tokens, n)
	}
	for name, t := range q.tenants.byName {
		if t.waiting != waiting[t] {
			return fmt.Errorf("tenant %q has %d waiting, counted %d", name, waiting[t], t.waiting)
		}
	}
	if n := q.wanted.Load(); n != 0 {
		return fmt.Errorf("%d passes are under way", n)
	}
	return nil
}
