package prefixindex_test

import (
	"math"
	"testing"

	"github.com/warmroute/warmroute/router/internal/prefixindex"
)

const second = int64(1e9)

// chain returns the blocks of a prompt that parts from the others of its family
// after the common ones.
func chain(common, own int, name uint64) []uint64 {
	var c []uint64
	for i := range common {
		c = append(c, uint64(i)+1)
	}
	for i := range own {
		c = append(c, name<<20|uint64(i))
	}
	return c
}

// fleet is an index of some endpoints with room for much.
type fleet struct {
	*prefixindex.Index
	slots []*prefixindex.Slot
	m     prefixindex.Match
}

func newFleet(n, capacity int) *fleet {
	f := &fleet{Index: prefixindex.New()}
	for range n {
		f.join(capacity)
	}
	return f
}

func (f *fleet) join(capacity int) *prefixindex.Slot {
	s := new(prefixindex.Slot)
	f.Join(s, capacity)
	f.slots = append(f.slots, s)
	return s
}

func (f *fleet) send(slot int, c []uint64, now int64) prefixindex.Pin {
	f.Match(&f.m, c, now)
	return f.Pin(&f.m, f.slots[slot], c, 0, now, true)
}

func (f *fleet) serve(slot int, c []uint64, now int64) { f.Unpin(f.send(slot, c, now), now) }

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// Requests that went on from a common prefix with blocks of their own are
// counted there, and fade by half a minute after minute.
func TestMatch_CountsBranches(t *testing.T) {
	f := newFleet(2, 1000)
	f.serve(0, chain(10, 0, 0), 0) // the prefix itself ends here
	for name := range uint64(4) {
		f.serve(0, chain(10, 5, name+1), 0)
	}
	f.serve(0, chain(10, 5, 1), 0) // once more: nothing is new
	for _, c := range []struct {
		name  string
		chain []uint64
		at    int64
		want  float64
	}{
		{"at the common end", chain(10, 5, 9), 0, 4},
		{"a minute later", chain(10, 5, 9), 60 * second, 2},
		{"half a minute later", chain(10, 5, 9), 30 * second, 3},
		{"three minutes later", chain(10, 5, 9), 180 * second, 0.5},
		{"an hour later", chain(10, 5, 9), 3600 * second, 0},
		{"a clock set back", chain(10, 5, 9), -60 * second, 4},
		{"at the end of one of them", append(chain(10, 5, 1), 7), 0, 0},
	} {
		f.Match(&f.m, c.chain, c.at)
		if !near(f.m.Branches, c.want) {
			t.Errorf("%s: Branches = %v, want %v", c.name, f.m.Branches, c.want)
		}
	}
	f.Match(&f.m, nil, 0)
	if !near(f.m.AllBranches, 5) { // the first one branched off nothing
		t.Errorf("AllBranches = %v, want 5", f.m.AllBranches)
	}
}

// What is counted fades from one count to the next, and not when the clock is set
// back.
func TestMatch_CountedBranchesFade(t *testing.T) {
	f := newFleet(1, 1000)
	f.serve(0, chain(10, 0, 0), 0)
	for i, at := range []int64{0, 60, 120, 60} {
		f.serve(0, chain(10, 5, uint64(i+1)), at*second)
	}
	f.Match(&f.m, chain(10, 5, 9), 120*second)
	// At 120 s there were 1/4 + 1/2 + 1; one more of a time before that came on top.
	if !near(f.m.Branches, (1.75+1)/2) {
		t.Errorf("Branches = %v, want 1.375", f.m.Branches)
	}
	if !near(f.m.AllBranches, 2.75+0.25) { // the first prompt counts, too
		t.Errorf("AllBranches = %v, want 3", f.m.AllBranches)
	}
}

// Where a path leaves the middle of what somebody holds there is one branch, as
// long as that is in use; from then on it fades.
func TestMatch_BranchInTheMiddleOfARun(t *testing.T) {
	f := newFleet(2, 1000)
	pin := f.send(0, chain(10, 10, 1), 0)
	branches := func(at int64) float64 {
		f.Match(&f.m, chain(10, 10, 2), at)
		if f.m.Deepest != 10 {
			t.Fatalf("Deepest = %d, want 10", f.m.Deepest)
		}
		return f.m.Branches
	}
	if got := branches(3600 * second); !near(got, 1) {
		t.Errorf("in use: Branches = %v, want 1", got)
	}
	f.Unpin(pin, 60*second)
	for _, c := range []struct {
		at   int64
		want float64
	}{{60 * second, 1}, {120 * second, 0.5}, {240 * second, 0.125}} {
		if got := branches(c.at); !near(got, c.want) {
			t.Errorf("%d s after its last use: Branches = %v, want %v", c.at/second-60, got, c.want)
		}
	}
}

// Who holds no more than the common part has not branched off.
func TestMatch_HoldersOfTheCommonPartAreNoBranch(t *testing.T) {
	f := newFleet(1, 20)
	f.serve(0, chain(10, 10, 1), 0)
	f.SetCapacity(f.slots[0], 12) // the end is gone, but for two blocks
	f.Match(&f.m, chain(12, 0, 0), 0)
	if f.m.Deepest != 10 || !near(f.m.Branches, 1) {
		t.Errorf("two blocks beyond: deepest %d, branches %v, want 10 and 1", f.m.Deepest, f.m.Branches)
	}
	f.SetCapacity(f.slots[0], 10)
	f.Match(&f.m, chain(10, 10, 2), 0)
	if f.m.Deepest != 10 || f.m.Branches != 0 {
		t.Errorf("nothing beyond: deepest %d, branches %v, want 10 and 0", f.m.Deepest, f.m.Branches)
	}

	f = newFleet(2, 20)
	f.serve(0, chain(10, 10, 1), 0)
	f.serve(1, chain(10, 10, 1), 60*second)
	f.SetCapacity(f.slots[1], 10) // its end is gone, the other one's is two minutes old
	f.Match(&f.m, chain(10, 10, 2), 120*second)
	if f.m.Deepest != 10 || !near(f.m.Branches, 0.25) {
		t.Errorf("one of two beyond: deepest %d, branches %v, want 10 and 0.25", f.m.Deepest, f.m.Branches)
	}
}

// The order of uses is that in which they happened, whatever the clock.
func TestUnpin_ClockSetBack(t *testing.T) {
	f := newFleet(1, 20)
	f.serve(0, chain(0, 10, 1), 100)
	f.serve(0, chain(0, 10, 2), 200)
	f.serve(0, chain(0, 10, 1), 50) // an hour back, and still after the first use
	pin := f.send(0, chain(0, 10, 1), 300)
	if pin.LastUse != 3 {
		t.Errorf("LastUse = %d, want the third use", pin.LastUse)
	}
	f.Unpin(pin, 300)
	if err := f.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

// What was used an hour ahead of a clock that was set back since does not count as
// recent for an hour, once it is used again.
func TestMatch_BranchAfterTheClockWasSetBack(t *testing.T) {
	f := newFleet(1, 1000)
	f.serve(0, chain(0, 10, 7), 3600*second)
	f.serve(0, chain(10, 10, 1), 10*second)
	f.Match(&f.m, chain(10, 10, 2), 130*second)
	if !near(f.m.Branches, 0.25) {
		t.Errorf("two minutes after its last use: Branches = %v, want 0.25", f.m.Branches)
	}
}

// A slot that was left names nobody, also when its position has a new owner.
func TestSlot_LeftTwice(t *testing.T) {
	f := newFleet(1, 20)
	old := f.slots[0]
	pin := f.send(0, chain(0, 5, 1), 1)
	f.Leave(old)
	f.slots[0] = f.join(30)
	f.serve(0, chain(0, 5, 2), 2)
	f.Leave(old)
	f.Forget(old)
	f.SetCapacity(old, 1)
	f.Disprove(old, 1<<60)
	f.Unpin(pin, 3)
	f.Match(&f.m, chain(0, 5, 2), 3)
	if late := f.Pin(&f.m, old, chain(0, 5, 2), 3, 3, false); late != (prefixindex.Pin{}) {
		t.Errorf("Pin on a slot that was left = %+v, want none", late)
	}
	if got, want := f.Usage(f.slots[0]), (prefixindex.Usage{Capacity: 30, Blocks: 5}); got != want {
		t.Errorf("usage of the new owner = %+v, want %+v", got, want)
	}
	if got := f.m.Depth(f.slots[0]); got != 5 {
		t.Errorf("depth of the new owner = %d, want 5", got)
	}
	if got := f.Usage(old); got != (prefixindex.Usage{}) || f.m.Depth(old) != 0 {
		t.Errorf("usage of the old owner = %+v, want none", got)
	}
	if err := f.CheckInvariants(); err != nil {
		t.Error(err)
	}
}
