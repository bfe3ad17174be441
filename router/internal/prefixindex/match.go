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

	stamp []stamp    // of each position
	usage []Usage    // of each position
	depth []int32    // blocks that each position holds
	at    []*holding // and where they end
}

// Depth returns the number of blocks at the beginning of the prompt that an
// endpoint holds.
func (m *Match) Depth(s Slot) int {
	if int(s.pos) >= len(m.depth) || m.stamp[s.pos].epoch != s.epoch {
		return 0
	}
	return int(m.depth[s.pos])
}

// Usage returns the size of an endpoint's shadow at the time of the match, nil if
// the endpoint was not there. It is valid until the next match. It is not a copy,
// since copying 20 bytes took longer than all else that a pick does with them.
func (m *Match) Usage(s Slot) *Usage {
	if int(s.pos) >= len(m.usage) || m.stamp[s.pos].epoch != s.epoch {
		return nil
	}
	return &m.usage[s.pos]
}

// Match finds how much of the chain each endpoint holds, as of now (UnixNano).
func (x *Index) Match(m *Match, chain []uint64, now int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := len(x.usage)
	if cap(m.depth) < n {
		m.depth, m.at = make([]int32, n), make([]*holding, n)
	} else {
		m.depth, m.at = m.depth[:n], m.at[:n]
		clear(m.depth)
		clear(m.at)
	}
	m.usage = append(m.usage[:0], x.usage...)
	m.stamp = append(m.stamp[:0], x.stamp...)
	m.Deepest = 0

	deepest, up, pos := &x.root, &x.root, 0
	for pos < len(chain) {
		n := x.after(up, chain[pos])
		if n == nil {
			break
		}
		same := common(n.blocks, chain[pos:])
		for _, h := range n.holders {
			depth := pos + min(same, int(h.len))
			m.depth[h.slot], m.at[h.slot] = int32(depth), h
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
	if m.Deepest > 0 && m.Deepest < deepest.start+len(deepest.blocks) {
		// The path parts from a run that somebody else continued.
		m.Branches = deepest.recency(m.Deepest-deepest.start, now)
	}
	m.AllBranches = x.branching.at(now)
}

// recency is 1 if somebody who holds more than the first k blocks of the run is
// using it, and fades from the last use on.
func (n *node) recency(k int, now int64) float64 {
	used := int64(0)
	for _, h := range n.holders {
		switch {
		case int(h.len) <= k:
		case h.active > 0:
			return 1
		default:
			used = max(used, h.used)
		}
	}
	return faded(1, now-used)
}

// holdingOf returns the deepest holding of an endpoint on the chain and how many of
// its blocks are on it.
func (x *Index) holdingOf(s int32, chain []uint64) (*holding, int) {
	var found *holding
	depth, up, pos := 0, &x.root, 0
	for pos < len(chain) {
		n := x.after(up, chain[pos])
		if n == nil {
			break
		}
		same := common(n.blocks, chain[pos:])
		var here *holding
		for _, h := range n.holders {
			if h.slot == s {
				here = h
				break
			}
		}
		if here == nil {
			break
		}
		found, depth = here, pos+min(same, int(here.len))
		pos += same
		if same < len(n.blocks) {
			break
		}
		up = n
	}
	return found, depth
}
