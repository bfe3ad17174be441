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
	// The rest is derived from the number of slots and members, and kept as it
	// is used: a shift by a variable costs several steps on some processors.
	shift     uint8  // of a mixed key: what remains is the slot
	perWord   uint8  // log2 of the entries in a word: 2, 1 or 0
	inWord    uint64 // mask of a slot's position in its word
	bits      uint64 // of an entry: 16, 32 or 64
	rankBits  uint8  // of a rank: 4, 8 or 16
	rankMask  uint64
	entryMask uint64
}

func newTable(slots, members, placed int) table {
	var t table
	switch {
	case members < 1<<4:
		t.perWord, t.bits = 2, 16
	case members < 1<<8:
		t.perWord, t.bits = 1, 32
	default:
		t.perWord, t.bits = 0, 64
	}
	t.inWord = 1<<t.perWord - 1
	t.rankBits = uint8(t.bits / depth)
	t.rankMask = 1<<t.rankBits - 1
	t.entryMask = ^uint64(0) >> (64 - t.bits)
	switch {
	case placed == 0:
		return t
	case placed == 1:
		slots = 4 // all keys have the same answer
	}
	t.shift = uint8(64 - bits.Len(uint(slots-1)))
	t.words = make([]atomic.Uint64, slots>>t.perWord)
	return t
}

// slots returns the number of slots.
func (t *table) slots() int { return len(t.words) << t.perWord }

// slot returns the slot of a mixed key. It has no meaning when there are no
// slots; word then answers zero.
func (t *table) slot(mixed uint64) uint64 { return mixed >> (t.shift & 63) }

// word returns the word of the slot, shifted so that the slot's entry is lowest,
// or zero if the slot does not exist.
func (t *table) word(slot uint64) uint64 {
	i := slot >> (t.perWord & 63)
	if i >= uint64(len(t.words)) {
		return 0
	}
	return t.words[i].Load() >> ((slot & t.inWord) * t.bits & 63)
}

// entry returns the entry of the slot, or zero if it has not been computed or
// does not exist.
func (t *table) entry(slot uint64) uint64 { return t.word(slot) & t.entryMask }

// store sets the entry of a slot that exists.
func (t *table) store(slot, entry uint64) {
	t.words[slot>>(t.perWord&63)].Or(entry << ((slot & t.inWord) * t.bits & 63))
}

// first returns the position of an entry's first member, or -1 if it has none.
func (t *table) first(entry uint64) int { return int(entry&t.rankMask) - 1 }

// rest returns an entry without its first member.
func (t *table) rest(entry uint64) uint64 { return entry >> (t.rankBits & 63) }

// pack returns the entry of the ranked positions.
func (t *table) pack(ranked []contender) uint64 {
	var entry uint64
	for i, c := range ranked {
		entry |= uint64(c.index+1) << (uint(i) * uint(t.rankBits))
	}
	return entry
}
