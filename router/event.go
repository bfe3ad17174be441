package router

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// EventKind says what changed.
type EventKind uint8

// The changes of state of a request.
const (
	Sent       EventKind = 1 // an endpoint was picked for it
	FirstToken EventKind = 2 // its prefill is over
	Released   EventKind = 3 // it has left the endpoint
)

// Event is a change of state that other pools over the same endpoints should
// know about: without it each of several gateways sees only its own requests.
// An Event that a hook is given is valid during the call only; AppendBinary
// makes something to keep or send.
type Event struct {
	Kind EventKind
	// Origin is the pool that made the decision and ID its number there.
	Origin, ID uint64
	// Endpoint is the ID of the endpoint. Set in Sent.
	Endpoint string
	// Blocks are the hashes of the prompt's blocks, Tokens its tokens not
	// believed cached at the endpoint, Shared that it branched off a prefix
	// that others use. Set in Sent.
	Blocks []uint64
	Tokens int
	// Own is the number of blocks that the request needs beyond Blocks, for the
	// end of its prompt and for its answer.
	Own    int
	Shared bool
	// Failed says that the endpoint was at fault. Set in Released.
	Failed bool
}

// eventVersion is the first byte of an encoded event.
const eventVersion = 1

// maxEventBlocks bounds what a decoder believes: 4 million blocks are a
// prompt of a billion tokens.
const maxEventBlocks = 1 << 22

// ErrEvent is matched by the errors of Event.UnmarshalBinary.
var ErrEvent = errors.New("router: malformed event")

// AppendBinary appends the encoded event to b. The encoding is versioned and
// the same on all architectures: a header of 3 bytes and 2 numbers, then for Sent the
// endpoint, the tokens and 8 bytes a block.
func (e *Event) AppendBinary(b []byte) ([]byte, error) {
	var flags byte
	if e.Shared {
		flags |= 1
	}
	if e.Failed {
		flags |= 2
	}
	b = append(b, eventVersion, byte(e.Kind), flags)
	b = binary.LittleEndian.AppendUint64(b, e.Origin)
	b = binary.AppendUvarint(b, e.ID)
	if e.Kind != Sent {
		return b, nil
	}
	b = binary.AppendUvarint(b, uint64(len(e.Endpoint)))
	b = append(b, e.Endpoint...)
	b = binary.AppendUvarint(b, uint64(e.Tokens))
	b = binary.AppendUvarint(b, uint64(e.Own))
	b = binary.AppendUvarint(b, uint64(len(e.Blocks)))
	for _, h := range e.Blocks {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	return b, nil
}

// UnmarshalBinary decodes what AppendBinary made. The event does not keep b. An
// error leaves the event as it was.
func (e *Event) UnmarshalBinary(b []byte) error {
	if len(b) < 11 {
		return fmt.Errorf("%w: %d bytes", ErrEvent, len(b))
	}
	if b[0] != eventVersion {
		return fmt.Errorf("%w: version %d", ErrEvent, b[0])
	}
	got := Event{Kind: EventKind(b[1]), Shared: b[2]&1 != 0, Failed: b[2]&2 != 0, Origin: binary.LittleEndian.Uint64(b[3:])}
	if got.Kind < Sent || got.Kind > Released {
		return fmt.Errorf("%w: kind %d", ErrEvent, b[1])
	}
	rest := b[11:]
	ok := true
	number := func(most uint64) uint64 {
		v, n := binary.Uvarint(rest)
		if n <= 0 || v > most {
			ok = false
			return 0
		}
		rest = rest[n:]
		return v
	}
	got.ID = number(1<<64 - 1)
	if got.Kind == Sent && ok {
		size := number(uint64(len(rest)))
		if !ok || size > uint64(len(rest)) {
			return fmt.Errorf("%w: endpoint is cut off", ErrEvent)
		}
		got.Endpoint, rest = string(rest[:size]), rest[size:]
		got.Tokens = int(number(maxEventBlocks * BlockTokens))
		got.Own = int(number(maxEventBlocks))
		blocks := number(maxEventBlocks)
		if !ok || uint64(len(rest)) != 8*blocks {
			return fmt.Errorf("%w: %d bytes for %d blocks", ErrEvent, len(rest), blocks)
		}
		for ; len(rest) > 0; rest = rest[8:] {
			got.Blocks = append(got.Blocks, binary.LittleEndian.Uint64(rest))
		}
	}
	if !ok || len(rest) > 0 {
		return fmt.Errorf("%w: %d bytes are left over or numbers are cut off", ErrEvent, len(rest))
	}
	*e = got
	return nil
}

// remote holds the requests in flight that other pools announced.
type remote struct {
	mu     sync.Mutex
	leases map[remoteID]*lease
	// lookAt is when to look for old leases next, UnixNano; zero: there are none.
	lookAt atomic.Int64
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
// requests or endpoints that this pool doesn't know have no effect. The event is
// not kept.
func (p *Pool) Apply(e *Event) error { return p.ApplyAt(time.Now(), e) }

// ApplyAt is Apply at a given time.
func (p *Pool) ApplyAt(now time.Time, e *Event) error {
	id := remoteID{e.Origin, e.ID}
	switch e.Kind {
	case Sent:
		p.applySent(now, e, id)
	case FirstToken:
		p.remote.mu.Lock()
		l := p.remote.leases[id]
		p.remote.mu.Unlock()
		if l != nil && l.state.CompareAndSwap(prefilling, decoding) {
			l.firstToken(now)
		}
	case Released:
		p.remote.mu.Lock()
		l := p.remote.leases[id]
		delete(p.remote.leases, id)
		p.remote.mu.Unlock()
		if l != nil {
			l.end(now, e.Failed)
		}
	default:
		return fmt.Errorf("%w: kind %d", ErrEvent, e.Kind)
	}
	return nil
}

func (p *Pool) applySent(now time.Time, e *Event, id remoteID) {
	entry := p.members.Load().find(e.Endpoint)
	if entry == nil {
		return
	}
	l := &lease{pool: p, member: entry.member, sent: now, uncached: max(0, e.Tokens)}
	p.remote.mu.Lock()
	if p.remote.leases == nil {
		p.remote.leases = make(map[remoteID]*lease)
	}
	known := p.remote.leases[id] != nil || len(p.remote.leases) >= maxRemote
	if !known {
		p.remote.leases[id] = l
		p.remote.lookAt.CompareAndSwap(0, now.Add(remoteLook).UnixNano())
		// The books are changed under the lock, so that a release that follows
		// at once finds them changed. Nothing here calls back.
		s := p.scratch.Get().(*scratch)
		l.member.ledger.Add(now, l.uncached)
		p.index.Match(&s.match, e.Blocks, now.UnixNano())
		l.pin = p.index.Pin(&s.match, l.member.slot, e.Blocks, e.Own, now.UnixNano(), e.Shared)
		p.release(s)
	}
	p.remote.mu.Unlock()
}

// end releases what another pool announced.
func (l *lease) end(now time.Time, failed bool) {
	v := good
	if failed {
		v = bad
	}
	if was := l.state.Swap(released); was != released {
		l.release(now, was == prefilling, v)
	}
}

// Disconnect releases everything that a pool announced and has not released: it
// is gone, or its events are not coming through any more. What is older than an
// hour is released without.
func (p *Pool) Disconnect(origin uint64) { p.DisconnectAt(time.Now(), origin) }

// DisconnectAt is Disconnect at a given time.
func (p *Pool) DisconnectAt(now time.Time, origin uint64) {
	p.dropRemote(now, func(id remoteID, _ *lease) bool { return id.origin == origin })
}

// dropOldRemote releases the requests of other pools whose release got lost.
func (p *Pool) dropOldRemote(now time.Time) {
	at, nano := p.remote.lookAt.Load(), now.UnixNano()
	if at == 0 || nano < at || !p.remote.lookAt.CompareAndSwap(at, nano+int64(remoteLook)) {
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
			l.release(now, was == prefilling, silent)
		}
	}
}

func (p *Pool) announceSent(d *Decision, s *scratch) {
	f := p.config.Hooks.Announce
	if f == nil {
		return
	}
	d.lease.id = s.info.Seq
	f(&Event{
		Kind: Sent, Origin: p.config.Origin, ID: s.info.Seq, Endpoint: d.Endpoint.ID,
		Blocks: s.chain, Tokens: d.lease.uncached, Own: s.ownBlocks(), Shared: !s.info.Continues,
	})
}

func (p *Pool) announce(d *Decision, kind EventKind, o *Outcome) {
	f := p.config.Hooks.Announce
	if f == nil {
		return
	}
	e := Event{Kind: kind, Origin: p.config.Origin, ID: d.lease.id}
	if o != nil {
		v := o.verdict()
		e.Failed = v == poor || v == bad
	}
	f(&e)
}

// Bus carries the events of several pools in one process to each other. The
// zero value is ready. Adapters for messages between processes do the same with
// AppendBinary and UnmarshalBinary.
type Bus struct {
	mu    sync.RWMutex
	pools []*Pool
}

// Join adds a pool, whose Config.Hooks.Announce should be the bus's Announce.
func (b *Bus) Join(p *Pool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pools = append(b.pools, p)
}

// Announce applies an event to all pools but the one it comes from.
func (b *Bus) Announce(e *Event) {
	b.mu.RLock()
	pools := b.pools
	b.mu.RUnlock()
	for _, p := range pools {
		if p.config.Origin != e.Origin {
			p.Apply(e) // events of our own making are well formed
		}
	}
}
