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
//
// A table without slots holds no entry and answers zero.
type table struct {
	words     []atomic.Uint64
	slotShift uint8  // of a mixed key: what remains is the slot
	rankBits  uint8  // bits of one rank: 4, 8 or 16
	entryBits uint64 // bits of an entry
	rankMask  uint64
	entryMask uint64
}

func newTable(slots, members, placed int) table {
	switch placed {
	case 0:
		return table{}
	case 1:
		slots = 4 // all have the same answer
	}
	t := table{rankBits: 16}
	switch {
	case members < 1<<4:
		t.rankBits = 4
	case members < 1<<8:
		t.rankBits = 8
	}
	t.entryBits = depth * uint64(t.rankBits)
	t.rankMask = 1<<t.rankBits - 1
	t.entryMask = ^uint64(0) >> (64 - t.entryBits)
	t.words = make([]atomic.Uint64, slots*int(t.entryBits)/64)
	t.slotShift = uint8(64 - bits.Len(uint(slots-1)))
	return t
}

// slots returns the number of slots.
func (t *table) slots() int { return len(t.words) * 64 / int(t.entryBits) }

// slot returns the slot of a mixed key.
func (t *table) slot(mixed uint64) uint64 { return mixed >> (t.slotShift & 63) }

// load returns the entry of the mixed key's slot in its lower bits, followed by
// entries of other slots.
func (t *table) load(mixed uint64) uint64 {
	bit := t.slot(mixed) * t.entryBits
	if bit/64 >= uint64(len(t.words)) {
		return 0
	}
	return t.words[bit/64].Load() >> (bit % 64)
}

// store sets the entry of a slot that exists.
func (t *table) store(slot, entry uint64) {
	bit := slot * t.entryBits
	t.words[bit/64].Or(entry << (bit % 64))
}

// first returns the position of the first member of an entry, or -1 if it has
// none.
func (t *table) first(entry uint64) int { return int(entry&t.rankMask) - 1 }

// rest returns the entry without its first member.
func (t *table) rest(entry uint64) uint64 { return entry >> (t.rankBits & 63) }

// pack returns the entry of the ranked positions.
func (t *table) pack(ranked []contender) uint64 {
	var entry uint64
	for i, c := range ranked {
		entry |= uint64(c.index+1) << (uint(i) * uint(t.rankBits))
	}
	return entry
}
