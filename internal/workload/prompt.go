// Package workload produces the traffic that routing policies are judged by:
// production traces in Mooncake's format ([ReadTrace]), a closed-loop swarm
// of agents ([Swarm]), and open-loop chat with Poisson arrivals ([Chat]). All
// of it is determined by seeds; nothing depends on a clock.
//
// A [Prompt] is a list of segments with identities rather than text. The
// blocks of an engine's cache, the signature of a router and the body of a
// real request are derived from it, and agree with each other: two prompts
// share a prefix in one form exactly where they share it in the others.
package workload

import "math/bits"

// Role says who wrote a segment.
type Role uint8

// The roles of chat messages.
const (
	User Role = iota
	System
	Assistant
)

// String returns the name of r in chat bodies; what is not a role is a user.
func (r Role) String() string {
	switch r {
	case System:
		return "system"
	case Assistant:
		return "assistant"
	default:
		return "user"
	}
}

// Segment is a stretch of a prompt. Its token number k is a function of ID
// and k alone, so of two segments with equal ID the shorter is a prefix of
// the longer.
type Segment struct {
	ID     uint64
	Tokens int // at least 1
	Role   Role
}

// Prompt is what an engine is asked to continue. Consecutive segments with
// the same role belong to one message.
type Prompt struct {
	Segments []Segment
}

// Tokens returns the size of p.
func (p Prompt) Tokens() int {
	n := 0
	for _, s := range p.Segments {
		n += s.Tokens
	}
	return n
}

// EngineBlocks appends the hashes of the full blocks of p to dst and returns
// it. Each hash covers the whole prompt up to the end of its block.
func (p Prompt) EngineBlocks(dst []uint64, blockTokens int) []uint64 {
	c := newChain(dst, blockTokens)
	c.add(p.Segments...)
	return c.blocks
}

// chain makes chained hashes of blocks of tokens.
//
// A block's hash folds in one piece after the other: what it holds of a
// segment, from where, how much. Where a segment is longer than a block, that
// is two multiplications a block.
type chain struct {
	blocks []uint64
	last   uint64 // covers all tokens, those of the block under way included
	size   int    // of a block in tokens
	room   int    // left in the block under way
}

func newChain(dst []uint64, blockTokens int) chain {
	return chain{blocks: dst, last: 0x9e3779b97f4a7c15 ^ uint64(blockTokens), size: blockTokens, room: blockTokens}
}

func (c *chain) add(segments ...Segment) {
	for _, s := range segments {
		for at := 0; at < s.Tokens; {
			n := min(c.room, s.Tokens-at)
			c.last = mix(c.last, mix(s.ID, uint64(at)<<32|uint64(n)))
			at += n
			c.room -= n
			if c.room == 0 {
				c.blocks = append(c.blocks, c.last)
				c.room = c.size
			}
		}
	}
}

// mix combines two values by a folded 64 by 64 bit multiplication, the step
// of wyhash (https://github.com/wangyi-fudan/wyhash). The constants keep
// either factor from being 0 for small values.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0xa0761d6478bd642f, b^0xe7037ed1a0b428db)
	return hi ^ lo
}

// identity derives the ID of a segment from what makes it unique.
func identity(parts ...uint64) uint64 {
	h := uint64(0x2d358dccaa6c78a5)
	for _, p := range parts {
		h = mix(h, p)
	}
	return h
}
