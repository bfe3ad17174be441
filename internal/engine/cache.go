package engine

import "sort"

// cache is the prefix cache: a tree of KV blocks in which each block is named
// by a hash of the whole prompt up to its end. Blocks that requests refer to
// are pinned; the others are idle and are evicted least recently released
// first, and of those released together the deepest first, which is the order
// of vLLM's free list (https://docs.vllm.ai/en/latest/design/prefix_caching/).
//
// The tree is path-compressed: blocks that always had the same references
// form one run, so the cost of a request is that of the runs on its path, not
// of its blocks. Because hashes are chained, two runs that agree in one place
// agree in all places before it; and because a run always starts where its
// parent ends, one map from first hash to run serves the whole tree.
type cache struct {
	heads  map[uint64]*run
	lru    run // sentinel of the ring of idle runs; lru.next is evicted first
	pinned int // blocks with references, each counted once
	idle   int // blocks without
}

// run is a sequence of consecutive blocks that share one reference count. A
// reference to a run implies one to its parent, so an idle run never has a
// pinned descendant, and a parent is never released before its children.
type run struct {
	parent     *run
	hashes     []uint64 // never empty
	refs       int
	private    bool // only the request that made it ever referred to it: it has no children and may grow
	prev, next *run // position among the idle runs; nil while pinned
}

func newCache() *cache {
	c := &cache{heads: make(map[uint64]*run)}
	c.lru.prev, c.lru.next = &c.lru, &c.lru
	return c
}

// match returns how many leading blocks are cached, and how many of those are
// idle, that is, would have to be pinned.
func (c *cache) match(blocks []uint64) (cached, idle int) {
	for cached < len(blocks) {
		r := c.heads[blocks[cached]]
		if r == nil {
			break
		}
		n := r.common(blocks[cached:])
		cached += n
		if r.refs == 0 {
			idle += n
		}
		if n < len(r.hashes) {
			break
		}
	}
	return cached, idle
}

// common returns how many leading hashes of r and blocks are equal.
func (r *run) common(blocks []uint64) int {
	n := min(len(r.hashes), len(blocks))
	if r.hashes[n-1] == blocks[n-1] {
		return n
	}
	return sort.Search(n, func(i int) bool { return r.hashes[i] != blocks[i] })
}

// pin adds a reference to the leading blocks that are cached below tip, which
// the caller has pinned already (nil for the root). It returns the run that
// ends the pinned path, and the number of blocks added to it.
func (c *cache) pin(tip *run, blocks []uint64) (*run, int) {
	pinned := 0
	for pinned < len(blocks) {
		r := c.heads[blocks[pinned]]
		if r == nil {
			break
		}
		n := r.common(blocks[pinned:])
		if n < len(r.hashes) {
			r = c.split(r, n)
		}
		if r.refs == 0 {
			c.unlink(r)
			c.idle -= n
			c.pinned += n
		}
		r.refs++
		r.private = false
		tip = r
		pinned += n
	}
	return tip, pinned
}

// split cuts r before block n and returns the new run of the first part. The
// second part stays r: it keeps its place among the idle runs and the
// requests whose path ends with it.
func (c *cache) split(r *run, n int) *run {
	first := &run{parent: r.parent, hashes: r.hashes[:n:n], refs: r.refs}
	if r.refs == 0 {
		c.linkBefore(r.next, first) // evicted after the part that depends on it
	}
	r.parent, r.hashes = first, r.hashes[n:]
	c.heads[first.hashes[0]] = first
	c.heads[r.hashes[0]] = r
	return first
}

// extend stores and pins the first n of the blocks that follow the pinned path
// that ends with tip. Blocks that another request stored in the meantime are
// shared, not stored twice. It returns the new end of the path.
func (c *cache) extend(tip *run, blocks []uint64, n int) *run {
	tip, shared := c.pin(tip, blocks[:n])
	if shared == n {
		return tip
	}
	if tip == nil || !tip.private {
		tip = &run{parent: tip, hashes: make([]uint64, 0, len(blocks)-shared), refs: 1, private: true}
		c.heads[blocks[shared]] = tip
	}
	tip.hashes = append(tip.hashes, blocks[shared:n]...)
	c.pinned += n - shared
	return tip
}

// unpin drops one reference from the path that ends with tip.
func (c *cache) unpin(tip *run) {
	for r := tip; r != nil; r = r.parent {
		r.refs--
		if r.refs == 0 {
			c.linkBefore(&c.lru, r)
			c.pinned -= len(r.hashes)
			c.idle += len(r.hashes)
		}
	}
}

// evict forgets n idle blocks; there must be as many.
func (c *cache) evict(n int) {
	c.idle -= n
	for n > 0 {
		r := c.lru.next
		if keep := len(r.hashes) - n; keep > 0 {
			r.hashes = r.hashes[:keep]
			return
		}
		n -= len(r.hashes)
		c.unlink(r)
		delete(c.heads, r.hashes[0])
	}
}

func (c *cache) linkBefore(next, r *run) {
	r.prev, r.next = next.prev, next
	r.prev.next, r.next.prev = r, r
}

func (c *cache) unlink(r *run) {
	r.prev.next, r.next.prev = r.next, r.prev
	r.prev, r.next = nil, nil
}
