package prefixindex

// Pin is a request in flight that uses the beginning of its prompt on an
// endpoint. The zero Pin pins nothing.
type Pin struct {
	at *holding
	// LastUse is the number of the use in which the matched part of the prompt had
	// last been there: if it turns out not to be cached, nothing older is. Zero if
	// nothing matched or it was in use at the time.
	LastUse int64
	// Held is the number of blocks that the endpoint held at the time, with those
	// that requests in flight needed for themselves.
	Held int32
	// own is the number of blocks that the request uses beyond its chain, and added
	// that of those in the chain that the endpoint did not hold.
	own, added int32
	// pinned is the number of blocks in use at the endpoint, this pin's included,
	// and unpinned that of those that had ceased to be since it joined.
	pinned   int32
	unpinned uint32
}

// Pin records that a prompt was sent to an endpoint: its blocks are cached
// there from now on, and stay until Unpin. now is UnixNano. m is the prompt's
// last match, which may be out of date. shared says that the request branches
// off a prefix that others use too. Pinned blocks may exceed the capacity: the
// engine then makes requests wait for memory, and Slot.Size shows by how much. own
// is the number of blocks that the request needs for itself besides, for the end
// of its prompt and for its answer; they are not cached.
func (x *Index) Pin(m *Match, slot *Slot, chain []uint64, own int, now int64, shared bool) Pin {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := slot.shadow
	if len(chain) == 0 || s.slot == nil {
		return Pin{}
	}
	var from *holding
	var depth int
	if m.changes != x.changes {
		from, depth = x.holdingOf(s, chain)
	} else if f := m.in(slot); f != nil {
		from, depth = f.at, int(f.depth)
	}

	p := Pin{own: min(blocks32(own), maxBlocks-s.Own), added: int32(len(chain) - depth)}
	p.Held = s.Blocks + min(s.Own, maxBlocks-s.Blocks)
	s.Own += p.own
	if from != nil {
		if from.active == 0 {
			p.LastUse = from.used
		}
		if k := depth - from.node.start; k < int(from.blocks()) {
			x.split(from.node, k)
			from = from.parent
		}
		x.use(from) // so that making room doesn't take it
	}
	p.at = from
	if depth < len(chain) || int(from.blocks()) < len(from.node.blocks) {
		p.at = x.extend(s, from, depth, chain)
		x.use(p.at)
		if p.at.kids == 0 && !p.at.queued {
			s.leaves.add(p.at)
		}
		if from != nil {
			x.unuse(from, 0, 0)
		}
	} else {
		x.makeRoom(s, 0)
	}
	x.countBranch(m, p.at.node, chain, now, shared)
	p.pinned, p.unpinned = s.Pinned, s.unpinned
	s.publish()
	return p
}

// Unpin releases what Pin pinned. It must be called once.
func (x *Index) Unpin(p Pin, now int64) {
	if p.at == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s := p.at.shadow
	if s == nil {
		return
	}
	s.Own -= p.own
	for h := p.at; h != nil && h.computed < h.blocks(); h = h.parent {
		h.computed = h.blocks()
	}
	x.uses++
	x.unuse(p.at, x.uses, now)
	x.makeRoom(s, 0)
	s.publish()
}

// Withdraw is Unpin for a request that the endpoint did not compute. What nobody has
// computed and nobody else is at goes. It must be called once, in place of Unpin.
func (x *Index) Withdraw(p Pin) {
	if p.at == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s := p.at.shadow
	if s == nil {
		return
	}
	s.Own -= p.own
	x.unuse(p.at, 0, 0)
	h := p.at
	for h != nil && h.idle() && h.computed < h.blocks() {
		up := h.parent
		x.shrink(h, h.blocks()-h.computed)
		h = up
	}
	// What is left has been used as late as what follows it.
	for ; h != nil && h.parent != nil; h = h.parent {
		if h.parent.used < h.used {
			h.parent.used, h.parent.seen = h.used, h.seen
		}
	}
	x.makeRoom(s, 0)
	s.publish()
}

// Disprove records that a part of the cache whose last use had the given number was
// found missing at the endpoint, and evicts everything that is idle and no
// younger: a cache that lost the one has lost the others before.
func (x *Index) Disprove(slot *Slot, lastUse int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := slot.shadow
	if s.slot == nil {
		return
	}
	for h := s.leaves.oldest(); h != nil && h.used <= lastUse; h = s.leaves.oldest() {
		x.shrink(h, h.blocks())
	}
	s.publish()
}

// use counts one more request that ends at h.
func (x *Index) use(h *holding) {
	for ; h != nil; h = h.parent {
		h.active++
		if h.active > 1 {
			return
		}
		h.shadow.Pinned += h.blocks()
	}
}

// unuse counts one less, whose use has the given number and ends now; zero leaves no
// trace of it.
func (x *Index) unuse(h *holding, use, now int64) {
	for ; h != nil; h = h.parent {
		h.active--
		if use > 0 {
			h.used, h.seen = use, now
		}
		if h.active > 0 {
			return
		}
		h.shadow.Pinned -= h.blocks()
		h.shadow.unpinned += uint32(h.blocks())
		if h.aside {
			h.shadow.leaves.over(h)
		}
	}
}

// extend makes an endpoint hold the whole chain, of which it holds the first
// depth blocks, ending at h, already. The result is the holding at the end, which
// is also the end of a node.
func (x *Index) extend(s *shadow, h *holding, depth int, chain []uint64) *holding {
	x.makeRoom(s, len(chain)-depth)
	x.changes++
	for depth < len(chain) {
		if h != nil && int(h.blocks()) < len(h.node.blocks) {
			held := h.blocks()
			same := common(h.node.blocks[held:], chain[depth:])
			if same == 0 {
				x.split(h.node, int(held))
				continue
			}
			h.node.holders[h.pos].len += int32(same)
			s.Blocks += int32(same)
			if h.active > 0 {
				s.Pinned += int32(same)
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
		next.shadow, next.parent = s, h
		next.enter(n, int32(same))
		if h != nil {
			h.kids++
		}
		s.Blocks += int32(same)
		h = next
		depth += same
	}
	if held := int(h.blocks()); held < len(h.node.blocks) {
		x.split(h.node, held) // h moves to the first half
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
func (x *Index) makeRoom(s *shadow, need int) {
	for {
		excess := s.Blocks + s.Own + blocks32(need) - s.Capacity
		if excess <= 0 {
			return
		}
		h := s.leaves.oldest()
		if h == nil {
			return
		}
		x.shrink(h, min(excess, h.blocks()))
	}
}

// shrink takes blocks off the end of an idle holding.
func (x *Index) shrink(h *holding, cut int32) {
	x.changes++
	e := &h.node.holders[h.pos]
	full := int(e.len) == len(h.node.blocks)
	e.len -= cut
	h.computed = min(h.computed, e.len)
	h.shadow.Blocks -= cut
	if e.len > 0 {
		if full {
			x.shorten(h.node)
		}
		return
	}
	up := h.parent
	h.shadow.leaves.remove(h)
	x.leaveNode(h)
	x.spare.keepHolding(h)
	if up != nil {
		up.kids--
		if up.kids == 0 && !up.queued {
			up.shadow.leaves.add(up)
		}
	}
}

// shorten drops the end of a run that nobody holds any more.
func (x *Index) shorten(n *node) {
	if n.kids > 0 {
		return
	}
	longest := int32(0)
	for _, e := range n.holders {
		longest = max(longest, e.len)
	}
	n.blocks = n.blocks[:longest]
}
