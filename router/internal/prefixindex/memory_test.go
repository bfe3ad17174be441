package prefixindex_test

import (
	"math/rand/v2"
	"testing"

	"github.com/warmroute/warmroute/router/internal/prefixindex"
)

// An index at capacity allocates nothing, whatever comes and goes.
func TestIndex_AllocatesNothingAtCapacity(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	f := newFleet(5, 200) // one of which gets nothing
	system := chain(40, 0, 0)
	prompt := make([]uint64, 0, 100)
	now := int64(0)
	request := func() {
		now++
		prompt = append(prompt[:0], system[:rng.IntN(len(system)+1)]...)
		for range 1 + rng.IntN(20) {
			prompt = append(prompt, rng.Uint64())
		}
		pin := f.send(rng.IntN(4), prompt, now)
		if rng.IntN(4) == 0 {
			f.Withdraw(pin)
		} else {
			f.Unpin(pin, now)
		}
	}
	for range 20_000 {
		request()
	}
	if got := testing.AllocsPerRun(20, func() {
		for range 1000 {
			request()
		}
	}); got > 10 { // the table of nodes makes room for itself now and then
		t.Errorf("%v allocations per 1,000 requests", got)
	}
}

// Nodes that many endpoints held are used again for prompts that one holds. With one
// popular prompt after the other, each would have room for the whole fleet in the end.
func TestIndex_PopularPromptsLeaveNoMemoryBehind(t *testing.T) {
	f := newFleet(100, 20)
	for i := range f.slots {
		f.serve(i, chain(5, 5, uint64(i+1)), 1)
	}
	for i := range f.slots {
		f.Forget(f.slots[i])
	}
	if got := f.SpareHolders(); got > 8 {
		t.Errorf("a node keeps memory for %d holders", got)
	}
}

// Endpoints that come take the positions of those that left.
func TestIndex_PositionsAreUsedAgain(t *testing.T) {
	f := newFleet(3, 20)
	for range 10 {
		for i, s := range f.slots[:3] {
			f.Leave(s)
			f.slots[i] = new(prefixindex.Slot)
			f.Join(f.slots[i], 20)
		}
	}
	if got := f.Positions(); got != 3 {
		t.Errorf("%d positions for three endpoints", got)
	}
}

// The end of a run that an endpoint took with it goes as soon as somebody looks there.
func TestForget_EndOfARunThatNobodyHolds(t *testing.T) {
	f := newFleet(2, 20)
	f.serve(0, chain(5, 0, 0), 1)
	f.serve(1, chain(5, 0, 0), 2)
	f.SetCapacity(f.slots[1], 3)
	f.SetCapacity(f.slots[1], 20)
	f.Forget(f.slots[0])
	f.serve(1, chain(3, 0, 0), 3)
	if err := f.CheckInvariants(); err != nil {
		t.Error(err)
	}
	f.serve(1, chain(5, 0, 0), 4)
	if f.Match(&f.m, chain(5, 0, 0), 5); f.m.Depth(f.slots[1]) != 5 {
		t.Errorf("depth = %d, want 5", f.m.Depth(f.slots[1]))
	}
}
