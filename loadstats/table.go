package loadstats

import (
	"sync"
	"sync/atomic"
)

// Table holds the newest report of each endpoint. Whoever has a report (a
// [Poller], a response header, a bus between gateways) writes it with
// [Table.Report]; the router reads it on every pick through the endpoint's
// [Cell], without a lock.
//
// The zero value is an empty table. A Table is safe for concurrent use and must
// not be copied after first use.
type Table struct {
	mu    sync.RWMutex
	cells map[string]*Cell
}

// Cell is the place of one endpoint in a [Table]. It is safe for concurrent use
// and must not be copied.
type Cell struct{ latest atomic.Pointer[Report] }

// Latest returns the newest report, nil if there is none. The report is shared
// and must not be changed; until a newer one arrives, the pointer is the same.
func (c *Cell) Latest() *Report { return c.latest.Load() }

// Report puts r in the place of the endpoint's last report, unless that one is
// newer: reports that overtake each other on the way leave the newest.
//
// Nothing is mixed: what r does not know is unknown from now on, so that no
// reading lives longer than its own age. The one exception is KVCacheTokens, a
// property of the engine and not of the moment: it is carried over from the last
// report if r does not know it. Sources that know different things about an
// endpoint (a metrics page and response headers) therefore blank each other's
// readings; use one of them for one endpoint.
func (t *Table) Report(endpoint string, r Report) {
	c := t.Cell(endpoint)
	for {
		old := c.latest.Load()
		next := r
		if old != nil {
			if r.At.Before(old.At) {
				return
			}
			if !r.KVCacheTokens.known {
				next.KVCacheTokens = old.KVCacheTokens
			}
		}
		if c.latest.CompareAndSwap(old, &next) {
			return
		}
	}
}

// Latest returns the endpoint's newest report, and whether there is one.
func (t *Table) Latest(endpoint string) (Report, bool) {
	t.mu.RLock()
	c := t.cells[endpoint]
	t.mu.RUnlock()
	if c == nil {
		return Report{}, false
	}
	r := c.Latest()
	if r == nil {
		return Report{}, false
	}
	return *r, true
}

// Cell returns the place of the endpoint, made on first use, for callers that
// read often. It stays the endpoint's place until [Table.Forget].
func (t *Table) Cell(endpoint string) *Cell {
	t.mu.RLock()
	c := t.cells[endpoint]
	t.mu.RUnlock()
	if c != nil {
		return c
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.cells[endpoint]; c != nil {
		return c
	}
	if t.cells == nil {
		t.cells = make(map[string]*Cell)
	}
	c = new(Cell)
	t.cells[endpoint] = c
	return c
}

// Forget drops the endpoint and its report. A Cell obtained before is cut off:
// it keeps nothing and sees no later report, as an endpoint that comes back
// under the same name is a new one. Call it from where endpoints leave, after
// the last reader and reporter of this one have stopped.
func (t *Table) Forget(endpoint string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.cells[endpoint]; c != nil {
		c.latest.Store(nil)
		delete(t.cells, endpoint)
	}
}
