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
	// cause, so that one with more than its share waits behind the others.
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

// queue holds the requests that wait, here and, as far as is known, at other pools.
type queue struct {
	watch  chan struct{} // empty while a caller of Acquire looks at it now and then
	count  atomic.Int64  // of held
	tokens atomic.Int64  // of own of held
	wanted atomic.Int64  // passes asked for since the one under way began

	mu      sync.Mutex
	held    []*Held
	remote  int // of held, those that wait at other pools
	tenants tenants
	now     time.Time // of the last pass asked for

	// Of the pass under way, and used by nobody else.
	order, gone []*Held
	rate        float64 // of prefill, mean of the endpoints, in tokens per second
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

	remote remoteID // which one it is at another pool, if it waits there
	told   bool     // to other pools
	toldAt int64    // with that key
	blocks []uint64 // to tell, with the size of the prompt
	prompt int

	over    atomic.Bool // sent, failed or cancelled; set under mu, but for remote ones
	mu      sync.Mutex  // held while the request is looked at
	request Request
	why     Hold // when last looked at
}

func (h *Held) isRemote() bool { return h.ready == nil }

// add puts a request into the queue; it is false if that is full.
func (q *queue) add(h *Held, c *Queue) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.held) - q.remote
	if h.isRemote() {
		n = q.remote
	}
	if n >= c.MaxLength {
		return false
	}
	switch {
	case h.isRemote():
		q.remote++
	case c.Fair:
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
	q.forget(h, sent)
}

// forget takes a request out of the sums.
func (q *queue) forget(h *Held, sent int) {
	q.count.Add(-1)
	q.tokens.Add(-int64(h.own))
	switch {
	case h.isRemote():
		q.remote--
	case h.tenant != nil:
		q.tenants.leave(h.tenant, sent)
	}
}

// maxHeadStart bounds what a head start and fairness do to the order.
const maxHeadStart = time.Hour

// place puts a request into the order by the tokens that no endpoint has cached.
func (h *Held) place(own int, rate float64) {
	h.own = own
	head := max(-maxHeadStart, min(h.head, maxHeadStart))
	h.due = h.arrived.Add(-head).Add(allowance(h.own, rate)).UnixNano()
}

// begin returns the time of a pass and the requests in their order, and those that
// have been cancelled since the last one, which it takes out.
func (q *queue) begin() (now time.Time, order, gone []*Held) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gone = q.gone[:0]
	q.held = slices.DeleteFunc(q.held, func(h *Held) bool {
		if h.over.Load() {
			q.gone = append(q.gone, h)
			q.forget(h, 0)
			return true
		}
		return false
	})
	least := q.tenants.least()
	for _, h := range q.held {
		h.key = h.due
		if h.tenant != nil {
			ahead := min(float64(h.tenant.served-least)/q.rate, maxHeadStart.Seconds())
			h.key += int64(ahead * float64(time.Second))
		}
	}
	slices.SortFunc(q.held, func(a, b *Held) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.seq, b.seq))
	})
	q.order = append(q.order[:0], q.held...)
	return q.now, q.order, q.gone
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

// QueueStats returns the state of the queue of Acquire, without what waits at other
// pools.
func (p *Pool) QueueStats() QueueStats { return p.QueueStatsAt(time.Now()) }

// QueueStatsAt is QueueStats at a given time.
func (p *Pool) QueueStatsAt(now time.Time) QueueStats {
	q := &p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	s := QueueStats{Tokens: int(q.tokens.Load())}
	for _, h := range q.held {
		if h.isRemote() || h.over.Load() {
			continue
		}
		s.Length++
		s.Oldest = max(s.Oldest, now.Sub(h.arrived))
	}
	return s
}
