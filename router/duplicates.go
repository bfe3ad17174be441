package router

import "sync"

// duplicates knows the prompts whose prefill is under way, by the Tail of their
// signature: a client that lost patience and sends the same again should wait
// where the first one is being computed, not have it computed twice.
type duplicates struct {
	mu    sync.Mutex
	first map[uint64]*member
}

func (d *duplicates) find(tail uint64) *member {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.first[tail]
}

// begin records that the prompt is being computed at m, and says whether it is
// the first one.
func (d *duplicates) begin(tail uint64, m *member) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first[tail] != nil {
		return false
	}
	if d.first == nil {
		d.first = make(map[uint64]*member)
	}
	d.first[tail] = m
	return true
}

func (d *duplicates) end(tail uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.first, tail)
}
