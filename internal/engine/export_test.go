package engine

import "fmt"

// Check returns an error if the state of e contradicts itself.
func (e *Engine) Check() error {
	refs := map[*run]int{} // as counted from the running sequences
	reserved := 0
	for _, s := range e.running {
		if e.byID[s.ID] != s {
			return fmt.Errorf("running sequence %d is not known by its ID", s.ID)
		}
		path := 0
		for r := s.tip; r != nil; r = r.parent {
			refs[r]++
			path += len(r.hashes)
		}
		if path != s.stored {
			return fmt.Errorf("sequence %d: %d blocks on its path, stored says %d", s.ID, path, s.stored)
		}
		if s.reserved < 0 || s.stored+s.reserved != e.blocksFor(s.Request) {
			return fmt.Errorf("sequence %d: %d blocks stored and %d reserved, want %d in all", s.ID, s.stored, s.reserved, e.blocksFor(s.Request))
		}
		if want := s.PromptTokens + s.generated - 1; s.generated > 0 && s.computed != want || s.generated == 0 && s.computed >= s.PromptTokens {
			return fmt.Errorf("sequence %d: %d tokens computed with %d prompt and %d output tokens", s.ID, s.computed, s.PromptTokens, s.generated)
		}
		reserved += s.reserved
	}
	if reserved != e.reserved {
		return fmt.Errorf("%d blocks reserved, total says %d", reserved, e.reserved)
	}
	if n := len(e.running) + len(e.waiting); n != len(e.byID) {
		return fmt.Errorf("%d sequences, %d known by ID", n, len(e.byID))
	}
	return e.cache.check(refs, e.capacity-e.reserved)
}

func (c *cache) check(refs map[*run]int, room int) error {
	pinned, idle := 0, 0
	for head, r := range c.heads {
		switch {
		case len(r.hashes) == 0 || r.hashes[0] != head:
			return fmt.Errorf("run %x is filed under %x", r.hashes, head)
		case r.refs != refs[r]:
			return fmt.Errorf("run %x: %d references, want %d", r.hashes, r.refs, refs[r])
		case r.parent != nil && c.heads[r.parent.hashes[0]] != r.parent:
			return fmt.Errorf("run %x: its parent is not in the cache", r.hashes)
		case r.parent != nil && r.parent.private:
			return fmt.Errorf("run %x: its parent is private", r.hashes)
		case (r.refs == 0) != (r.next != nil):
			return fmt.Errorf("run %x with %d references: idle %v", r.hashes, r.refs, r.next != nil)
		}
		if r.refs > 0 {
			pinned += len(r.hashes)
		} else {
			idle += len(r.hashes)
		}
	}
	ring := 0
	seen := map[*run]bool{}
	for r := c.lru.next; r != &c.lru; r = r.next {
		if r.next.prev != r || c.heads[r.hashes[0]] != r {
			return fmt.Errorf("run %x is linked wrongly", r.hashes)
		}
		if r.parent != nil && seen[r.parent] {
			return fmt.Errorf("run %x would be evicted after its parent", r.hashes)
		}
		seen[r] = true
		ring += len(r.hashes)
	}
	if pinned != c.pinned || idle != c.idle || ring != idle {
		return fmt.Errorf("%d blocks pinned, %d idle, %d in the ring; totals say %d and %d", pinned, idle, ring, c.pinned, c.idle)
	}
	if pinned+idle > room {
		return fmt.Errorf("%d blocks pinned and %d idle in room for %d", pinned, idle, room)
	}
	return nil
}
