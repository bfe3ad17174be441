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
package prefixindex

import "sync"

// Index is the shadow of all endpoints of a pool. It is safe for concurrent use
// and must not be copied.
type Index struct {
	mu    sync.Mutex
	nodes map[uint64]*node // by the hash of the run's first block
	root  node             // before the first block; nobody holds it
	usage []Usage          // by position
	lists []shadow         // by position
	stamp []stamp          // by position
	free  []int32
	// branching counts the requests that left a prefix shared with others.
	branching decaying
	spare     spare
}

// stamp says who has a position, and how often what it holds has changed: a Match
// from before must be redone before it may be pinned.
type stamp struct{ epoch, changes uint32 }

// Slot names an endpoint within an Index, from Join to Leave. Positions are used
// again, the epoch tells who was there when: a slot that was left names nobody.
type Slot struct {
	pos   int32
	epoch uint32
}

// gone is the position of a holding that was forgotten while a request still
// had it pinned.
const gone = -1

// Usage is the size of one endpoint's shadow. All counts are in blocks.
type Usage struct {
	Capacity int32
	Blocks   int32 // held
	Pinned   int32 // held and in use by requests in flight
	Own      int32 // needed by requests in flight besides what is held
	// Evicted says that something had to go for want of room since the capacity
	// was last set.
	Evicted bool
}

// shadow lists the holdings of one endpoint: those that may be evicted, least
// recently used first, and the others in no order.
type shadow struct {
	idle, busy list
	unpinned   uint32 // blocks that ceased to be in use so far; it may wrap
}

// New returns an empty index.
func New() *Index {
	return &Index{nodes: make(map[uint64]*node)}
}

// Join adds an endpoint that has nothing cached and room for the given number
// of blocks.
func (x *Index) Join(capacity int) Slot {
	x.mu.Lock()
	defer x.mu.Unlock()
	var pos int32
	if n := len(x.free); n > 0 {
		pos, x.free = x.free[n-1], x.free[:n-1]
	} else {
		pos = int32(len(x.usage))
		x.usage = append(x.usage, Usage{})
		x.lists = append(x.lists, shadow{})
		x.stamp = append(x.stamp, stamp{})
	}
	x.usage[pos] = Usage{Capacity: blocks32(capacity)}
	return Slot{pos, x.stamp[pos].epoch}
}

// live says that the endpoint has not left.
func (x *Index) live(s Slot) bool { return x.stamp[s.pos].epoch == s.epoch }

// Leave removes an endpoint and all that it held. Every later use of the slot,
// and of what is still pinned there, has no effect.
func (x *Index) Leave(s Slot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.live(s) {
		return
	}
	x.forget(s.pos)
	x.usage[s.pos] = Usage{}
	x.stamp[s.pos].epoch++
	x.free = append(x.free, s.pos)
}

// Forget empties an endpoint's shadow, as after a restart of its engine.
func (x *Index) Forget(s Slot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.live(s) {
		x.forget(s.pos)
	}
}

func (x *Index) forget(s int32) {
	x.stamp[s].changes++
	for _, l := range []*list{&x.lists[s].idle, &x.lists[s].busy} {
		for h := l.first; h != nil; {
			next := h.next
			x.leaveNode(h)
			// A request may still have it pinned, so it is left to the garbage
			// collector and not used again.
			*h = holding{slot: gone}
			h = next
		}
		*l = list{}
	}
	x.usage[s] = Usage{Capacity: x.usage[s].Capacity}
}

// SetCapacity changes how many blocks an endpoint can hold, and evicts what is
// too much.
func (x *Index) SetCapacity(s Slot, blocks int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.live(s) {
		x.stamp[s.pos].changes++
		x.usage[s.pos].Capacity = blocks32(blocks)
		x.makeRoom(s.pos, 0)
		x.usage[s.pos].Evicted = false
	}
}

// Usage returns the size of an endpoint's shadow, zero if it has left.
func (x *Index) Usage(s Slot) Usage {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.live(s) {
		return Usage{}
	}
	return x.usage[s.pos]
}

func blocks32(n int) int32 { return int32(max(0, min(n, 1<<30))) }
