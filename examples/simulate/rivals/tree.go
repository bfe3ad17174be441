package rivals

import (
	"slices"
	"sort"
	"time"
)

// tree is a radix tree of prompts, in blocks named by chained hashes: equal names
// mean equal prefixes, so that one map of first blocks serves all levels. It
// remembers which engine was sent what, and forgets nothing: the limits at which
// the routers that have such a tree begin to evict are beyond the traffic that is
// simulated here.
type tree struct {
	heads map[uint64]*node
	sizes []int // blocks of each engine, by number
}

// node is a run of blocks that always were sent together.
type node struct {
	parent *node
	blocks []uint64
	seen   []sight // by number of the engine
}

// sight is what is known of a node on an engine.
type sight struct {
	last time.Time // when it was sent there, zero for never
	refs int       // requests in flight that use it
}

func (n *node) on(engine int) sight {
	if engine < len(n.seen) {
		return n.seen[engine]
	}
	return sight{}
}

func (n *node) at(engine int) *sight {
	for len(n.seen) <= engine {
		n.seen = append(n.seen, sight{})
	}
	return &n.seen[engine]
}

// step is a node on the way of a prompt, and how many of its blocks agree.
type step struct {
	*node
	agree int
}

// walk returns the way of a prompt as far as the tree has it.
func (t *tree) walk(blocks []uint64) []step {
	var way []step
	for len(blocks) > 0 {
		n := t.heads[blocks[0]]
		if n == nil {
			break
		}
		agree := n.agree(blocks)
		way = append(way, step{n, agree})
		if agree < len(n.blocks) {
			break
		}
		blocks = blocks[agree:]
	}
	return way
}

// agree returns how many blocks of a node a prompt begins with.
func (n *node) agree(blocks []uint64) int {
	k := min(len(n.blocks), len(blocks))
	if n.blocks[k-1] == blocks[k-1] {
		return k
	}
	// Chained hashes that differ in one place differ in all later ones.
	return sort.Search(k, func(i int) bool { return n.blocks[i] != blocks[i] })
}

// insert returns the last node of a prompt, which ends exactly with it. An empty
// prompt has none.
func (t *tree) insert(blocks []uint64) *node {
	if t.heads == nil {
		t.heads = make(map[uint64]*node)
	}
	var last *node
	for _, s := range t.walk(blocks) {
		n := s.node
		if s.agree < len(n.blocks) {
			n = t.split(n, s.agree)
		}
		last = n
		blocks = blocks[s.agree:]
	}
	if len(blocks) > 0 {
		last = &node{parent: last, blocks: slices.Clone(blocks)}
		t.heads[blocks[0]] = last
	}
	return last
}

// split cuts a node and returns the new one of the first part. The second part
// remains the node, so that who holds it still holds the end of its prompt.
func (t *tree) split(n *node, k int) *node {
	first := &node{parent: n.parent, blocks: n.blocks[:k:k], seen: slices.Clone(n.seen)}
	n.parent, n.blocks = first, n.blocks[k:]
	t.heads[first.blocks[0]] = first
	t.heads[n.blocks[0]] = n
	return first
}

// sent remembers that a prompt was sent to an engine.
func (t *tree) sent(blocks []uint64, engine int, at time.Time) *node {
	for len(t.sizes) <= engine {
		t.sizes = append(t.sizes, 0)
	}
	last := t.insert(blocks)
	for n := last; n != nil; n = n.parent {
		s := n.at(engine)
		if s.last.IsZero() {
			t.sizes[engine] += len(n.blocks)
		}
		s.last = at
	}
	return last
}

// size is the number of blocks that were ever sent to an engine.
func (t *tree) size(engine int) int {
	if engine < len(t.sizes) {
		return t.sizes[engine]
	}
	return 0
}

// matched returns how many blocks of a way were sent to an engine since a time.
func matched(way []step, engine int, since time.Time) int {
	n := 0
	for _, s := range way {
		if last := s.on(engine).last; last.IsZero() || last.Before(since) {
			break
		}
		n += s.agree
	}
	return n
}

// agreed is the length of a way in blocks.
func agreed(way []step) int {
	n := 0
	for _, s := range way {
		n += s.agree
	}
	return n
}
