package ring

import "iter"

// Lookup returns the position of the key's home, or -1 if no member has weight.
func (r *Ring) Lookup(key uint64) int {
	mixed := mix(key)
	if i := r.table.first(r.table.load(mixed)); i >= 0 {
		return i
	}
	return r.table.first(r.compute(r.table.slot(mixed)))
}

// Walk returns the positions of all members of positive weight in the key's order
// of preference, each once. The first is the [Ring.Lookup] of the key.
//
// The first four are the best of the key's slot, and a member that leaves does
// not change the order of the others among them. From there on the order is
// that of the homes of other slots, drawn by re-hashing the key's (Chen, Coleman
// and Shrivastava, "Revisiting consistent hashing with bounded loads", AAAI
// 2021, show why that balances better than walking on to neighbors); after twice
// as many draws as there are members the rest follows.
func (r *Ring) Walk(key uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		mixed := mix(key)
		entry := r.entry(mixed)
		for left := entry; left != 0; left = r.table.rest(left) {
			if !yield(r.table.first(left)) {
				return
			}
		}
		if len(r.scorers) > depth {
			r.walkOn(r.table.slot(mixed), entry, yield)
		}
	}
}

// AppendWalk appends the first max positions of [Ring.Walk] to dst and returns
// the extended slice; a max of 0 or less appends none. If dst has room and the
// ring no more than 4,096 members, it does not allocate.
func (r *Ring) AppendWalk(dst []int, key uint64, max int) []int {
	mixed := mix(key)
	entry := r.entry(mixed)
	if max >= depth && len(r.scorers) >= depth {
		t := &r.table
		second := t.rest(entry)
		third := t.rest(second)
		dst = append(dst, t.first(entry), t.first(second), t.first(third), t.first(t.rest(third)))
		max -= depth
	} else {
		for left := entry; left != 0 && max > 0; left = r.table.rest(left) {
			dst = append(dst, r.table.first(left))
			max--
		}
	}
	if max > 0 && len(r.scorers) > depth {
		return r.appendWalkOn(dst, r.table.slot(mixed), entry, max)
	}
	return dst
}

// appendWalkOn appends the first max members of walkOn.
func (r *Ring) appendWalkOn(dst []int, slot, entry uint64, max int) []int {
	r.walkOn(slot, entry, func(i int) bool {
		dst = append(dst, i)
		max--
		return max > 0
	})
	return dst
}

// walkOn yields the members that are not in the slot's own entry.
func (r *Ring) walkOn(slot, entry uint64, yield func(int) bool) {
	var few [markedFew]uint64
	marked := newMarks(few[:], len(r.members))
	for ; entry != 0; entry = r.table.rest(entry) {
		marked.add(r.table.first(entry))
	}
	left := len(r.scorers) - depth
	visit := func(i int) (more bool) {
		if !marked.add(i) {
			return true
		}
		left--
		return yield(i) && left > 0
	}
	seed := drawSeed(slot)
	for k := range r.draws() {
		if !visit(r.draw(seed, k)) {
			return
		}
	}
}

// draws is the number of draws that are certain to come to every member of
// positive weight.
func (r *Ring) draws() int { return 3 * len(r.scorers) }

// draw returns the member at step k, below draws, on the way on from a slot's own
// members. It can be one that was there before. Two thirds of the steps go to the
// home of a random slot each, the last third to one member after the other.
func (r *Ring) draw(seed uint64, k int) int {
	n := len(r.scorers)
	if k < 2*n {
		return r.table.first(r.entry(mix(seed + uint64(k))))
	}
	return int(r.scorers[(seed+uint64(k))%uint64(n)].index)
}

// drawSeed returns the seed of the draws from a slot.
func drawSeed(slot uint64) uint64 { return mix(^slot) }

// entry returns the entry of the mixed key's slot, which it computes if need be.
// In a ring without members of weight it is zero.
func (r *Ring) entry(mixed uint64) uint64 {
	if entry := r.table.load(mixed) & r.table.entryMask; entry != 0 {
		return entry
	}
	return r.compute(r.table.slot(mixed))
}

// compute ranks the members for the slot and keeps the result.
func (r *Ring) compute(slot uint64) uint64 {
	if len(r.scorers) == 0 {
		return 0
	}
	var ranked [depth]contender
	n := r.rank(ranked[:], slot)
	entry := r.table.pack(ranked[:n])
	r.table.store(slot, entry)
	return entry
}
