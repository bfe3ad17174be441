package ring

import (
	"math"
	"math/bits"
)

// capSlots computes the whole table, giving each slot in turn to its best member
// that has not yet reached its cap.
func (r *Ring) capSlots() {
	if len(r.scorers) == 0 {
		return
	}
	room := r.slotLimits()
	full := func(s *scorer) bool { return room[s.index] == 0 }
	for slot := range uint64(r.table.slots()) {
		var ranked [depth]contender
		n := r.rank(ranked[:], slot)
		owner := 0
		for owner < n && room[ranked[owner].index] == 0 {
			owner++
		}
		if owner == n { // then n is depth: the limits leave room for every slot
			owner--
			rankWeighted(ranked[owner:owner+1], r.scorers, slot, full)
		}
		home := ranked[owner]
		copy(ranked[1:owner+1], ranked[:owner])
		ranked[0] = home
		room[home.index]--
		r.table.store(slot, r.table.pack(ranked[:n]))
	}
}

// slotLimits returns the largest number of slots of each member,
// ceil(SlotCap·slots·weight/total weight), computed in integers so that it is the
// same on every architecture. Their sum is at least the number of slots.
func (r *Ring) slotLimits() []int {
	var total uint64
	for i := range r.scorers {
		total += uint64(r.scorers[i].weight)
	}
	slots := uint64(r.table.slots())
	limits := make([]int, len(r.members))
	for i := range r.scorers {
		s := &r.scorers[i]
		hi, lo := bits.Mul64(millionths(r.config.SlotCap)*slots, uint64(s.weight))
		limit, rest := bits.Div64(hi, lo, million*total)
		if rest > 0 {
			limit++
		}
		limits[s.index] = int(limit)
	}
	return limits
}

const million = 1_000_000

// millionths returns f·10^6, rounded.
func millionths(f float64) uint64 { return uint64(math.Round(f * million)) }
