package rivals

import "slices"

// blockIndex is what each engine is believed to cache: for each a set of blocks of
// limited size that forgets the one that was added longest ago.
//
// A block that any engine has gets a small number, so that the sets are arrays and
// a prompt costs one look into a map for each of its blocks.
type blockIndex struct {
	numbers map[uint64]int32
	blocks  []uint64  // by number
	holders [][]int32 // engines that have it, by number
	free    []int32   // numbers of blocks that nobody has any more
	sets    map[int]*blockSet
	counts  []int // scratch of matches, by engine
}

// blockSet is a doubly linked ring of blocks, newest first. Entry 0 is its
// sentinel; block n is entry n+1.
type blockSet struct {
	capacity, size int
	links          []link
}

type link struct{ next, prev int32 }

func (s *blockSet) push(number int32) {
	entry := number + 1
	for len(s.links) <= int(entry) {
		s.links = append(s.links, link{})
	}
	next := s.links[0].next
	s.links[entry] = link{next, 0}
	s.links[next].prev = entry
	s.links[0].next = entry
	s.size++
}

func (s *blockSet) remove(number int32) {
	l := s.links[number+1]
	s.links[l.prev].next = l.next
	s.links[l.next].prev = l.prev
	s.size--
}

func (s *blockSet) oldest() int32 { return s.links[0].prev - 1 }

// matches returns how many of the blocks each candidate has. The search ends with
// a block that nobody has; a block that one candidate lacks only makes its count
// shorter.
func (x *blockIndex) matches(blocks []uint64, candidates []*engine) map[*engine]int {
	clear(x.counts)
	for _, b := range blocks {
		n, ok := x.numbers[b]
		if !ok {
			break
		}
		for _, e := range x.holders[n] {
			x.counts[e]++
		}
	}
	matches := make(map[*engine]int, len(candidates))
	for _, e := range candidates {
		if e.number < len(x.counts) {
			matches[e] = x.counts[e.number]
		}
	}
	return matches
}

// add remembers blocks that were sent. The size of a set is the number of blocks
// that the engine says it has, 31,250 if it does not.
func (x *blockIndex) add(e *engine, blocks []uint64) {
	s := x.sets[e.number]
	if s == nil {
		s = &blockSet{capacity: 31_250, links: make([]link, 1)}
		if tokens := e.endpoint.KVCacheTokens; tokens > 0 {
			s.capacity = max(1, tokens/blockTokens)
		}
		if x.sets == nil {
			x.sets, x.numbers = make(map[int]*blockSet), make(map[uint64]int32)
		}
		x.sets[e.number] = s
		x.counts = append(x.counts, make([]int, max(0, e.number+1-len(x.counts)))...)
	}
	number := int32(e.number)
	for _, b := range blocks {
		n := x.number(b)
		if slices.Contains(x.holders[n], number) {
			s.remove(n)
		} else {
			x.holders[n] = append(x.holders[n], number)
			if s.size == s.capacity {
				x.evict(s, number)
			}
		}
		s.push(n)
	}
}

// number returns the number of a block, a new one if nobody has it.
func (x *blockIndex) number(block uint64) int32 {
	n, ok := x.numbers[block]
	switch {
	case ok:
		return n
	case len(x.free) > 0:
		n = x.free[len(x.free)-1]
		x.free = x.free[:len(x.free)-1]
		x.blocks[n] = block
	default:
		n = int32(len(x.blocks))
		x.blocks, x.holders = append(x.blocks, block), append(x.holders, nil)
	}
	x.numbers[block] = n
	return n
}

// evict drops the oldest block of an engine.
func (x *blockIndex) evict(s *blockSet, engine int32) {
	n := s.oldest()
	s.remove(n)
	i := slices.Index(x.holders[n], engine)
	x.holders[n] = slices.Delete(x.holders[n], i, i+1)
	if len(x.holders[n]) == 0 {
		delete(x.numbers, x.blocks[n])
		x.free = append(x.free, n)
	}
}
