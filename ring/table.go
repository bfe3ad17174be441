package ring

import (
	"math/bits"
	"sync/atomic"
)

// depth is the number of ranks a slot keeps. Walks go on with other slots, so a
// larger depth buys nothing but memory: 2, 4 and 8 spill alike.
const depth = 4

// table keeps an entry for each slot: the positions plus one of its first depth
// members, best in the lowest bits, absent ones zero. An entry of zero has not
// been computed yet. Entries take 16, 32 or 64 bits, by the number of members,
// and share words of 64.
//
// Entries are written by OR. Every writer of an entry has computed the same bits,
// so readers see zero or the whole entry, and need no lock.
type table struct {
	words []atomic.Uint64
	shift uint8 // of a mixed key: what remains is the slot
	log   uint8 // of the number of bits of an entry: 4, 5 or 6
}

func newTable(slots, members, placed int) table {
	t := table{log: 6}
	switch {
	case placed == 0:
		return t
	case placed == 1:
		slots = 4 // all keys have the same answer
	}
	switch {
	case members < 1<<4:
		t.log = 4
	case members < 1<<8:
		t.log = 5
	}
	t.shift = uint8(64 - bits.Len(uint(slots-1)))
	t.words = make([]atomic.Uint64, slots>>(6-t.log))
	return t
}

// slots returns the number of slots.
func (t *table) slots() int { return len(t.words) << (6 - t.log) }

// slot returns the slot of a mixed key. Its sum with whatever follows the shift
// has no meaning when there are no slots; entry then answers zero.
func (t *table) slot(mixed uint64) uint64 { return mixed >> (t.shift & 63) }

// entry returns the entry of the slot, or zero if it has not been computed or
// does not exist.
func (t *table) entry(slot uint64) uint64 {
	i := slot >> ((6 - t.log) & 63)
	if i >= uint64(len(t.words)) {
		return 0
	}
	return t.words[i].Load() >> (slot << (t.log & 63) & 63) & t.entryMask()
}

// store sets the entry of a slot that exists.
func (t *table) store(slot, entry uint64) {
	t.words[slot>>(6-t.log)].Or(entry << (slot << t.log & 63))
}

func (t *table) entryMask() uint64 { return ^uint64(0) >> ((64 - 1<<(t.log&63)) & 63) }

// rankBits returns the number of bits of one rank: 4, 8 or 16.
func (t *table) rankBits() uint { return 1 << ((t.log - 2) & 63) }

// first returns the position of an entry's first member, or -1 if it has none.
func (t *table) first(entry uint64) int { return int(entry&(1<<t.rankBits()-1)) - 1 }

// pack returns the entry of the ranked positions.
func (t *table) pack(ranked []contender) uint64 {
	var entry uint64
	for i, c := range ranked {
		entry |= uint64(c.index+1) << (uint(i) * t.rankBits())
	}
	return entry
}
