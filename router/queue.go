package router

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Queue configures what waits in Acquire. The zero value of each field is a good
// default.
type Queue struct {
	// MaxLength is the most requests that may wait. Zero means 1,024. When so many
	// do, Acquire answers ErrSaturated.
	MaxLength int
	// MaxWait is the longest that a request may wait. Zero means two minutes.
	// After it Acquire answers ErrSaturated.
	MaxWait time.Duration
	// Fair makes tenants (Request.Tenant) take turns by the prefill that they
	// cause, so that one with more than its share waits behind the others. It
	// costs something where tenants are alike; among them it is better off.
	Fair bool
}

func (q *Queue) setDefaults() error {
	if q.MaxLength == 0 {
		q.MaxLength = 1024
	}
	if q.MaxWait == 0 {
		q.MaxWait = 2 * time.Minute
	}
	switch {
	case q.MaxLength < 0:
		return fmt.Errorf("router: Queue.MaxLength %d is negative", q.MaxLength)
	case q.MaxWait < 0:
		return fmt.Errorf("router: Queue.MaxWait %v is negative", q.MaxWait)
	}
	return nil
}

// queue holds the requests that wait.
type queue struct {
	watch  chan struct{} // empty while a caller of Acquire looks at it now and then
	count  atomic.Int64  // of held
	tokens atomic.Int64  // of own of held
	wanted atomic.Int64  // passes asked for since the one under way began

	mu      sync.Mutex
	held    []*Held
	tenants tenants
	now     time.Time // of the last pass asked for

	// Of the pass under way, and used by nobody else.
	order []*Held
	rate  float64 // of prefill, mean of the endpoints, in tokens per second
}

// Held is a request in the queue of a pool. Its methods are safe for concurrent
// use.
type Held struct {
	pool    *Pool
	arrived time.Time
	seq     uint64
	ready   func(*Decision, error)
	tenant  *tenant       // nil without fairness
	head    time.Duration // its head start
	own     int           // tokens that no endpoint has cached, when last looked at
	due     int64         // its place in the order, UnixNano, when last looked at
	key     int64         // due and what its tenant is ahead, in this pass

	mu      sync.Mutex // held while the request is looked at
	over    bool       // sent, failed or cancelled
	request Request
	why     Hold // when last looked at
}

// add puts a request into the queue; it is false if that is full.
func (q *queue) add(h *Held, c *Queue) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.held) >= c.MaxLength {
		return false
	}
	if c.Fair {
		h.tenant = q.tenants.arrive(h.request.Tenant)
	}
	q.held = append(q.held, h)
	q.count.Add(1)
	q.tokens.Add(int64(h.own))
	return true
}

// remove takes a request out, to which so many tokens were sent.
func (q *queue) remove(h *Held, sent int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.held, h)
	q.held = slices.Delete(q.held, i, i+1)
	q.count.Add(-1)
	q.tokens.Add(-int64(h.own))
	if h.tenant != nil {
		q.tenants.leave(h.tenant, sent)
	}
}

// place puts a request into the order by the tokens that no endpoint has cached.
func (h *Held) place(own int, rate float64) {
	h.own = own
	h.due = h.arrived.Add(-h.head).Add(allowance(h.own, rate)).UnixNano()
}

// inOrder returns the requests in their order, at the time of the pass.
func (q *queue) inOrder(dst []*Held) ([]*Held, time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	least := q.tenants.least()
	for _, h := range q.held {
		h.key = h.due
		if h.tenant != nil {
			h.key += int64(float64(h.tenant.served-least) / q.rate * float64(time.Second))
		}
	}
	slices.SortFunc(q.held, func(a, b *Held) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.seq, b.seq))
	})
	return append(dst[:0], q.held...), q.now
}

// latest is now, or the time of the last pass if that is later.
func (q *queue) latest(now time.Time) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.now.After(now) {
		return q.now
	}
	return now
}

// QueueStats is the state of a pool's queue at one moment.
type QueueStats struct {
	// Length is the number of requests that wait, and Tokens what no endpoint has
	// cached of their prompts.
	Length, Tokens int
	// Oldest is how long the one has waited that came first.
	Oldest time.Duration
}

// QueueStats returns the state of the queue of Acquire.
func (p *Pool) QueueStats() QueueStats { return p.QueueStatsAt(time.Now()) }

// QueueStatsAt is QueueStats at a given time.
func (p *Pool) QueueStatsAt(now time.Time) QueueStats {
	q := &p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	s := QueueStats{Length: len(q.held), Tokens: int(q.tokens.Load())}
	for _, h := range q.held {
		s.Oldest = max(s.Oldest, now.Sub(h.arrived))
	}
	return s
}
