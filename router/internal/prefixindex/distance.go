package prefixindex

// Distance returns how many blocks of a pin's endpoint had been in use since the
// matched part of its prompt was last, with that part and what requests in flight
// needed for themselves, when the pin was made: an endpoint whose cache is smaller
// has lost some of that part, one whose cache is larger has all of it. It is zero
// if nothing matched or the matched part was in use. It is to be called right after
// Pin, and takes a step for each run of blocks that is younger.
func (x *Index) Distance(p Pin) int {
	if p.at == nil || p.LastUse == 0 {
		return 0
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s := p.at.slot
	if s == gone {
		return 0
	}
	n := x.usage[s].Own - p.own - p.added
	for h := x.lists[s].busy.first; h != nil; h = h.next {
		if h.active > 0 || h.used >= p.LastUse {
			n += h.len
		}
	}
	for h := x.lists[s].idle.last; h != nil && h.used >= p.LastUse; h = h.prev {
		n += h.len
	}
	return int(n)
}

// Resident returns how many of the blocks that were in use when a pin was made have
// been in use without a break since, at least.
func (x *Index) Resident(p Pin) int {
	if p.at == nil {
		return 0
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s := p.at.slot
	if s == gone {
		return 0
	}
	return max(0, int(int32(p.until-x.lists[s].unpinned)))
}
