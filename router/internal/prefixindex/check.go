package prefixindex

import "fmt"

// CheckInvariants returns what is wrong with the index, or nil. It is for tests,
// of this package and of the router.
func (x *Index) CheckInvariants() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	blocks, pinned := map[*shadow]int32{}, map[*shadow]int32{}
	queued := map[*shadow]int{}
	kids := map[*node]int{}
	for first, n := range x.nodes {
		if len(n.blocks) == 0 || n.blocks[0] != first {
			return fmt.Errorf("node under %x starts otherwise", first)
		}
		kids[n.parent]++
		if n.parent != &x.root && n.start != n.parent.start+len(n.parent.blocks) {
			return fmt.Errorf("node at %d does not follow its parent", n.start)
		}
		if len(n.holders) == 0 && n.kids == 0 {
			return fmt.Errorf("node at %d is dead", n.start)
		}
		at := map[*shadow]bool{}
		for i, e := range n.holders {
			h := e.at
			if h.node != n || int(h.pos) != i || e.shadow != h.shadow || e.pos != e.shadow.pos || at[e.shadow] {
				return fmt.Errorf("holder %d of node at %d is not at home", i, n.start)
			}
			at[e.shadow] = true
			if err := h.check(x, e.len); err != nil {
				return fmt.Errorf("holding of %d of %d blocks at %d: %w", e.len, len(n.blocks), n.start, err)
			}
			blocks[e.shadow] += e.len
			if h.active > 0 {
				pinned[e.shadow] += e.len
			}
			if h.queued {
				queued[e.shadow]++
			} else {
				queued[e.shadow] += 0
			}
		}
	}
	for n, k := range kids {
		if n.kids != k {
			return fmt.Errorf("node at %d counts %d kids, has %d", n.start, n.kids, k)
		}
	}
	for s, n := range queued {
		if s.slot == nil || s.Blocks != blocks[s] || s.Pinned != pinned[s] || s.Blocks > max(s.Capacity, s.Pinned) {
			return fmt.Errorf("slot %d: usage %+v, counted %d blocks, %d pinned", s.pos, s.Usage, blocks[s], pinned[s])
		}
		if capacity, held, used := s.slot.Size(); capacity != int(s.Capacity) || held != int(s.Blocks) || used != int(s.Pinned+s.Own) {
			return fmt.Errorf("slot %d: usage %+v, shown are %d, %d, %d", s.pos, s.Usage, capacity, held, used)
		}
		if err := s.leaves.check(s, n); err != nil {
			return fmt.Errorf("slot %d: %w", s.pos, err)
		}
	}
	return nil
}

func (h *holding) check(x *Index, blocks int32) error {
	n, up := h.node, h.parent
	switch {
	case blocks < 1 || int(blocks) > len(n.blocks):
		return fmt.Errorf("it does not fit")
	case int(blocks) < len(n.blocks) && !h.idle():
		return fmt.Errorf("partial, with %d kids, %d active", h.kids, h.active)
	case (up == nil) != (n.parent == &x.root) || up != nil && (up.node != n.parent || up.shadow != h.shadow):
		return fmt.Errorf("it does not hang on its parent")
	case h.computed < 0 || h.computed > blocks || h.idle() && h.computed < blocks || up != nil && h.computed > 0 && up.computed < up.blocks():
		return fmt.Errorf("%d computed, %d kids, %d active", h.computed, h.kids, h.active)
	case h.kids == 0 && !h.queued || h.aside && (h.active == 0 || !h.queued):
		return fmt.Errorf("%d kids, %d active, queued = %v, aside = %v", h.kids, h.active, h.queued, h.aside)
	}
	return nil
}

// check compares the leaves with the number of holdings that say they are there.
func (l *leaves) check(s *shadow, queued int) error {
	if got := len(l.heap) + len(l.pinned); got != queued {
		return fmt.Errorf("%d leaves, %d holdings say they are there", got, queued)
	}
	for i, e := range l.heap {
		if e.at.shadow != s || !e.at.queued || e.at.aside || e.key > e.at.used {
			return fmt.Errorf("leaf %d of the heap with key %d, used %d", i, e.key, e.at.used)
		}
		if e.key < l.heap[max(0, i-1)/4].key {
			return fmt.Errorf("leaf %d is older than the one above it", i)
		}
	}
	for i, h := range l.pinned {
		if h.shadow != s || !h.aside {
			return fmt.Errorf("pinned leaf %d is not put aside", i)
		}
	}
	return nil
}
