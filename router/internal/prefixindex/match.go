package prefixindex

// Match is what the endpoints hold of one prompt. It is filled by [Index.Match]
// and may be used again; the zero value is ready. A Match must not be used by
// two goroutines at once.
type Match struct {
	// Deepest is the longest depth of any endpoint, in blocks.
	Deepest int
	// Branches is the recent number of other requests that left the prompt's
	// path at Deepest, and AllBranches that number over every path; both halve
	// every minute.
	Branches, AllBranches float64

	found   []found // who holds some of the prompt
	of      []int32 // by position: one more than the index into found, or 0
	changes uint64  // of the index at the time
}

// found is how much of the prompt one endpoint holds.
type found struct {
	shadow *shadow
	at     *holding // where it ends
	pos    int32    // of the shadow
	depth  int32    // in blocks
}

// Depth returns the number of blocks at the beginning of the prompt that an
// endpoint holds.
func (m *Match) Depth(slot *Slot) int {
	if f := m.in(slot); f != nil {
		return int(f.depth)
	}
	return 0
}

func (m *Match) in(slot *Slot) *found {
	if int(slot.pos) >= len(m.of) || m.of[slot.pos] == 0 {
		return nil
	}
	if f := &m.found[m.of[slot.pos]-1]; f.shadow == slot.shadow {
		return f
	}
	return nil // the position had another owner then
}

// reset forgets what was found; positions is how many there may be now.
func (m *Match) reset(positions int) {
	m.Deepest = 0
	for i := range m.found {
		m.of[m.found[i].pos] = 0
	}
	m.found = m.found[:0]
	if positions > len(m.of) {
		m.of = make([]int32, positions)
	}
}

// add records how much of the prompt an endpoint holds; later calls for the same one
// say more.
func (m *Match) add(e *holder, depth int) {
	i := m.of[e.pos]
	if i == 0 {
		m.found = append(m.found, found{})
		i = int32(len(m.found))
		m.of[e.pos] = i
	}
	m.found[i-1] = found{e.shadow, e.at, e.pos, int32(depth)}
}

// Match finds how much of the chain each endpoint holds, as of now (UnixNano).
func (x *Index) Match(m *Match, chain []uint64, now int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	m.reset(int(x.positions))
	m.changes = x.changes

	deepest, up, pos := &x.root, &x.root, 0
	for pos < len(chain) {
		n := x.after(up, chain[pos])
		if n == nil {
			break
		}
		same := common(n.blocks, chain[pos:])
		for i := range n.holders {
			e := &n.holders[i]
			depth := pos + min(same, int(e.len))
			m.add(e, depth)
			if depth > m.Deepest {
				m.Deepest, deepest = depth, n
			}
		}
		pos += same
		if same < len(n.blocks) {
			break
		}
		up = n
	}

	m.Branches = deepest.branches.at(now)
	if m.Deepest < deepest.start+len(deepest.blocks) {
		// The path parts from a run that somebody else continued.
		m.Branches = deepest.recency(m.Deepest-deepest.start, now)
	}
	m.AllBranches = x.branching.at(now)
}

// recency is 1 if somebody who holds more than the first k blocks of the run is
// using it, and fades from the last use on. It is zero if nobody does.
func (n *node) recency(k int, now int64) float64 {
	recent := 0.0
	for _, e := range n.holders {
		switch {
		case int(e.len) <= k:
		case e.at.active > 0:
			return 1
		default:
			recent = max(recent, faded(1, now-e.at.seen))
		}
	}
	return recent
}

// holdingOf returns the deepest holding of an endpoint on the chain and how many of
// its blocks are on it.
func (x *Index) holdingOf(s *shadow, chain []uint64) (*holding, int) {
	var last *holding
	depth, up, pos := 0, &x.root, 0
	for pos < len(chain) {
		n := x.after(up, chain[pos])
		if n == nil {
			break
		}
		same := common(n.blocks, chain[pos:])
		e := n.holder(s)
		if e == nil {
			break
		}
		last, depth = e.at, pos+min(same, int(e.len))
		pos += same
		if same < len(n.blocks) {
			break
		}
		up = n
	}
	return last, depth
}

// holder returns the entry of an endpoint, nil if it holds nothing of the run.
func (n *node) holder(s *shadow) *holder {
	for i := range n.holders {
		if n.holders[i].shadow == s {
			return &n.holders[i]
		}
	}
	return nil
}
