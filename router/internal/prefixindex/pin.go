package prefixindex

// Pin is a request in flight that uses the beginning of its prompt on an
// endpoint. The zero Pin pins nothing.
type Pin struct {
	at *holding
	// own is the number of blocks that the request uses beyond its chain.
	own int32
	// added is the number of blocks of its chain that the endpoint did not hold.
	added int32
	// until is the number of blocks that cease to be in use at the endpoint, counted
	// since it joined, until none of those is any more that were with this pin.
	until uint32
	// Held is the number of blocks that the endpoint held at the time, with those
	// that requests in flight needed for themselves.
	Held int32
	// LastUse is when the matched part of the prompt had last been in use
	// there, in UnixNano: if it turns out not to be cached, nothing older is.
	// Zero if nothing matched or it was in use at the time.
	LastUse int64
}

// Pin records that a prompt was sent to an endpoint: its blocks are cached
// there from now on, and stay until Unpin. now is UnixNano. m is the prompt's
// last match, which may be out of date. shared says that the request branches
// off a prefix that others use too. Pinned blocks may exceed the capacity: the
// engine then makes requests wait for memory, and Usage shows by how much. own
// is the number of blocks that the request needs for itself besides, for the end
// of its prompt and for its answer; they are not cached.
func (x *Index) Pin(m *Match, slot Slot, chain []uint64, own int, now int64, shared bool) Pin {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(chain) == 0 || !x.live(slot) {
		return Pin{}
	}
	s := slot.pos
	var from *holding
	var depth int
	if int(s) < len(m.stamp) && m.stamp[s] == x.stamp[s] {
		from, depth = m.at[s], int(m.depth[s])
	} else {
		from, depth = x.holdingOf(s, chain)
	}
	x.stamp[s].changes++

	p := Pin{own: blocks32(own), added: int32(len(chain) - depth), Held: x.usage[s].Blocks + x.usage[s].Own}
	x.usage[s].Own += p.own
	if from != nil {
		if from.active == 0 {
			p.LastUse = from.used
		}
		if k := depth - from.node.start; k < int(from.len) {
			x.split(from.node, k)
			from = from.parent
		}
		x.use(from) // so that making room doesn't take it
	}
	p.at = x.extend(s, from, depth, chain)
	x.use(p.at)
	x.countBranch(m, p.at.node, chain, now, shared)
	if from != nil {
		x.unuse(from, 0)
	}
	p.until = x.lists[s].unpinned + uint32(x.usage[s].Pinned)
	return p
}

// Unpin releases what Pin pinned. It must be called once.
func (x *Index) Unpin(p Pin, now int64) {
	if p.at == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := p.at.slot; s != gone {
		x.stamp[s].changes++
		x.usage[s].Own -= p.own
		for h := p.at; h != nil && h.computed < h.len; h = h.parent {
			h.computed = h.len
		}
		x.unuse(p.at, now)
		x.makeRoom(s, 0)
	}
}

// Withdraw is Unpin for a request that the endpoint did not compute. What nobody has
// computed and nobody else is at goes. It must be called once, in place of Unpin.
func (x *Index) Withdraw(p Pin) {
	if p.at == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s := p.at.slot
	if s == gone {
		return
	}
	x.stamp[s].changes++
	x.usage[s].Own -= p.own
	x.unuse(p.at, 0)
	h := p.at
	for h != nil && h.idle && h.computed < h.len {
		up := h.parent
		x.shrink(h, h.len-h.computed)
		h = up
	}
	// What is left has been used as late as what follows it.
	for ; h != nil && h.parent != nil; h = h.parent {
		h.parent.used = max(h.parent.used, h.used)
	}
	x.makeRoom(s, 0)
}

// Disprove records that a part of the cache last used at the given time was
// found missing at the endpoint, and evicts everything that is idle and no
// younger: a cache that lost the one has lost the others before. It returns how
// many blocks that were.
func (x *Index) Disprove(slot Slot, lastUse int64) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.live(slot) {
		return 0
	}
	s := slot.pos
	x.stamp[s].changes++
	before := x.usage[s].Blocks
	idle := &x.lists[s].idle
	for idle.first != nil && idle.first.used <= lastUse {
		x.shrink(idle.first, idle.first.len)
	}
	return int(before - x.usage[s].Blocks)
}

// use counts one more request that ends at h.
func (x *Index) use(h *holding) {
	h.pins++
	for {
		h.active++
		if h.active > 1 {
			return
		}
		x.usage[h.slot].Pinned += h.len
		x.settle(h)
		if h.parent == nil {
			return
		}
		h = h.parent
	}
}

// unuse counts one less, which was there until now; zero leaves no trace of it.
func (x *Index) unuse(h *holding, now int64) {
	h.pins--
	for {
		h.active--
		h.used = max(h.used, now)
		if h.active > 0 {
			return
		}
		x.usage[h.slot].Pinned -= h.len
		x.lists[h.slot].unpinned += uint32(h.len)
		x.settle(h)
		if h.parent == nil {
			return
		}
		h = h.parent
	}
}

// extend makes an endpoint hold the whole chain, of which it holds the first
// depth blocks, ending at h, already. The result is the holding at the end, which
// is also the end of a node.
func (x *Index) extend(s int32, h *holding, depth int, chain []uint64) *holding {
	u := &x.usage[s]
	x.makeRoom(s, len(chain)-depth)
	for depth < len(chain) {
		if h != nil && int(h.len) < len(h.node.blocks) {
			same := common(h.node.blocks[h.len:], chain[depth:])
			if same == 0 {
				x.split(h.node, int(h.len))
				continue
			}
			h.len += int32(same)
			u.Blocks += int32(same)
			if h.active > 0 {
				u.Pinned += int32(same)
			}
			depth += same
			continue
		}
		up := &x.root
		if h != nil {
			up = h.node
		}
		n := x.after(up, chain[depth])
		if n == nil {
			n = x.grow(up, depth, chain[depth:])
		}
		same := common(n.blocks, chain[depth:])
		next := x.spare.holding()
		next.slot, next.len, next.parent = s, int32(same), h
		next.enter(n)
		x.lists[s].busy.pushBack(next)
		if h != nil {
			h.kids++
			x.settle(h)
		}
		u.Blocks += int32(same)
		h = next
		depth += same
	}
	if int(h.len) < len(h.node.blocks) {
		x.split(h.node, int(h.len)) // h moves to the first half
	}
	return h
}

// countBranch counts a request that went on from the deepest match with blocks
// of its own; end is where it ends.
func (x *Index) countBranch(m *Match, end *node, chain []uint64, now int64, shared bool) {
	if len(chain) == m.Deepest {
		return
	}
	n := end
	for n.start+len(n.blocks) > m.Deepest {
		n = n.parent
	}
	if n.start+len(n.blocks) == m.Deepest {
		n.branches = decaying{m.Branches + 1, now}
	}
	if shared {
		x.branching.add(now)
	}
}

// makeRoom evicts until the endpoint has room for need more blocks or nothing is
// idle any more.
func (x *Index) makeRoom(s int32, need int) {
	u, idle := &x.usage[s], &x.lists[s].idle
	for idle.first != nil {
		excess := u.Blocks + u.Own + blocks32(need) - u.Capacity
		if excess <= 0 {
			return
		}
		u.Evicted = true
		x.shrink(idle.first, min(excess, idle.first.len))
	}
}

// shrink takes blocks off the end of an idle holding.
func (x *Index) shrink(h *holding, cut int32) {
	full := int(h.len) == len(h.node.blocks)
	h.len -= cut
	h.computed = min(h.computed, h.len)
	x.usage[h.slot].Blocks -= cut
	if h.len > 0 {
		if full {
			x.shorten(h.node)
		}
		return
	}
	up := h.parent
	x.lists[h.slot].idle.remove(h)
	x.leaveNode(h)
	x.spare.keepHolding(h)
	if up != nil {
		up.kids--
		x.settle(up)
	}
}

// shorten drops the end of a run that nobody holds any more.
func (x *Index) shorten(n *node) {
	if n.kids > 0 {
		return
	}
	longest := int32(0)
	for _, h := range n.holders {
		longest = max(longest, h.len)
	}
	n.blocks = n.blocks[:longest]
}

// settle puts a holding into the list where it belongs: it may be evicted when
// it is not in use and nothing follows it.
func (x *Index) settle(h *holding) {
	if idle := h.kids == 0 && h.active == 0; idle != h.idle {
		h.idle = idle
		l := &x.lists[h.slot]
		if idle {
			l.busy.remove(h)
			l.idle.insert(h)
		} else {
			l.idle.remove(h)
			l.busy.pushBack(h)
		}
	}
}
