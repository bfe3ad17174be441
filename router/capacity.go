package router

import (
	"sync"
	"sync/atomic"
)

// BlockTokens is the number of tokens in a block of the signatures that a Pool
// takes, the default of tokenprefix.Hasher.
const BlockTokens = 256

const (
	// firstCapacity is where an unknown KV cache size starts, in tokens.
	firstCapacity = 256 << 10
	// minCapacity and maxCapacity bound what is learned, in tokens.
	minCapacity = 16 << 10
	maxCapacity = 1 << 28
	// capacityGrowth is the share by which the capacity grows with each answer
	// that says more was cached than the full shadow knew.
	capacityGrowth = 1.0 / 32
	// capacityShrink is the share of the excess that is given up with each
	// answer that says less was cached.
	capacityShrink = 1.0 / 4
	// restartMisses is how many answers in a row must find almost nothing of
	// what was predicted before an engine counts as restarted.
	restartMisses = 3
)

// capacity is the size of an endpoint's KV cache: configured, or reported by
// the engine, or learned from what answers say was cached.
//
// Learning uses that the cache is an LRU. A part that is missing had been pushed
// out by what was used since, so the capacity is no more than that; a part that
// is there although the shadow had given it up says that the capacity is more.
type capacity struct {
	tokens atomic.Int64
	known  atomic.Bool // configured or reported: nothing to learn

	mu     sync.Mutex
	misses int // answers in a row that found almost nothing
}

// configure sets what the configuration says, and tells if that is a change.
func (c *capacity) configure(endpoint, fallback int) bool {
	tokens := int64(endpoint)
	if tokens == 0 {
		tokens = int64(fallback)
	}
	if tokens == 0 {
		return c.tokens.CompareAndSwap(0, firstCapacity)
	}
	c.known.Store(true)
	return c.tokens.Swap(tokens) != tokens
}

// blocks returns the capacity in blocks.
func (c *capacity) blocks() int { return int(c.tokens.Load()) / BlockTokens }

// reported sets what the engine says, and tells if that is a change. The
// configuration goes first.
func (c *capacity) reported(tokens int64) bool {
	if c.known.Load() || tokens < BlockTokens || c.tokens.Load() == tokens {
		return false
	}
	c.known.Store(true)
	c.tokens.Store(tokens)
	return true
}

// learned moves the capacity of a member's shadow by the evidence of one
// answer: how much of the prompt was predicted to be cached, and how much was,
// in tokens.
func (p *Pool) learnCapacity(m *member, d *Decision, cached int) {
	predicted := d.CachedTokens
	c := &m.capacity
	switch {
	case cached+BlockTokens > predicted && cached < predicted+BlockTokens:
		if predicted > 0 {
			c.found(true)
		}
	case cached > predicted:
		if !c.known.Load() && p.index.Usage(m.slot).Full() {
			c.move(min(maxCapacity, int64(float64(c.tokens.Load())*(1+capacityGrowth))), p, m)
		}
	case d.lease.pin.LastUse == 0:
		// In use at the time: it may not have been computed yet.
	case c.found(cached*10 > predicted):
		left := int64(p.index.Disprove(m.slot, d.lease.pin.LastUse)) * BlockTokens
		if excess := c.tokens.Load() - left; !c.known.Load() && excess > 0 {
			c.move(max(minCapacity, c.tokens.Load()-int64(float64(excess)*capacityShrink)), p, m)
		}
	default:
		p.index.Forget(m.slot)
	}
}

func (c *capacity) move(tokens int64, p *Pool, m *member) {
	c.tokens.Store(tokens)
	p.index.SetCapacity(m.slot, c.blocks())
}

// found counts answers in a row that found almost nothing of what was predicted;
// it is false when there are so many that the engine must have been restarted.
func (c *capacity) found(something bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if something {
		c.misses = 0
		return true
	}
	c.misses++
	if c.misses < restartMisses {
		return true
	}
	c.misses = 0
	return false
}
