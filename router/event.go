package router

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// EventKind says what changed.
type EventKind uint8

// The changes of state of a request.
const (
	Sent       EventKind = 1 // an endpoint was picked for it
	FirstToken EventKind = 2 // its prefill is over
	Released   EventKind = 3 // it has left the endpoint, or the queue
	Waiting    EventKind = 4 // it waits in the queue, or has another place there
)

// Event is a change of state that other pools over the same endpoints should
// know about: without it each of several gateways sees only its own requests.
// An Event that a hook is given is valid during the call only; AppendBinary
// makes something to keep or send.
type Event struct {
	Kind EventKind
	// Origin is the pool that made the decision and ID its number there.
	Origin, ID uint64
	// Due is the time from At until the request's place in the order. Set in
	// Waiting.
	Due time.Duration
	// Endpoint is the ID of the endpoint. Set in Sent.
	Endpoint string
	// Blocks are the hashes of the prompt's blocks, Tokens its tokens not
	// believed cached at the endpoint, Shared that it branched off a prefix
	// that others use. Set in Sent. The first Waiting of a request has its Blocks, too,
	// and as Tokens the size of its prompt; later ones have neither.
	Blocks []uint64
	Tokens int
	// Own is the number of blocks that the request needs beyond Blocks, for the
	// end of its prompt and for its answer.
	Own    int
	Shared bool
	// Failed says that the endpoint was at fault, Uncomputed that it did not
	// compute the prompt, so that it has not cached it either. Set in Released.
	Failed, Uncomputed bool
	// At is the time of the change by the clock of its pool. It is not encoded:
	// the clock of another machine says nothing here.
	At time.Time
}

// eventVersion is the first byte of an encoded event.
const eventVersion = 1

// maxBlocks and maxTokens bound the size of a prompt, and with it what a
// decoder believes and what sums of sizes can come to.
const (
	maxBlocks = 1 << 22
	maxTokens = maxBlocks * BlockTokens
)

// maxDue bounds the place in the order, which is never so far away.
const maxDue = 24 * time.Hour

// ErrEvent is matched by the errors of Event.AppendBinary, Event.UnmarshalBinary
// and Pool.Apply.
var ErrEvent = errors.New("router: malformed event")

// AppendBinary appends the encoded event to b. The encoding is versioned and
// the same on all architectures: a header of 3 bytes and 2 numbers, then for Sent
// the endpoint, for Waiting the place, and for both the tokens and 8 bytes a block.
// An event that UnmarshalBinary would not take is an error, and b is returned as it
// was.
func (e *Event) AppendBinary(b []byte) ([]byte, error) {
	if err := e.check(); err != nil {
		return b, err
	}
	var flags byte
	if e.Shared {
		flags |= 1
	}
	if e.Failed {
		flags |= 2
	}
	if e.Uncomputed {
		flags |= 4
	}
	b = append(b, eventVersion, byte(e.Kind), flags)
	b = binary.LittleEndian.AppendUint64(b, e.Origin)
	b = binary.AppendUvarint(b, e.ID)
	switch e.Kind {
	case Sent:
		b = binary.AppendUvarint(b, uint64(len(e.Endpoint)))
		b = append(b, e.Endpoint...)
	case Waiting:
		b = binary.AppendVarint(b, int64(e.Due))
	default:
		return b, nil
	}
	b = binary.AppendUvarint(b, uint64(e.Tokens))
	b = binary.AppendUvarint(b, uint64(e.Own))
	b = binary.AppendUvarint(b, uint64(len(e.Blocks)))
	for _, h := range e.Blocks {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	return b, nil
}

func (e *Event) check() error {
	switch {
	case e.Kind < Sent || e.Kind > Waiting:
		return fmt.Errorf("%w: kind %d", ErrEvent, e.Kind)
	case e.Kind == FirstToken || e.Kind == Released:
		return nil
	case e.Due < -maxDue || e.Due > maxDue:
		return fmt.Errorf("%w: due in %v is not within %v", ErrEvent, e.Due, maxDue)
	case e.Tokens < 0 || e.Tokens > maxTokens:
		return fmt.Errorf("%w: %d tokens are not within 0 to %d", ErrEvent, e.Tokens, maxTokens)
	case e.Own < 0 || e.Own > maxBlocks:
		return fmt.Errorf("%w: %d blocks of its own are not within 0 to %d", ErrEvent, e.Own, maxBlocks)
	case len(e.Blocks) > maxBlocks:
		return fmt.Errorf("%w: %d blocks are more than %d", ErrEvent, len(e.Blocks), maxBlocks)
	}
	return nil
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
	got := Event{Kind: EventKind(b[1]), Origin: binary.LittleEndian.Uint64(b[3:])}
	got.Shared, got.Failed, got.Uncomputed = b[2]&1 != 0, b[2]&2 != 0, b[2]&4 != 0
	if got.Kind < Sent || got.Kind > Waiting {
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
	switch {
	case !ok:
	case got.Kind == Sent:
		size := number(uint64(len(rest)))
		if !ok || size > uint64(len(rest)) {
			return fmt.Errorf("%w: endpoint is cut off", ErrEvent)
		}
		got.Endpoint, rest = string(rest[:size]), rest[size:]
	case got.Kind == Waiting:
		due, n := binary.Varint(rest)
		if n <= 0 || due < -int64(maxDue) || due > int64(maxDue) {
			return fmt.Errorf("%w: the place in the order is cut off or out of range", ErrEvent)
		}
		got.Due, rest = time.Duration(due), rest[n:]
	}
	if ok && (got.Kind == Sent || got.Kind == Waiting) {
		got.Tokens = int(number(maxTokens))
		got.Own = int(number(maxBlocks))
		blocks := number(maxBlocks)
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

func (p *Pool) announceSent(d *Decision, s *scratch) {
	d.lease.id = s.info.Seq
	p.announce(d, Event{
		Kind: Sent, Endpoint: d.Endpoint.ID, Blocks: s.chain, Tokens: d.lease.uncached, Own: s.ownBlocks(),
		Shared: !s.info.Continues, At: d.At,
	})
}

func (p *Pool) announceReleased(d *Decision, now time.Time, v verdict, uncomputed bool) {
	p.announce(d, Event{Kind: Released, Failed: v == poor || v == bad, Uncomputed: uncomputed, At: now})
}

func (p *Pool) announce(d *Decision, e Event) {
	if f := p.config.Hooks.Announce; f != nil {
		e.Origin, e.ID = p.config.Origin, d.lease.id
		told := e // allocates only here
		f(&told)
	}
}

// Bus carries the events of several pools in one process to each other. The
// zero value is ready. It is safe for concurrent use and must not be copied.
// Adapters for messages between processes do the same with AppendBinary and
// UnmarshalBinary.
type Bus struct {
	mu    sync.RWMutex
	pools []*Pool
}

// Join adds a pool, whose Config.Hooks.Announce should be the bus's Announce. It
// is an error if another pool has the same Config.Origin, since neither would
// then hear of the other.
func (b *Bus) Join(p *Pool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, other := range b.pools {
		if other != p && other.config.Origin == p.config.Origin {
			return fmt.Errorf("router: two pools on a bus have Config.Origin %d", p.config.Origin)
		}
	}
	if !slices.Contains(b.pools, p) {
		b.pools = append(b.pools, p)
	}
	return nil
}

// Announce applies an event of one of the pools, at its time, to all others. An
// event that was decoded has no time and is for Pool.Apply.
func (b *Bus) Announce(e *Event) {
	b.mu.RLock()
	pools := b.pools
	b.mu.RUnlock()
	for _, p := range pools {
		p.ApplyAt(e.At, e) // events of our own making are well formed
	}
}
