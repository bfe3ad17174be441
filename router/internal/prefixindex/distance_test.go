package prefixindex_test

import (
	"math/rand/v2"
	"testing"

	"github.com/warmroute/warmroute/router/internal/prefixindex"
)

// Distance and Resident against a count of every block's last use and of the
// requests that use it.
func TestIndex_Distance(t *testing.T) {
	for history := range uint64(5) {
		checkDistances(t, rand.New(rand.NewPCG(*seed, history)))
	}
}

func checkDistances(t *testing.T, rng *rand.Rand) {
	f := newFleet(1, 1<<20)
	prompts := prompts{rng: rng}
	type use struct {
		pin    prefixindex.Pin
		chain  []uint64
		own    int
		before map[uint64]bool // in use when it was sent, and since
	}
	var flying []use
	last, active := map[uint64]int64{}, map[uint64]int{}
	own := 0
	for now := int64(1); now < 600; now++ {
		if len(flying) > 0 && rng.IntN(2) == 0 {
			k := rng.IntN(len(flying))
			u := flying[k]
			if got := f.Resident(&u.pin); got > len(u.before) {
				t.Fatalf("at %d: Resident = %d, want at most %d", now, got, len(u.before))
			}
			flying = append(flying[:k], flying[k+1:]...)
			f.Unpin(u.pin, now)
			own -= u.own
			for _, b := range u.chain {
				last[b] = now
				if active[b]--; active[b] == 0 {
					for _, other := range flying {
						delete(other.before, b)
					}
				}
			}
			continue
		}
		chain := prompts.next()
		if len(chain) == 0 {
			continue
		}
		depth, want := 0, 0
		for depth < len(chain) && (last[chain[depth]] > 0 || active[chain[depth]] > 0) {
			depth++
		}
		if depth > 0 && active[chain[depth-1]] == 0 {
			want = own
			for b, at := range last {
				if active[b] == 0 && at >= last[chain[depth-1]] {
					want++
				}
			}
			for _, n := range active {
				want += min(n, 1)
			}
		}
		u := use{chain: chain, own: rng.IntN(3), before: map[uint64]bool{}}
		f.Match(&f.m, chain, now)
		u.pin = f.Pin(&f.m, f.slots[0], chain, u.own, now, false)
		if got := f.Distance(&u.pin); got != want {
			t.Fatalf("seed %d at %d: Distance = %d, want %d", *seed, now, got, want)
		}
		own += u.own
		for _, b := range chain {
			active[b]++
		}
		for b, n := range active {
			if n > 0 {
				u.before[b] = true
			}
		}
		if got := f.Resident(&u.pin); got != len(u.before) {
			t.Fatalf("seed %d at %d: Resident = %d at once, want %d", *seed, now, got, len(u.before))
		}
		flying = append(flying, u)
	}
}

// What was in use lately has too much behind it to be worth measuring.
func TestIndex_DistanceOfWhatIsNear(t *testing.T) {
	f := newFleet(1, 1<<20)
	const prompts = 1200
	for name := range uint64(prompts) {
		f.serve(0, chain(0, 2, name+1), int64(name)+1)
	}
	for _, c := range []struct {
		name uint64
		want int
	}{{1, 2 * prompts}, {1001, 2 * (prompts - 1000)}, {prompts, 0}} {
		pin := f.send(0, chain(0, 2, c.name), prompts+1)
		if got := f.Distance(&pin); got != c.want {
			t.Errorf("prompt %d of %d: Distance = %d, want %d", c.name, prompts, got, c.want)
		}
		f.Withdraw(pin)
	}
}
