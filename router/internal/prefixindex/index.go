// Package prefixindex holds what each endpoint is believed to have in its KV
// cache: a shadow of the engines' own block caches, kept up to date by the
// router's traffic alone.
//
// All endpoints share one radix tree over chained block hashes. A node is a run
// of blocks; each endpoint that holds the run, or the beginning of it, has a
// holding there. Since block hashes are chained, the hash of a run's first
// block identifies the whole prompt up to it, so children are found in one flat
// table, and comparing the last block of two runs compares them whole. The
// deepest match of every endpoint is then one walk down the tree: its cost is
// that of the turns in the conversation plus the endpoints that hold some of
// it, not of blocks times endpoints.
//
// Like an engine's cache, an endpoint's shadow is prefix-closed: blocks that
// requests in flight use are pinned, the rest is evicted leaves first, least
// recently used first, when the endpoint's capacity is reached.
//
// What one request changes is kept small and together, since on several cores
// most of its time is that of fetching what another core has changed last.
package prefixindex

import (
	"sync"
	"sync/atomic"
)

// Index is the shadow of all endpoints of a pool. It is safe for concurrent use
// and must not be copied.
type Index struct {
	// What nearly every request changes shares a cache line with the lock.
	mu    sync.Mutex
	nodes map[uint64]*node // by the hash of the run's first block
	// changes counts how often holdings have come, gone, or got another length: what
	// a Match found before must be looked for again.
	changes uint64
	uses    int64 // that have ended so far
	// branching counts the requests that left a prefix shared with others.
	branching decaying
	spare     spare

	root node // before the first block; nobody holds it
	// Positions of shadows: how many there were at one time, and those that are free.
	positions int32
	free      []int32
}

// Slot is the place of an endpoint in an Index, from Join to Leave; one that was left
// names nobody. It is a part of what its owner knows about the endpoint, so that
// whoever reads that has the size of the shadow, too, without a lock. It must not
// be copied.
type Slot struct {
	cached   atomic.Uint64 // blocks held, and in the lower half those that requests in flight use
	capacity atomic.Int32
	pos      int32 // never changes from Join on
	shadow   *shadow
}

// Size returns the size of the endpoint's shadow, in blocks: its capacity, what it
// holds, and what of that requests in flight use, with what they need besides.
// All are zero once it has left.
func (s *Slot) Size() (capacity, held, used int) {
	cached := s.cached.Load()
	return int(s.capacity.Load()), int(cached >> 32), int(uint32(cached))
}

// Usage is the size of one endpoint's shadow. All counts are in blocks.
type Usage struct {
	Capacity int32
	Blocks   int32 // held
	Pinned   int32 // held and in use by requests in flight
	Own      int32 // needed by requests in flight besides what is held
}

// shadow is what one endpoint holds, as long as it takes part. The index's lock is
// for all of it.
type shadow struct {
	Usage
	slot     *Slot // nil once it has left
	pos      int32
	leaves   leaves
	unpinned uint32 // blocks that ceased to be in use so far
	marks    uint32 // calls of Distance so far
}

// New returns an empty index.
func New() *Index {
	return &Index{nodes: make(map[uint64]*node)}
}

// Join gives an endpoint that has nothing cached, and room for the given number of
// blocks, a place in a new slot.
func (x *Index) Join(slot *Slot, capacity int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := &shadow{slot: slot, Usage: Usage{Capacity: blocks32(capacity)}}
	if n := len(x.free); n > 0 {
		s.pos, x.free = x.free[n-1], x.free[:n-1]
	} else {
		s.pos = x.positions
		x.positions++
	}
	slot.shadow, slot.pos = s, s.pos
	s.publish()
}

// Leave removes an endpoint and all that it held. Every later use of the slot,
// and of what is still pinned there, has no effect.
func (x *Index) Leave(slot *Slot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := slot.shadow
	if s.slot == nil {
		return
	}
	x.forget(s)
	s.Usage = Usage{}
	s.publish()
	s.slot = nil
	x.free = append(x.free, s.pos)
}

// Forget empties an endpoint's shadow, as after a restart of its engine.
func (x *Index) Forget(slot *Slot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := slot.shadow; s.slot != nil {
		x.forget(s)
		s.publish()
	}
}

func (x *Index) forget(s *shadow) {
	x.changes++
	for h := range s.leaves.all {
		for h != nil && h.shadow != nil { // else another leaf has been that way
			up := h.parent
			x.leaveNode(h)
			// A request may still have it pinned, so it is left to the garbage
			// collector and not used again.
			*h = holding{}
			h = up
		}
	}
	s.leaves = leaves{}
	s.Usage = Usage{Capacity: s.Capacity}
}

// SetCapacity changes how many blocks an endpoint can hold, and evicts what is
// too much.
func (x *Index) SetCapacity(slot *Slot, blocks int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := slot.shadow; s.slot != nil {
		s.Capacity = blocks32(blocks)
		x.makeRoom(s, 0)
		s.publish()
	}
}

// publish shows the size of the shadow to those who don't take the lock.
func (s *shadow) publish() {
	s.slot.cached.Store(uint64(s.Blocks)<<32 | uint64(uint32(s.Pinned+s.Own)))
	if s.slot.capacity.Load() != s.Capacity {
		s.slot.capacity.Store(s.Capacity)
	}
}

// maxBlocks bounds a capacity, and what requests in flight need for themselves
// together, so that sums of both don't overflow.
const maxBlocks = 1 << 30

func blocks32(n int) int32 { return int32(max(0, min(n, maxBlocks))) }
