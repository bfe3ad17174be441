package rivals

import (
	"time"

	"github.com/warmroute/warmroute/router"
)

// Tree is a tree of prompts.
type Tree struct{ t tree }

// Sent sends a prompt to an engine, and returns the blocks up to the end of its
// last node.
func (t *Tree) Sent(blocks []uint64, engine int, at time.Time) int {
	n := 0
	for last := t.t.sent(blocks, engine, at); last != nil; last = last.parent {
		n += len(last.blocks)
	}
	return n
}

// Matched is the number of blocks that were sent to an engine since a time.
func (t *Tree) Matched(blocks []uint64, engine int, since time.Time) int {
	return matched(t.t.walk(blocks), engine, since)
}

// Size is the number of different blocks that were sent to an engine.
func (t *Tree) Size(engine int) int { return t.t.size(engine) }

// Index is an index of blocks of several engines.
type Index struct {
	x       blockIndex
	engines []*engine
}

// NewIndex returns an index for engines of the given capacities, in blocks.
func NewIndex(capacities ...int) *Index {
	x := &Index{}
	for i, c := range capacities {
		x.engines = append(x.engines, &engine{number: i, endpoint: router.Endpoint{KVCacheTokens: c * blockTokens}})
	}
	return x
}

// Add remembers blocks that were sent to an engine.
func (x *Index) Add(engine int, blocks []uint64) { x.x.add(x.engines[engine], blocks) }

// Matches returns how many of the blocks each engine has.
func (x *Index) Matches(blocks []uint64) []int {
	m := x.x.matches(blocks, x.engines)
	var counts []int
	for _, e := range x.engines {
		counts = append(counts, m[e])
	}
	return counts
}

// Numbers is the number of blocks that the index has room for.
func (x *Index) Numbers() int { return len(x.x.blocks) }
