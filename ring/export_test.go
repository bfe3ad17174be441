package ring

import "slices"

// Compute ranks the members for the slot and keeps the result, as the first key
// of the slot does.
func Compute(r *Ring, slot uint64) { r.compute(slot) }

// NegLog is negLog.
func NegLog(u uint64) uint64 { return negLog(u) }

// NewWithHash is New with another hash of IDs.
func NewWithHash(members []Member, hash func(string) uint64) (*Ring, error) {
	return build(Config{}, members, hash)
}

// SlotHomes returns the position of the first member of every slot.
func SlotHomes(r *Ring) []int {
	homes := make([]int, r.table.slots())
	for slot := range homes {
		homes[slot] = r.table.first(r.entry(uint64(slot) << r.table.slotShift))
	}
	return homes
}

// Ranked returns the positions of the best members for the slot, as the ring
// ranks them and as the weighted ranking does.
func Ranked(r *Ring, slot uint64) (own, weighted []int) {
	var ranked [depth]contender
	n := r.rank(ranked[:], slot)
	own = positions(ranked[:n])
	n = rankWeighted(ranked[:], r.scorers, slot, nil)
	return own, positions(ranked[:n])
}

// RankedBySort returns what Ranked does, by sorting all members.
func RankedBySort(r *Ring, slot uint64) []int {
	all := make([]contender, len(r.scorers))
	for i, s := range r.scorers {
		hash := mix(mix(slot+1) ^ s.seed)
		all[i] = contender{negLog(hash), hash, s.weight, s.index}
	}
	slices.SortStableFunc(all, func(a, b contender) int {
		switch {
		case a.beats(&b):
			return -1
		case b.beats(&a):
			return 1
		}
		return 0
	})
	return positions(all[:min(len(all), depth)])
}

func positions(ranked []contender) []int {
	at := make([]int, len(ranked))
	for i, c := range ranked {
		at[i] = int(c.index)
	}
	return at
}
