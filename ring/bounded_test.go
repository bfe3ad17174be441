package ring_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/warmroute/warmroute/ring"
)

func bounded(tb testing.TB, members []ring.Member, l ring.LoadBound) *ring.Bounded {
	tb.Helper()
	b, err := mustNew(tb, members).Bound(l)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestBounded_OneHotKey(t *testing.T) {
	for _, c := range []struct {
		members, places int
		factor          float64
		want            int // most that any member may hold
	}{
		{4, 100, 1.25, 32}, // C39: ceil(1.25·100/4)
		{300, 60, 1.25, 1}, // C16: more members than places
		{10, 100, 1, 10},   // C42: all placed, 10 each
		{2, 20, 1.01, 11},  // C36
	} {
		b := bounded(t, fleet(c.members), ring.LoadBound{Factor: c.factor})
		used := 0
		for range c.places {
			if b.Acquire(99) < 0 {
				t.Fatalf("%+v: not placed", c)
			}
		}
		for i := range c.members {
			if got := b.InFlight(i); got > c.want {
				t.Errorf("%+v: member %d holds %d, want at most %d", c, i, got, c.want)
			} else if got > 0 {
				used++
			}
		}
		if c.want == 1 && used != c.places {
			t.Errorf("%+v: %d members used, want %d", c, used, c.places)
		}
		if b.Total() != c.places {
			t.Errorf("%+v: Total = %d", c, b.Total())
		}
	}
}

// A limit beyond what an integer holds is none.
func TestBounded_HugeBoundsBoundNothing(t *testing.T) {
	for _, l := range []ring.LoadBound{{Factor: math.MaxFloat64}, {Factor: 1e30}, {Gap: math.MaxFloat64}, {Gap: 1e30}} {
		b := bounded(t, fleet(3), l)
		home := b.Acquire(7)
		for range 100 {
			if got := b.Acquire(7); got != home {
				t.Fatalf("%+v: Acquire(7) = %d, want the home, %d", l, got, home)
			}
		}
	}
}

func TestBounded_GapKeepsNoiseAtHome(t *testing.T) {
	b := bounded(t, fleet(8), ring.LoadBound{Factor: 1.25, Gap: 4})
	home := mustNew(t, fleet(8)).Lookup(5)
	for k := range 4 {
		if got := b.Acquire(5); got != home {
			t.Errorf("request %d of one key went to %d, want home %d within the gap", k, got, home)
		}
	}
}

func TestBounded_WeightsShareTheBound(t *testing.T) {
	members := []ring.Member{{ID: "big", Weight: 3}, {ID: "off", Weight: 0}, {ID: "small", Weight: 1}}
	r := mustNew(t, members)
	for _, home := range []int{0, 2} {
		key := uint64(0)
		for r.Lookup(key) != home {
			key++
		}
		b := bounded(t, members, ring.LoadBound{Factor: 1})
		for range 40 {
			b.Acquire(key)
		}
		if b.InFlight(0) != 30 || b.InFlight(1) != 0 || b.InFlight(2) != 10 {
			t.Errorf("one key at home on %s: weights 3, 0, 1 hold %d, %d, %d of 40, want 30, 0, 10", members[home].ID, b.InFlight(0), b.InFlight(1), b.InFlight(2))
		}
	}
}

func TestBounded_GoesOnCountingOverTheNextRing(t *testing.T) {
	first := mustNew(t, fleet(4))
	old, err := first.Bound(ring.LoadBound{Factor: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		old.Acquire(1)
	}
	gone := first.Member(1)
	smaller, err := first.Without(gone.ID)
	if err != nil {
		t.Fatal(err)
	}
	now := old.Over(smaller)
	for i := range smaller.Len() {
		if got := now.InFlight(i); got != 10 {
			t.Errorf("member %d holds %d after the change, want 10", i, got)
		}
	}
	// Those that the departed holds count until they are released.
	for range 5 {
		now.Acquire(1)
	}
	if now.Total() != 45 || old.Total() != 45 {
		t.Errorf("Total = %d and %d, want 45", now.Total(), old.Total())
	}
	again := now.Over(first)
	if got := again.InFlight(1); got != 0 {
		t.Errorf("a member that came back holds %d, want 0", got)
	}
	for range 10 {
		if err := old.Release(1); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.Release(1); !errors.Is(err, ring.ErrInvalid) {
		t.Errorf("late Release too many = %v, want ErrInvalid", err)
	}
	if again.Total() != 35 || again.InFlight(1) != 0 || old.InFlight(1) != 0 {
		t.Errorf("after late releases: Total = %d, the member holds %d and %d, want 35, 0, 0", again.Total(), again.InFlight(1), old.InFlight(1))
	}
	for range 5 {
		if got := again.Acquire(1); got != 1 {
			t.Errorf("with 35 of 40 places full, Acquire = %d, want the member without load", got)
		}
	}
}

// C35: a bound that is a ratio only drives keys off home by the noise of small
// counts. Uniform keys over 8 members, with so many in flight a member on average.
func TestBounded_GapAgainstNoise(t *testing.T) {
	away := func(mean int, gap float64) float64 {
		r := mustNew(t, fleet(8))
		b, err := r.Bound(ring.LoadBound{Factor: 1.25, Gap: gap})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(35, 1))
		var flying []int
		left := 0
		const picks = 40_000
		for range picks {
			if len(flying) >= 8*mean {
				k := rng.IntN(len(flying))
				if err := b.Release(flying[k]); err != nil {
					t.Fatal(err)
				}
				flying[k] = flying[len(flying)-1]
				flying = flying[:len(flying)-1]
			}
			key := rng.Uint64()
			i := b.Acquire(key)
			if i != r.Lookup(key) {
				left++
			}
			flying = append(flying, i)
		}
		return float64(left) / picks
	}
	for _, c := range []struct {
		mean   int
		most   float64 // share that may leave home with a gap of 4
		strict float64 // share that leaves at least without one
	}{{2, 0.01, 0.20}, {5, 0.05, 0.12}, {10, 0.08, 0.09}, {50, 0.02, 0}} {
		with, without := away(c.mean, 4), away(c.mean, 0)
		t.Logf("mean %d: %.1f %% leave home with a gap of 4, %.1f %% without", c.mean, 100*with, 100*without)
		if with > c.most || without < c.strict {
			t.Errorf("mean %d: %.3f leave home with a gap of 4, want at most %.2f; %.3f without, want at least %.2f", c.mean, with, c.most, without, c.strict)
		}
	}
}

func TestBounded_ReleaseOfNothingChangesNothing(t *testing.T) {
	b := bounded(t, fleet(3), ring.LoadBound{})
	i := b.Acquire(1)
	for _, bad := range []int{-1, 3, (i + 1) % 3} {
		if err := b.Release(bad); !errors.Is(err, ring.ErrInvalid) {
			t.Errorf("Release(%d) = %v, want ErrInvalid", bad, err)
		}
	}
	if err := b.Release(i); err != nil || b.Total() != 0 {
		t.Errorf("Release(%d) = %v, Total = %d, want none", i, err, b.Total())
	}
	if err := b.Release(i); err == nil || b.Total() != 0 {
		t.Errorf("second Release(%d) = %v, Total = %d", i, err, b.Total())
	}
	for _, l := range []ring.LoadBound{{Factor: 0.5}, {Factor: math.NaN()}, {Factor: math.Inf(1)}, {Gap: -1}, {Gap: math.NaN()}} {
		if _, err := mustNew(t, fleet(1)).Bound(l); !errors.Is(err, ring.ErrInvalid) {
			t.Errorf("Bound(%+v) = %v, want ErrInvalid", l, err)
		}
	}
}

// Under concurrent picks nobody exceeds the bound that holds when all are
// placed, and every place is given back.
func TestBounded_ConcurrentPicksKeepTheBound(t *testing.T) {
	const members, routines, each = 16, 8, 200
	b := bounded(t, fleet(members), ring.LoadBound{Factor: 1.25})
	got := make([][]int, routines)
	var wg sync.WaitGroup
	for g := range routines {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(g)))
			for range each {
				got[g] = append(got[g], b.Acquire(rng.Uint64N(3)))
			}
		})
	}
	wg.Wait()
	const limit = 125 * routines * each / members / 100 // a whole number
	sum := 0
	for i := range members {
		if n := b.InFlight(i); n > limit {
			t.Errorf("member %d holds %d, want at most %d", i, n, limit)
		}
		sum += b.InFlight(i)
	}
	if sum != routines*each || b.Total() != sum {
		t.Errorf("members hold %d, total %d, want %d", sum, b.Total(), routines*each)
	}
	for g := range routines {
		wg.Go(func() {
			for k, i := range got[g] {
				if err := b.Release(i); err != nil {
					t.Error(err)
				}
				if k%2 == 0 {
					if err := b.Release(b.Acquire(uint64(k))); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	for i := range members {
		if n := b.InFlight(i); n != 0 {
			t.Errorf("member %d holds %d at the end", i, n)
		}
	}
	if b.Total() != 0 {
		t.Errorf("Total = %d at the end", b.Total())
	}
}
