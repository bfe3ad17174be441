package router

import (
	"sync"
	"time"
)

// clock looks at the queue of a pool while callers of Acquire wait and nothing
// happens.
type clock struct {
	mu      sync.Mutex
	waiting int // callers
	timer   *time.Timer
	now     time.Time // of the caller who came last
	read    time.Time // when that was
}

// begin is called when one more waits.
func (c *clock) begin(p *Pool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting++
	c.now, c.read = now, time.Now()
	if c.timer == nil {
		c.timer = time.AfterFunc(passInterval, func() { c.tick(p) })
	} else if c.waiting == 1 {
		c.timer.Reset(passInterval)
	}
}

// end is called when one waits no more.
func (c *clock) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
	if c.waiting == 0 {
		c.timer.Stop()
	}
}

// time is that of the callers, who may have a clock of their own, as far as it can
// be told from the last of them.
func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.Add(time.Since(c.read))
}

func (c *clock) tick(p *Pool) {
	p.dispatch(c.time())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting > 0 {
		c.timer.Reset(passInterval)
	}
}
