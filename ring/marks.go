package ring

// marks is a set of positions.
type marks []uint64

// markedFew is the length of a buffer for the marks of 4,096 members, small
// enough to live on the stack of a walk.
const markedFew = 4096 / 64

// newMarks returns an empty set of positions below n, in the empty buffer few
// if that is large enough.
func newMarks(few []uint64, n int) marks {
	if n <= len(few)*64 {
		return few
	}
	return make(marks, (n+63)/64)
}

// add adds i and reports whether it was not in the set before.
func (m marks) add(i int) bool {
	bit := uint64(1) << (i & 63)
	added := m[i>>6]&bit == 0
	m[i>>6] |= bit
	return added
}
