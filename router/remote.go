package router

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// remote holds the requests in flight that other pools announced.
type remote struct {
	mu     sync.Mutex
	leases map[remoteID]*lease
	// lookAt is when to look for old leases next, UnixNano; zero: there are none.
	lookAt atomic.Int64
}

// has says whether a request of another pool is in flight.
func (r *remote) has(id remoteID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leases[id] != nil
}

type remoteID struct{ origin, id uint64 }

// maxRemote bounds the requests of other pools that are tracked at a time, in
// case their releases get lost.
const maxRemote = 1 << 16

// maxRemoteAge is the age at which a request of another pool counts as over: its
// release got lost, and what is never released would take its place at the
// endpoint for ever. Old ones are looked for every remoteLook.
const (
	maxRemoteAge = time.Hour
	remoteLook   = time.Minute
)

// Apply makes another pool's change of state known to this one. Events of
// requests or endpoints that this pool doesn't know have no effect, nor have its
// own if a bus brings them back. The event is not kept. The error is ErrEvent for
// an event that can't be encoded.
func (p *Pool) Apply(e *Event) error { return p.ApplyAt(time.Now(), e) }

// ApplyAt is Apply at a given time.
func (p *Pool) ApplyAt(now time.Time, e *Event) error {
	if err := e.check(); err != nil {
		return err
	}
	if e.Origin == p.config.Origin {
		return nil
	}
	p.dropOldRemote(now)
	id := remoteID{e.Origin, e.ID}
	switch e.Kind {
	case Waiting:
		p.applyWaiting(now, e, id)
	case Sent:
		waited := p.queue.endRemote(id)
		p.applySent(now, e, id)
		if waited {
			p.dispatch(now)
		}
	case FirstToken:
		p.remote.mu.Lock()
		l := p.remote.leases[id]
		p.remote.mu.Unlock()
		if l != nil && l.state.CompareAndSwap(prefilling, decoding) {
			l.firstToken(now)
			p.dispatch(now)
		}
	case Released:
		if p.queue.endRemote(id) {
			p.dispatch(now)
			return nil
		}
		p.remote.mu.Lock()
		l := p.remote.leases[id]
		delete(p.remote.leases, id)
		p.remote.mu.Unlock()
		if l != nil {
			l.end(now, e)
			p.dispatch(now)
		}
	}
	return nil
}

func (p *Pool) applySent(now time.Time, e *Event, id remoteID) {
	p.remote.mu.Lock()
	defer p.remote.mu.Unlock()
	if p.remote.leases[id] != nil || len(p.remote.leases) >= maxRemote {
		return
	}
	// The books are changed under the lock, so that a release that follows at
	// once finds them changed. Nothing here calls back.
	m := p.addTo(e.Endpoint, now, e.Tokens)
	if m == nil {
		return
	}
	l := &lease{pool: p, member: m, sent: now, uncached: e.Tokens}
	s := p.scratch.Get().(*scratch)
	p.index.Match(&s.match, e.Blocks, now.UnixNano())
	l.pin = p.index.Pin(&s.match, &m.slot, e.Blocks, e.Own, now.UnixNano(), e.Shared)
	p.release(s)
	if p.remote.leases == nil {
		p.remote.leases = make(map[remoteID]*lease)
	}
	p.remote.leases[id] = l
	p.remote.lookAt.CompareAndSwap(0, now.UnixNano()+int64(remoteLook))
}

// addTo counts a request on a member, nil if there is none with that ID. The
// lock keeps it from leaving unseen between the two.
func (p *Pool) addTo(id string, now time.Time, tokens int) *member {
	p.leavingMu.Lock()
	defer p.leavingMu.Unlock()
	e := p.members.Load().find(id)
	if e == nil {
		return nil
	}
	e.ledger.Add(now, tokens)
	return e.member
}

// end releases what another pool announced.
func (l *lease) end(now time.Time, e *Event) {
	v := good
	if e.Failed {
		v = bad
	}
	if was := l.state.Swap(released); was != released {
		l.release(now, was == prefilling, !e.Uncomputed, v)
	}
}

// Disconnect releases everything that the pool with the given Config.Origin has
// announced and not released: it is gone, or its events don't come through any
// more. What is older than an hour is released without being told.
func (p *Pool) Disconnect(origin uint64) { p.DisconnectAt(time.Now(), origin) }

// DisconnectAt is Disconnect at a given time.
func (p *Pool) DisconnectAt(now time.Time, origin uint64) {
	p.queue.endOrigin(origin)
	p.dropRemote(now, func(id remoteID, _ *lease) bool { return id.origin == origin })
	p.dispatch(now)
}

// dropOldRemote releases the requests of other pools whose release got lost, if it
// is time to look. That can only be far ahead if the clock was set back.
func (p *Pool) dropOldRemote(now time.Time) {
	at, nano := p.remote.lookAt.Load(), now.UnixNano()
	if at == 0 || nano < at && at-nano <= 2*int64(remoteLook) || !p.remote.lookAt.CompareAndSwap(at, nano+int64(remoteLook)) {
		return
	}
	p.dropRemote(now, func(_ remoteID, l *lease) bool { return now.Sub(l.sent) > maxRemoteAge })
}

// dropRemote releases what other pools announced, in the order of their numbers.
func (p *Pool) dropRemote(now time.Time, which func(remoteID, *lease) bool) {
	type ended struct {
		*lease
		id remoteID
	}
	var over []ended
	p.remote.mu.Lock()
	for id, l := range p.remote.leases {
		if which(id, l) {
			over = append(over, ended{l, id})
			delete(p.remote.leases, id)
		}
	}
	if len(p.remote.leases) == 0 {
		p.remote.lookAt.Store(0)
	}
	p.remote.mu.Unlock()
	slices.SortFunc(over, func(a, b ended) int {
		return cmp.Or(cmp.Compare(a.id.origin, b.id.origin), cmp.Compare(a.id.id, b.id.id))
	})
	for _, l := range over {
		if was := l.state.Swap(released); was != released {
			l.release(now, was == prefilling, true, silent)
		}
	}
}
