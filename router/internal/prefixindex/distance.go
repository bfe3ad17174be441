package prefixindex

// farLeaves is the number of leaves among which Distance looks for older ones, which
// bounds what it costs. A part that has more of them behind it was in use so lately that
// finding it says little about the size of the cache.
const farLeaves = 1024

// Distance returns how many blocks of a pin's endpoint had been in use since the
// matched part of its prompt was last, with that part and what requests in flight
// needed for themselves, when the pin was made: an endpoint whose cache is smaller
// has lost some of that part, one whose cache is larger has all of it. It is zero
// if nothing matched, or the matched part was in use, or so lately that too much is
// older. It is to be called right after Pin.
func (x *Index) Distance(p *Pin) int {
	if p.LastUse == 0 {
		return 0
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s := p.at.shadow
	if s == nil {
		return 0
	}
	s.marks++
	older, ok := s.leaves.older(p.LastUse, s.marks)
	if !ok {
		return 0
	}
	return int(s.Blocks + s.Own - p.own - p.added - older)
}

// older returns how many blocks that nothing uses had their last use before the given
// one, unless there are too many. What it counts gets the mark.
func (l *leaves) older(used int64, mark uint32) (blocks int32, ok bool) {
	var todo [64]int
	n, seen := 0, 0
	if len(l.heap) > 0 {
		n = 1 // the first one
	}
	for n > 0 {
		n--
		i := todo[n]
		if seen++; seen > farLeaves {
			return 0, false
		}
		for h := l.heap[i].at; h != nil && h.mark != mark && h.active == 0 && h.used < used; h = h.parent {
			h.mark = mark
			blocks += h.blocks()
		}
		for k := 4*i + 1; k < min(4*i+5, len(l.heap)); k++ {
			if l.heap[k].key < used {
				todo[n] = k // no more than three for each level of the heap
				n++
			}
		}
	}
	return blocks, true
}

// Resident returns how many of the blocks that were in use when a pin was made have
// been in use without a break since, at least.
func (x *Index) Resident(p *Pin) int {
	if p.at == nil {
		return 0
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s := p.at.shadow
	if s == nil {
		return 0
	}
	return max(0, int(p.pinned)-int(s.unpinned-p.unpinned))
}
