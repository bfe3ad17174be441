package prefixindex_test

import (
	"testing"

	"github.com/warmroute/warmroute/router/internal/prefixindex"
)

// What requests need for themselves adds up to no more than the greatest capacity.
func TestPin_OwnOfAllIsBounded(t *testing.T) {
	const most = 1 << 30
	f := newFleet(1, 20)
	var pins []prefixindex.Pin
	for i := range uint64(4) {
		c := chain(0, 5, i+1)
		f.Match(&f.m, c, 1)
		pins = append(pins, f.Pin(&f.m, f.slots[0], c, most, 1, false))
	}
	if got, want := f.Usage(f.slots[0]), (prefixindex.Usage{Capacity: 20, Blocks: 20, Pinned: 20, Own: most}); got != want {
		t.Errorf("usage = %+v, want %+v", got, want)
	}
	if _, _, used := f.slots[0].Size(); used != 20+most {
		t.Errorf("used = %d, want %d", used, 20+most)
	}
	for _, p := range pins {
		f.Unpin(p, 2)
	}
	if got := f.Usage(f.slots[0]); got.Own != 0 || got.Pinned != 0 {
		t.Errorf("usage at the end = %+v", got)
	}
	if err := f.CheckInvariants(); err != nil {
		t.Error(err)
	}
}
