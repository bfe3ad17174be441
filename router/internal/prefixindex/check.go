package prefixindex

import "fmt"

// CheckInvariants returns what is wrong with the index, or nil. It is for tests,
// of this package and of the router.
func (x *Index) CheckInvariants() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	seen := map[*node]bool{}
	blocks, pinned := make([]int32, len(x.usage)), make([]int32, len(x.usage))
	kids := map[*node]int{}
	for first, n := range x.nodes {
		if len(n.blocks) == 0 || n.blocks[0] != first {
			return fmt.Errorf("node under %x starts otherwise", first)
		}
		seen[n] = true
		kids[n.parent]++
		if n.parent != &x.root && n.start != n.parent.start+len(n.parent.blocks) {
			return fmt.Errorf("node at %d does not follow its parent", n.start)
		}
		if len(n.holders) == 0 && n.kids == 0 {
			return fmt.Errorf("node at %d is dead", n.start)
		}
		at := map[int32]bool{}
		for i, h := range n.holders {
			if h.node != n || int(h.pos) != i || at[h.slot] {
				return fmt.Errorf("holder %d of node at %d is not at home", i, n.start)
			}
			at[h.slot] = true
			if h.len < 1 || int(h.len) > len(n.blocks) {
				return fmt.Errorf("holding of %d of %d blocks", h.len, len(n.blocks))
			}
			if int(h.len) < len(n.blocks) && (h.kids > 0 || h.pins > 0) {
				return fmt.Errorf("partial holding has %d kids, %d pins", h.kids, h.pins)
			}
			if (h.parent == nil) != (n.parent == &x.root) || h.parent != nil && (h.parent.node != n.parent || h.parent.slot != h.slot) {
				return fmt.Errorf("holding at %d does not hang on its parent", n.start)
			}
			blocks[h.slot] += h.len
			if h.active > 0 {
				pinned[h.slot] += h.len
			}
			if h.computed < 0 || h.computed > h.len || h.idle && h.computed < h.len || h.parent != nil && h.computed > 0 && h.parent.computed < h.parent.len {
				return fmt.Errorf("holding at %d has %d blocks, %d of them computed, idle = %v", n.start, h.len, h.computed, h.idle)
			}
			if h.idle != (h.kids == 0 && h.active == 0) {
				return fmt.Errorf("holding with %d kids, %d active: idle = %v", h.kids, h.active, h.idle)
			}
		}
	}
	for n, k := range kids {
		if n.kids != k {
			return fmt.Errorf("node at %d counts %d kids, has %d", n.start, n.kids, k)
		}
	}
	for s := range x.usage {
		u := x.usage[s]
		if u.Blocks != blocks[s] || u.Pinned != pinned[s] || u.Blocks > max(u.Capacity, u.Pinned) {
			return fmt.Errorf("slot %d: usage %+v, counted %d blocks, %d pinned", s, u, blocks[s], pinned[s])
		}
		last := int64(-1)
		count := 0
		for h := x.lists[s].idle.first; h != nil; h = h.next {
			if h.used < last || h.slot != int32(s) || !h.idle {
				return fmt.Errorf("slot %d: idle list out of order", s)
			}
			last = h.used
			count++
		}
		for h := x.lists[s].busy.first; h != nil; h = h.next {
			if h.slot != int32(s) || h.idle {
				return fmt.Errorf("slot %d: idle holding in busy list", s)
			}
			count++
		}
		for n := range seen {
			for _, h := range n.holders {
				if h.slot == int32(s) {
					count--
				}
			}
		}
		if count != 0 {
			return fmt.Errorf("slot %d: %d holdings more in lists than in nodes", s, count)
		}
	}
	return nil
}
