package prefixindex_test

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmroute/warmroute/router/internal/prefixindex"
)

var seed = flag.Uint64("seed", 1, "seed of the random histories, to replay one that failed")

// model is the plainest thing that behaves like an engine's block cache: block
// by block, with searches in place of lists.
type model struct {
	capacity int
	own      int // blocks that requests need for themselves
	blocks   map[uint64]*block
}

type block struct {
	parent       *block
	kids, active int
	computed     bool
	used         int64
}

func (m *model) depth(chain []uint64) int {
	for i, b := range chain {
		if m.blocks[b] == nil {
			return i
		}
	}
	return len(chain)
}

// lastUse is the last use of the part of the chain that is held, zero if it goes on.
func (m *model) lastUse(chain []uint64) int64 {
	if held := m.depth(chain); held > 0 && m.blocks[chain[held-1]].active == 0 {
		return m.blocks[chain[held-1]].used
	}
	return 0
}

func (m *model) evictOne() bool {
	var oldest uint64
	for hash, b := range m.blocks {
		if b.kids > 0 || b.active > 0 {
			continue
		}
		if o := m.blocks[oldest]; o == nil || b.used < o.used {
			oldest = hash
		}
	}
	b := m.blocks[oldest]
	if b == nil {
		return false
	}
	if b.parent != nil {
		b.parent.kids--
	}
	delete(m.blocks, oldest)
	return true
}

func (m *model) shrinkTo(n int) {
	for len(m.blocks) > max(0, n) && m.evictOne() {
	}
}

// pin returns the blocks that the request uses.
func (m *model) pin(chain []uint64, own int) []*block {
	m.own += own
	var used []*block
	var last *block
	held := m.depth(chain)
	for _, hash := range chain[:held] {
		last = m.blocks[hash]
		last.active++
		used = append(used, last)
	}
	m.shrinkTo(m.capacity - m.own - (len(chain) - held))
	for _, hash := range chain[held:] {
		b := &block{parent: last, active: 1}
		if last != nil {
			last.kids++
		}
		m.blocks[hash] = b
		last = b
		used = append(used, b)
	}
	return used
}

func (m *model) unpin(used []*block, own int, use int64) {
	m.own -= own
	for _, b := range used {
		b.active--
		b.used = use
		b.computed = true
	}
	m.shrinkTo(m.capacity - m.own)
}

func (m *model) withdraw(used []*block, chain []uint64, own int) {
	m.own -= own
	for _, b := range used {
		b.active--
	}
	for i := len(chain) - 1; i >= 0; i-- {
		b := used[i]
		if b.kids > 0 || b.active > 0 || b.computed {
			break
		}
		if b.parent != nil {
			b.parent.kids--
		}
		delete(m.blocks, chain[i])
	}
	m.shrinkTo(m.capacity - m.own)
}

func (m *model) disprove(lastUse int64) {
	for {
		gone := false
		for hash, b := range m.blocks {
			if b.kids == 0 && b.active == 0 && b.used <= lastUse {
				if b.parent != nil {
					b.parent.kids--
				}
				delete(m.blocks, hash)
				gone = true
			}
		}
		if !gone {
			return
		}
	}
}

// prompts makes random chains that share prefixes, as conversations do.
type prompts struct {
	rng  *rand.Rand
	made [][]uint64
}

func (p *prompts) next() []uint64 {
	var chain []uint64
	if len(p.made) > 0 && p.rng.IntN(8) > 0 {
		from := p.made[p.rng.IntN(len(p.made))]
		chain = append(chain, from[:p.rng.IntN(len(from)+1)]...)
		if p.rng.IntN(3) > 0 {
			chain = append(chain[:0], from...)
		}
	}
	for range p.rng.IntN(6) {
		chain = append(chain, p.rng.Uint64())
	}
	if len(chain) > 0 {
		p.made = append(p.made, chain)
	}
	if len(p.made) > 60 {
		p.made = p.made[20:]
	}
	return chain
}

func TestIndex_BehavesLikeABlockCache(t *testing.T) {
	const slots = 5
	for history := range uint64(20) {
		rng := rand.New(rand.NewPCG(*seed, history))
		x := prefixindex.New()
		prompts := prompts{rng: rng}
		type live struct {
			slot int
			pin  prefixindex.Pin
			used []*block
			own  int
			gen  int

			chain []uint64
		}
		var models [slots]*model
		var slot [slots]*prefixindex.Slot
		var gen [slots]int
		for i := range models {
			models[i] = &model{capacity: 10 + rng.IntN(60), blocks: map[uint64]*block{}}
			slot[i] = new(prefixindex.Slot)
			x.Join(slot[i], models[i].capacity)
		}
		lose := func(i int) {
			gen[i]++
			models[i].own = 0
			clear(models[i].blocks)
		}
		forget := func(i int) {
			x.Forget(slot[i])
			lose(i)
		}
		replace := func(i int) {
			x.Leave(slot[i])
			slot[i] = new(prefixindex.Slot)
			x.Join(slot[i], models[i].capacity)
			lose(i)
		}
		var flying []live
		uses := int64(0)
		var m prefixindex.Match
		calm := history%2 == 1 // few are in flight, so that most of what is evicted was used again
		for step := range 3000 {
			now := int64(step + 1)
			op := rng.IntN(100)
			if calm && len(flying) > 2 {
				op = 50
			}
			switch {
			case op < 50:
				chain := prompts.next()
				x.Match(&m, chain, now)
				for i := range slot {
					if got, want := m.Depth(slot[i]), models[i].depth(chain); got != want {
						t.Fatalf("seed %d/%d step %d: depth on %d = %d, want %d", *seed, history, step, i, got, want)
					}
				}
				i := rng.IntN(slots)
				pin := func(m *prefixindex.Match, i int, chain []uint64) {
					own := rng.IntN(3)
					var want prefixindex.Pin
					if len(chain) > 0 {
						want.LastUse, want.Held = models[i].lastUse(chain), int32(len(models[i].blocks)+models[i].own)
					}
					pin := x.Pin(m, slot[i], chain, own, now, rng.IntN(2) == 0)
					if pin.LastUse != want.LastUse || pin.Held != want.Held {
						t.Fatalf("seed %d/%d step %d: Pin on %d = %+v, want %+v", *seed, history, step, i, pin, want)
					}
					if len(chain) > 0 {
						flying = append(flying, live{i, pin, models[i].pin(chain, own), own, gen[i], chain})
					}
				}
				switch rng.IntN(20) { // what makes the match out of date
				case 0, 1, 2, 3, 4:
					other := slices.Clone(chain[:rng.IntN(len(chain)+1)])
					for range rng.IntN(4) {
						other = append(other, rng.Uint64())
					}
					var m prefixindex.Match
					x.Match(&m, other, now)
					pin(&m, rng.IntN(slots), other)
				case 5, 6, 7, 8, 9:
					m := models[i]
					x.SetCapacity(slot[i], m.capacity/2)
					m.shrinkTo(m.capacity/2 - m.own)
					x.SetCapacity(slot[i], m.capacity)
				case 10:
					forget(i)
				case 11:
					replace(i)
				}
				pin(&m, i, chain)
			case op < 95:
				if len(flying) == 0 {
					continue
				}
				k := rng.IntN(len(flying))
				f := flying[k]
				flying = slices.Delete(flying, k, k+1)
				withdraw := rng.IntN(4) == 0
				if withdraw {
					x.Withdraw(f.pin)
				} else {
					x.Unpin(f.pin, now)
				}
				switch m := models[f.slot]; {
				case f.gen != gen[f.slot]:
				case withdraw:
					m.withdraw(f.used, f.chain, f.own)
				default:
					uses++
					m.unpin(f.used, f.own, uses)
				}
			case op < 97:
				i := rng.IntN(slots)
				models[i].capacity = 10 + rng.IntN(60)
				x.SetCapacity(slot[i], models[i].capacity)
				models[i].shrinkTo(models[i].capacity - models[i].own)
			case op < 98:
				i := rng.IntN(slots)
				lastUse := uses - int64(rng.IntN(150))
				if len(flying) > 0 && flying[0].pin.LastUse > 0 {
					lastUse = flying[0].pin.LastUse
				}
				models[i].disprove(lastUse)
				x.Disprove(slot[i], lastUse)
			case op < 99:
				forget(rng.IntN(slots))
			default:
				replace(rng.IntN(slots))
			}
			if err := x.CheckInvariants(); err != nil {
				t.Fatalf("seed %d/%d step %d: %v", *seed, history, step, err)
			}
			for i := range slot {
				pinned := 0
				for _, b := range models[i].blocks {
					pinned += min(1, b.active)
				}
				u := x.Usage(slot[i])
				if c := cmp.Compare(int(u.Pinned), pinned); c != 0 || int(u.Blocks) != len(models[i].blocks) {
					t.Fatalf("seed %d/%d step %d: usage of %d = %+v, want %d blocks, %d pinned", *seed, history, step, i, u, len(models[i].blocks), pinned)
				}
				if c, held, used := slot[i].Size(); c != models[i].capacity || held != len(models[i].blocks) || used != pinned+models[i].own {
					t.Fatalf("seed %d/%d step %d: size of %d = %d, %d, %d, usage %+v", *seed, history, step, i, c, held, used, u)
				}
			}
		}
	}
}
