package ring

import "iter"

// Jump returns the bucket of the key among n, from 0 to n-1, or -1 if n is not
// positive. From n to n+1 buckets a key stays or moves to the new one.
//
// It is jump consistent hash (Lamping and Veach, "A fast, minimal memory,
// consistent hash algorithm", arXiv:1406.2294) and gives the buckets that
// github.com/dgryski/go-jump gives. Floating point is exact here: there is one
// division and one multiplication, which IEEE 754 rounds alike everywhere, and no
// sum that a compiler could fuse. Keys need not be mixed.
func Jump(key uint64, n int) int {
	bucket, next := int64(-1), int64(0)
	for next < int64(n) {
		bucket = next
		key = key*2862933555777941757 + 1
		next = int64(float64(bucket+1) * (float64(1<<31) / float64(key>>33+1)))
	}
	return int(bucket)
}

// Ordinals is a fleet of so many members, numbered from 0, that grows and shrinks
// at its end, such as the pods of a StatefulSet. Keys are placed by [Jump], at
// some 60 ns a lookup and without any table. Members have equal weight. If one in
// the middle can be missing, skip it in the walk, or use a [Ring].
//
// A number below 1 is an empty fleet.
type Ordinals int

// Len returns the number of members.
func (o Ordinals) Len() int { return max(int(o), 0) }

// Lookup returns the key's home, [Jump] of the key, or -1 if the fleet is empty.
func (o Ordinals) Lookup(key uint64) int { return Jump(key, int(o)) }

// Walk returns all members in the key's order of preference, each once. The first
// is the [Ordinals.Lookup] of the key; the others are drawn by re-hashing it. A
// member that joins takes places in the order of a draw, and the draws that did
// not fall to it stay as they were.
func (o Ordinals) Walk(key uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		if o <= 0 {
			return
		}
		home := o.Lookup(key)
		if yield(home) && o > 1 {
			o.walkOn(key, home, yield)
		}
	}
}

// AppendWalk appends the first max members of [Ordinals.Walk] to dst and returns
// the extended slice; a max of 0 or less appends none. If dst has room and the
// fleet no more than 4,096 members, it does not allocate.
func (o Ordinals) AppendWalk(dst []int, key uint64, max int) []int {
	if max <= 0 {
		return dst
	}
	for i := range o.Walk(key) {
		dst = append(dst, i)
		max--
		if max == 0 {
			break
		}
	}
	return dst
}

func (o Ordinals) walkOn(key uint64, home int, yield func(int) bool) {
	var few [markedFew]uint64
	marked := newMarks(few[:], int(o))
	marked.add(home)
	left := int(o) - 1
	visit := func(i int) (more bool) {
		if !marked.add(i) {
			return true
		}
		left--
		return yield(i) && left > 0
	}
	seed := mix(key)
	for draw := range uint64(2 * o) {
		if !visit(Jump(mix(seed+draw), int(o))) {
			return
		}
	}
	start := int(seed % uint64(o))
	for i := range int(o) {
		if !visit((start + i) % int(o)) {
			return
		}
	}
}
