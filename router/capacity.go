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
	// surplus is how much more than predicted must have been cached, in tokens,
	// to say that the capacity is more: an engine also keeps the last part of a
	// prompt and the answer to it, which signatures of whole blocks don't show.
	surplus = 4 * BlockTokens
	// otherKind is the part of what is proven of one endpoint by which the bound of
	// another must be smaller to say that the two are of different kinds.
	otherKind = 12
	// restartMisses is how many answers in a row must find almost nothing of
	// what was predicted before an engine counts as restarted.
	restartMisses = 3
)

// capacity is the size of an endpoint's KV cache: configured, or reported by
// the engine, or learned from what answers say was cached.
//
// Learning uses that the cache is an LRU: it has what was in use last, as much as
// fits. What the shadow knows to have been followed by so many other blocks until
// the request was sent (prefixindex.Distance) is there if and only if the cache is
// at least so large, so each answer is evidence for one or the other. What is there
// although the shadow had given it up needs all that the shadow held, and itself.
// And when an answer begins, everything that was in use when its request was sent,
// and still is, is in the cache: engines begin in the order in which they were
// asked. See evidence for how it is weighed.
//
// Until something is missing nobody knows how large the cache is: it is believed to
// be somewhat larger than proven, but no larger than what other endpoints of
// the pool at which something was missing can be, since fleets are mostly of one
// kind, or few; those that are smaller than what is proven of this one don't count.
// Traffic that never comes back to old prompts says little about the size: where it
// is known it should be configured or reported.
type capacity struct {
	tokens     atomic.Int64
	configured atomic.Bool  // nothing else counts
	known      atomic.Bool  // configured or reported: nothing to learn
	first      atomic.Int64 // where learning started, in tokens
	// bound is the largest capacity that what was missing leaves, less some
	// safety, in tokens; 0 as long as nothing was.
	bound atomic.Int64
	// forgot is when the shadow was emptied last, UnixNano: answers to requests
	// from before have told what they can.
	forgot atomic.Int64
	// told says that answers tell what was cached: as long as none does, there is no
	// use in measuring.
	told atomic.Bool

	mu       sync.Mutex
	misses   int       // answers in a row that found almost nothing
	evidence *evidence // nil before the first
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
			c.first.Store(c.tokens.Load())
		}
		if !c.tokens.CompareAndSwap(0, firstCapacity) {
			return false
		}
		c.first.Store(firstCapacity)
		return true
	}
	c.configured.Store(true)
	c.known.Store(true)
	return c.tokens.Swap(tokens) != tokens
}

// learns says that the capacity is to be learned, and answers help.
func (c *capacity) learns() bool { return !c.known.Load() && c.told.Load() }

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

// learnCapacity draws the conclusions from one answer: how much of the prompt was
// predicted to be cached, and how much was, in tokens.
func (p *Pool) learnCapacity(m *member, d *Decision, now time.Time, cached int) {
	predicted := d.CachedTokens
	c, l := &m.capacity, &d.lease
	if !c.told.Load() {
		c.told.Store(true)
	}
	needs := int(l.distance) * BlockTokens
	switch {
	case l.sent.UnixNano() < c.forgot.Load():
		// What was predicted has been forgotten since.
	case predicted <= BlockTokens && cached < BlockTokens:
		// Nothing much was to be expected, and nothing much was there.
	case cached > predicted+surplus:
		c.found(true)
		p.weigh(m, min(int(l.pin.Held)*BlockTokens, int(c.tokens.Load()))+cached-predicted, 0)
	case cached+BlockTokens >= predicted:
		c.found(true)
		p.weigh(m, needs, 0)
	case l.pin.LastUse == 0:
		// It was in use at the time, and may not have been computed yet.
	case c.found(cached*10 > predicted):
		p.index.Disprove(&m.slot, l.pin.LastUse)
		// The first block that is missing was needed after those behind it.
		p.weigh(m, 0, needs-(predicted-cached))
	default:
		p.forget(m, now)
	}
}

// learnResident draws the conclusion from an answer that begins.
func (p *Pool) learnResident(l *lease) {
	if m := l.member; m.capacity.learns() && l.sent.UnixNano() >= m.capacity.forgot.Load() {
		p.weigh(m, p.index.Resident(&l.pin)*BlockTokens, 0)
	}
}

// weigh counts a find that needs a cache of so many tokens, or a miss that none so
// large would have had, and takes what then is the likeliest capacity.
func (p *Pool) weigh(m *member, found, missing int) {
	c := &m.capacity
	if c.known.Load() || found <= 0 && missing <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.tokens.Load()
	if c.evidence == nil {
		c.evidence = new(evidence)
	}
	e := c.evidence
	e.add(found, missing)
	if missing <= 0 && found <= e.proven && e.pieces%reviewEvery != 0 {
		return // nothing new
	}
	proven, most := e.bounds()
	believed := proven + int(float64(proven)*unprovenShare)
	if most < maxCapacity {
		most -= int(float64(most) * safety)
		c.bound.Store(int64(most))
	} else {
		believed = max(believed, int(c.first.Load()))
		if alike := p.smallestBound(proven - proven/otherKind); alike > 0 {
			most = max(proven, alike)
		}
	}
	// If it has changed meanwhile, somebody has configured it.
	tokens := int64(max(minCapacity, min(believed, most)))
	if tokens != was && c.tokens.CompareAndSwap(was, tokens) {
		p.index.SetCapacity(&m.slot, c.blocks())
	}
}

// smallestBound returns the smallest bound of any endpoint at which something was
// missing that is at least so large, 0 if there is none.
func (p *Pool) smallestBound(atLeast int) int {
	smallest := int64(0)
	for _, e := range p.members.Load().members {
		if b := e.capacity.bound.Load(); b >= max(1, int64(atLeast)) && (smallest == 0 || b < smallest) {
			smallest = b
		}
	}
	return int(smallest)
}

// forget empties the shadow of a member: its engine has been restarted, or may
// be when it comes back.
func (p *Pool) forget(m *member, now time.Time) {
	m.capacity.forgot.Store(now.UnixNano())
	p.index.Forget(&m.slot)
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
