package prefixindex

// Usage returns the size of an endpoint's shadow, zero if it has left.
func (x *Index) Usage(slot *Slot) Usage {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slot.shadow.Usage
}

// Positions is the number of endpoints that there have been at one time.
func (x *Index) Positions() int { return int(x.positions) }

// SpareHolders is the most holders for which a removed node keeps memory.
func (x *Index) SpareHolders() int {
	most := 0
	for _, n := range x.spare.nodes {
		for ; n != nil; n = n.parent {
			most = max(most, cap(n.holders))
		}
	}
	return most
}
