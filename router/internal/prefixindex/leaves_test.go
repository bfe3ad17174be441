package prefixindex_test

import "testing"

// A leaf that goes need not be the oldest: its request was withdrawn, and something
// older became a leaf before that. The others keep their order.
func TestWithdraw_OfALeafThatIsNotTheOldest(t *testing.T) {
	f := newFleet(2, 100)
	run, older := chain(0, 4, 1), chain(0, 1, 2)
	now, name := int64(0), uint64(10)
	serve := func(slot int, c []uint64) {
		now++
		f.serve(slot, c, now)
	}
	others := func() {
		for range 20 {
			name++
			serve(0, chain(0, 1, name))
		}
	}
	serve(1, run) // keeps all of the run
	serve(0, older)
	serve(0, run)
	behind := f.send(0, append(older, 7), now)
	f.SetCapacity(f.slots[0], 4) // half of the run goes
	f.SetCapacity(f.slots[0], 100)
	others()
	again := f.send(0, run, now)                 // what went is to be computed again
	half := f.send(0, append(run[:2:2], 8), now) // so that it is a leaf of its own
	f.Withdraw(behind)                           // older is a leaf now
	others()
	f.Withdraw(again)
	if err := f.CheckInvariants(); err != nil {
		t.Error(err)
	}
	if f.Match(&f.m, run, now); f.m.Depth(f.slots[0]) != 2 {
		t.Errorf("depth = %d, want 2", f.m.Depth(f.slots[0]))
	}
	f.Unpin(half, now)
	f.SetCapacity(f.slots[0], 43) // for all but one of the blocks
	if f.Match(&f.m, older, now); f.m.Depth(f.slots[0]) != 0 {
		t.Error("the oldest leaf was not the first to go")
	}
}
