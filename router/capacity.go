package router

import (
	"sync"
	"sync/atomic"
	"time"
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
	capacityGrowth = 1.0 / 16
	// capacityProbe is the share by which it grows, as long as nothing was ever
	// missing, whenever the shadow is full and an answer finds what was predicted.
	capacityProbe = 1.0 / 4
	// capacityShrink is the share of the excess that is given up with each
	// answer that says less was cached: half, since a miss may also come from
	// an engine that was short of memory for a moment.
	capacityShrink = 1.0 / 2
	// surplus is how much more than predicted must have been cached, in tokens,
	// to say that the capacity is more: an engine also keeps the last part of a
	// prompt and the answer to it, which signatures of whole blocks don't show.
	surplus = 4 * BlockTokens
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
// Until something was missing for the first time there is no upper bound, and
// the capacity grows whenever the shadow is full and answers still find what was
// predicted. Traffic that never comes back to old prompts says nothing about the
// size, and near the limits of the fleet's memory a wrong one is expensive: where
// the size is known it should be configured or reported.
type capacity struct {
	tokens     atomic.Int64
	configured atomic.Bool // nothing else counts
	known      atomic.Bool // configured or reported: nothing to learn
	bounded    atomic.Bool // something was missing once
	// forgot is when the shadow was emptied last, UnixNano: answers to requests
	// from before have told what they can.
	forgot atomic.Int64

	mu     sync.Mutex
	misses int // answers in a row that found almost nothing
}

// configure sets what the configuration says, and tells if that is a change. If
// it has nothing to say any more, what it said last is where learning starts.
func (c *capacity) configure(endpoint, fallback int) bool {
	tokens := int64(endpoint)
	if tokens == 0 {
		tokens = int64(fallback)
	}
	if tokens == 0 {
		if c.configured.Swap(false) {
			c.known.Store(false)
		}
		return c.tokens.CompareAndSwap(0, firstCapacity)
	}
	c.configured.Store(true)
	c.known.Store(true)
	return c.tokens.Swap(tokens) != tokens
}

// blocks returns the capacity in blocks.
func (c *capacity) blocks() int { return int(c.tokens.Load()) / BlockTokens }

// reported sets what the engine says, and tells if that is a change. The
// configuration goes first.
func (c *capacity) reported(tokens int64) bool {
	if c.configured.Load() || tokens < BlockTokens || c.known.Load() && c.tokens.Load() == tokens {
		return false
	}
	c.known.Store(true)
	return c.tokens.Swap(tokens) != tokens
}

// learnCapacity moves the capacity of a member's shadow by the evidence of one
// answer: how much of the prompt was predicted to be cached, and how much was,
// in tokens.
func (p *Pool) learnCapacity(m *member, d *Decision, now time.Time, cached int) {
	predicted := d.CachedTokens
	c := &m.capacity
	switch {
	case d.lease.sent.UnixNano() < c.forgot.Load():
		// What was predicted has been forgotten since.
	case predicted <= BlockTokens && cached < BlockTokens:
		// Nothing much was to be expected, and nothing much was there.
	case cached > predicted+surplus:
		c.found(true)
		p.growCapacity(m, capacityGrowth)
	case cached+BlockTokens >= predicted:
		c.found(true)
		if !c.bounded.Load() {
			p.growCapacity(m, capacityProbe)
		}
	case d.lease.pin.LastUse == 0:
		// It was in use at the time, and may not have been computed yet.
	case c.found(cached*10 > predicted):
		c.bounded.Store(true)
		// What was held when the request was sent, less what was older than the
		// missing part, did not fit into the cache.
		left := int64(d.lease.pin.Held-p.index.Disprove(&m.slot, d.lease.pin.LastUse)) * BlockTokens
		was := c.tokens.Load()
		if !c.known.Load() && left < was {
			c.tokens.Store(max(minCapacity, was-int64(float64(was-left)*capacityShrink)))
			p.index.SetCapacity(&m.slot, c.blocks())
		}
	default:
		p.forget(m, now)
	}
}

// forget empties the shadow of a member: its engine has been restarted, or may
// be when it comes back.
func (p *Pool) forget(m *member, now time.Time) {
	m.capacity.forgot.Store(now.UnixNano())
	p.index.Forget(&m.slot)
}

// growCapacity raises an unknown capacity by a share, if it did not suffice.
func (p *Pool) growCapacity(m *member, share float64) {
	c := &m.capacity
	if c.known.Load() || !p.index.Usage(&m.slot).Evicted {
		return
	}
	c.tokens.Store(min(maxCapacity, int64(float64(c.tokens.Load())*(1+share))))
	p.index.SetCapacity(&m.slot, c.blocks())
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
