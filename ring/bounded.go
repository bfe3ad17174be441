package ring

import (
	"fmt"
	"math"
	"sync/atomic"
)

// LoadBound is the bound of a [Bounded]: of total things in flight, a member with
// weight w of the total weight W may hold
//
//	max(ceil(Factor·total·w/W), floor(total·w/W + Gap))
//
// where total counts the one being placed. The first term is that of Mirrokni,
// Thorup and Zadimoghaddam ("Consistent hashing with bounded loads",
// arXiv:1608.01350), rounded up so that with fewer things than members each may
// still take one. The second keeps the noise of small counts from driving keys
// off their homes.
type LoadBound struct {
	// Factor is the allowed ratio to the mean, at least 1; 1.25 is usual. Zero
	// means 1.25.
	Factor float64
	// Gap is the allowed excess over the mean. Zero gives the strict bound.
	Gap float64
}

// Bounded places keys on the members of a ring so that none takes more than its
// bound of what is in flight. It is safe for concurrent use, and the bound holds
// then too: a place is reserved with a compare-and-swap against a limit that
// counts everybody who is being placed. [Ring.Bound] makes one; the zero value
// can't be used. It must not be copied.
//
// Its ring never changes. After a change of membership go on with [Bounded.Over].
type Bounded struct {
	ring   *Ring
	load   LoadBound
	weight float64    // of all members
	total  *counter   // what all members hold, those that left included
	counts []*counter // what each member holds
}

// counter has a cache line of its own: cores that count different things don't
// wait for each other.
type counter struct {
	atomic.Int64
	_ [56]byte
}

// Bound returns an empty Bounded over the ring. A Factor below 1, a negative Gap
// and numbers that are none are errors that wrap [ErrInvalid].
func (r *Ring) Bound(l LoadBound) (*Bounded, error) {
	if l.Factor == 0 {
		l.Factor = 1.25
	}
	if !(l.Factor >= 1) || math.IsInf(l.Factor, 0) {
		return nil, fmt.Errorf("ring: %w: Factor %v is not a number of at least 1", ErrInvalid, l.Factor)
	}
	if !(l.Gap >= 0) || math.IsInf(l.Gap, 0) {
		return nil, fmt.Errorf("ring: %w: Gap %v is not a number of at least 0", ErrInvalid, l.Gap)
	}
	nobody := &Bounded{ring: &Ring{}, load: l, total: new(counter)}
	return nobody.Over(r), nil
}

// Over returns a Bounded over another ring, such as the next of a fleet, that
// goes on counting: members keep what they hold, by their IDs. Both may be used
// at the same time, and each place is given back to the Bounded that it was
// acquired from. What members that left still hold counts in the total until it
// is released; one that comes back after that starts at zero.
func (b *Bounded) Over(r *Ring) *Bounded {
	next := &Bounded{ring: r, load: b.load, total: b.total, counts: make([]*counter, r.Len())}
	for i, m := range r.members {
		next.weight += float64(m.Weight)
		if old := b.ring.Index(m.ID); old >= 0 {
			next.counts[i] = b.counts[old]
		} else {
			next.counts[i] = new(counter)
		}
	}
	return next
}

// Acquire reserves a place for the key at the first member of its order that is
// below its bound, and returns the member's position, or -1 if no member has
// weight. The place must be given back with Release.
func (b *Bounded) Acquire(key uint64) int {
	r := b.ring
	if len(r.scorers) == 0 {
		return -1
	}
	mixed := mix(key)
	entry := r.entry(mixed)
	seed := drawSeed(r.table.slot(mixed))
	for total := b.total.Add(1); ; total = b.total.Load() {
		limit := b.limit(total, r.scorers[0].weight)
		for rest := entry; rest != 0; rest = r.table.rest(rest) {
			if i := r.table.first(rest); b.reserve(i, total, limit) {
				return i
			}
		}
		// Asking a full member again costs less than remembering it.
		for k := range r.draws() {
			if i := r.draw(seed, k); b.reserve(i, total, limit) {
				return i
			}
		}
		// The limits add up to the total or more, so all can be full only if
		// others took and gave back places meanwhile.
	}
}

// limit returns the most that a member of the given weight may hold when total
// are in flight. The division comes last, so that a whole result is exact.
func (b *Bounded) limit(total int64, weight uint32) int64 {
	share := float64(total) * float64(weight)
	limit := math.Ceil(b.load.Factor * share / b.weight)
	if b.load.Gap > 0 {
		limit = max(limit, share/b.weight+b.load.Gap)
	}
	return int64(min(limit, 1<<62)) // what doesn't fit converts differently on each architecture
}

// reserve takes a place at the member unless it is at its limit, which is given
// for rings of equal weights.
func (b *Bounded) reserve(i int, total, limit int64) bool {
	if !b.ring.equal {
		limit = b.limit(total, uint32(b.ring.members[i].Weight))
	}
	for {
		n := b.counts[i].Load()
		if n >= limit {
			return false
		}
		if b.counts[i].CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives back a place that Acquire reserved at the member at position i.
// One that was not reserved is an error that wraps [ErrInvalid] and changes
// nothing.
func (b *Bounded) Release(i int) error {
	if i < 0 || i >= len(b.counts) {
		return fmt.Errorf("ring: %w: no member at position %d", ErrInvalid, i)
	}
	for {
		n := b.counts[i].Load()
		if n == 0 {
			return fmt.Errorf("ring: %w: member %q has nothing in flight", ErrInvalid, b.ring.members[i].ID)
		}
		if b.counts[i].CompareAndSwap(n, n-1) {
			b.total.Add(-1)
			return nil
		}
	}
}

// InFlight returns what the member at position i holds, 0 if there is none.
func (b *Bounded) InFlight(i int) int {
	if i < 0 || i >= len(b.counts) {
		return 0
	}
	return int(b.counts[i].Load())
}

// Total returns what all members hold, with what is just being placed and what
// members hold that left.
func (b *Bounded) Total() int { return int(b.total.Load()) }
