package prefixindex

import "math/bits"

// node is a run of blocks of the tree. Runs end where prompts part or end, so
// that whatever can be told apart is a node of its own.
type node struct {
	blocks  []uint64
	parent  *node
	holders []holder
	start   int // blocks before the run
	kids    int // nodes that follow
	// branches counts the requests that went on from the end of this run with
	// blocks of their own.
	branches decaying
}

// holder says that an endpoint has the first len blocks of a node, and all of every
// node before it. It is all that a match has to look at.
type holder struct {
	shadow *shadow
	at     *holding
	pos    int32 // of the shadow
	len    int32
}

// holding is the rest of what is known about a holder. It fits into one cache line.
type holding struct {
	shadow *shadow // nil once it was forgotten, with a request that still had it pinned
	node   *node
	parent *holding
	used   int64 // number of the use that ended last
	seen   int64 // when that was, UnixNano
	pos    int32 // in node.holders
	kids   int32 // holdings of the same endpoint in nodes that follow
	active int32 // requests in flight that end here, plus kids that are active
	// computed is how many of its blocks a request has been computed with that is
	// over; others may never be. If all are, so are those before it.
	computed int32
	mark     uint32 // of the last Distance that counted it
	queued   bool   // among the leaves of its shadow
	aside    bool   // in their pinned part
}

// blocks is how many blocks of its node the holding has.
func (h *holding) blocks() int32 { return h.node.holders[h.pos].len }

// idle says that it may be evicted: nothing uses it and nothing follows it.
func (h *holding) idle() bool { return h.kids == 0 && h.active == 0 }

// common returns how many blocks at the beginning of a and b are the same.
// Hashes are chained: where two blocks are equal, all before them are.
func common(a, b []uint64) int {
	n := min(len(a), len(b))
	if n == 0 || a[n-1] == b[n-1] {
		return n
	}
	lo, hi := 0, n-1 // equal below lo, different from hi on
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if a[mid] == b[mid] {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// after returns the node that follows up and begins with the given block, nil if
// there is none. A hash that isn't chained, or that two prompts share by accident
// or by somebody's intent, may lead to a node elsewhere in the tree: that one is
// not taken. Of nodes that begin with the same hash the youngest is found; the
// others are evicted as they get old.
func (x *Index) after(up *node, block uint64) *node {
	if n := x.nodes[block]; n != nil && n.parent == up {
		return n
	}
	return nil
}

// grow adds a node with the given run below parent.
func (x *Index) grow(parent *node, start int, run []uint64) *node {
	n := x.spare.node(len(run))
	n.blocks = append(n.blocks, run...)
	n.start, n.parent = start, parent
	parent.kids++
	x.nodes[run[0]] = n
	return n
}

// split divides a run at offset k, 0 < k < len(run). The node goes on as the
// second half, so that what is pinned at its end stays so; the first half is a
// new node. Holdings that reach no further than k move to it.
func (x *Index) split(n *node, k int) {
	up := x.spare.node(k)
	up.blocks = append(up.blocks, n.blocks[:k]...)
	up.start, up.parent, up.kids = n.start, n.parent, 1
	x.nodes[up.blocks[0]] = up

	rest := x.spare.node(len(n.blocks) - k)
	rest.blocks = append(rest.blocks, n.blocks[k:]...)
	n.blocks, rest.blocks = rest.blocks, n.blocks
	x.spare.keepNode(rest)
	n.start, n.parent = n.start+k, up
	x.nodes[n.blocks[0]] = n

	x.changes++
	kept := n.holders[:0]
	for _, e := range n.holders {
		h := e.at
		if int(e.len) <= k {
			h.enter(up, e.len)
			continue
		}
		first := x.spare.holding()
		first.shadow, first.parent, first.kids = h.shadow, h.parent, 1
		first.used, first.seen = h.used, h.seen
		first.computed = min(h.computed, int32(k))
		first.active = min(h.active, 1)
		first.enter(up, int32(k))
		h.parent = first
		h.computed -= first.computed
		h.pos = int32(len(kept))
		e.len -= int32(k)
		kept = append(kept, e)
	}
	clear(n.holders[len(kept):])
	n.holders = kept
	x.prune(n)
}

// enter makes h a holder of the first blocks of n.
func (h *holding) enter(n *node, blocks int32) {
	h.node, h.pos = n, int32(len(n.holders))
	n.holders = append(n.holders, holder{h.shadow, h, h.shadow.pos, blocks})
}

// leaveNode removes h from the holders of its node.
func (x *Index) leaveNode(h *holding) {
	n := h.node
	last := len(n.holders) - 1
	if moved := n.holders[last]; moved.at != h {
		moved.at.pos = h.pos
		n.holders[h.pos] = moved
	}
	n.holders[last] = holder{}
	n.holders = n.holders[:last]
	x.prune(n)
}

// prune removes a node that nobody holds, and the nodes before it that only led
// to it.
func (x *Index) prune(n *node) {
	for n != &x.root && len(n.holders) == 0 && n.kids == 0 {
		up := n.parent
		up.kids--
		if x.nodes[n.blocks[0]] == n {
			delete(x.nodes, n.blocks[0])
		}
		x.spare.keepNode(n)
		n = up
	}
}

// spare keeps removed nodes and holdings for reuse, so that an index at capacity
// allocates nothing: lists linked by parent. Nodes are kept by the size of their run's
// memory.
type spare struct {
	holdings *holding
	nodes    [33]*node // [i]: cap(blocks) is 1<<i
}

// node returns an empty node with room for n blocks.
func (s *spare) node(n int) *node {
	class := bits.Len(uint(n - 1))
	got := s.nodes[class]
	if got == nil {
		return &node{blocks: make([]uint64, 0, 1<<class)}
	}
	s.nodes[class], got.parent = got.parent, nil
	return got
}

// mostHolders is for how many holders a node that is kept has room: the next run will
// hardly have more, and popular ones would leave room for the whole fleet in one node
// after the other.
const mostHolders = 8

func (s *spare) keepNode(n *node) {
	class := bits.Len(uint(cap(n.blocks) - 1))
	holders := n.holders[:0]
	if cap(holders) > mostHolders {
		holders = nil
	}
	*n = node{blocks: n.blocks[:0], holders: holders, parent: s.nodes[class]}
	s.nodes[class] = n
}

func (s *spare) holding() *holding {
	h := s.holdings
	if h == nil {
		return new(holding)
	}
	s.holdings, h.parent = h.parent, nil
	return h
}

func (s *spare) keepHolding(h *holding) {
	*h = holding{parent: s.holdings}
	s.holdings = h
}
