package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/engine"
)

// pair runs an engine and the reference side by side, and checks the laws that
// hold for every history.
type pair struct {
	t         testing.TB
	cfg       engine.Config
	engine    *engine.Engine
	reference *reference
	now       time.Duration
	requests  map[int64]engine.Request
	last      map[int64]engine.Kind // latest event of each request
	cancelled map[int64]bool
	queue     []int64 // submitted, neither admitted nor cancelled
}

func newPair(t testing.TB, c engine.Config) *pair {
	t.Helper()
	e, err := engine.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &pair{
		t: t, cfg: c.WithDefaults(), engine: e, reference: newReference(c),
		requests: map[int64]engine.Request{}, last: map[int64]engine.Kind{}, cancelled: map[int64]bool{},
	}
}

func (p *pair) submit(r engine.Request) {
	if err := p.engine.Submit(p.now, r); err != nil {
		p.t.Fatalf("Submit(%+v) = %v", r, err)
	}
	p.reference.submit(p.now, r)
	p.requests[r.ID] = r
	p.queue = append(p.queue, r.ID)
	p.check()
}

func (p *pair) cancel(id int64) {
	got, want := p.engine.Cancel(p.now, id), p.reference.cancel(id)
	if got != want {
		p.t.Fatalf("Cancel(%d) = %v, want %v", id, got, want)
	}
	if got {
		p.cancelled[id] = true
	}
	p.check()
}

// step runs one iteration to its end, if there is one.
func (p *pair) step() bool {
	at, busy := p.engine.Next()
	if !busy {
		return false
	}
	p.now = at
	got := p.engine.Step(at, nil)
	if want := p.reference.step(nil); !slices.Equal(got, want) {
		p.t.Fatalf("Step(%v) =\n%v, want\n%v", at, got, want)
	}
	for _, ev := range got {
		p.see(ev)
	}
	p.check()
	return true
}

func (p *pair) see(ev engine.Event) {
	r, last := p.requests[ev.ID], p.last[ev.ID]
	_, seen := p.last[ev.ID]
	switch {
	case !seen && ev.Kind != engine.Admitted, seen && ev.Kind <= last && ev.Kind != engine.Token, last == engine.Done:
		p.t.Fatalf("request %d: %v after %v", ev.ID, ev.Kind, last)
	case ev.CachedTokens >= r.PromptTokens || ev.CachedTokens%p.cfg.BlockTokens != 0:
		p.t.Fatalf("request %d: %d of %d prompt tokens cached in blocks of %d", ev.ID, ev.CachedTokens, r.PromptTokens, p.cfg.BlockTokens)
	}
	if ev.Kind == engine.Admitted {
		// First come, first served, passing over those that were cancelled.
		for p.queue[0] != ev.ID {
			if !p.cancelled[p.queue[0]] {
				p.t.Fatalf("request %d was admitted before %d", ev.ID, p.queue[0])
			}
			p.queue = p.queue[1:]
		}
		p.queue = p.queue[1:]
	}
	p.last[ev.ID] = ev.Kind
}

func (p *pair) check() {
	if err := p.engine.Check(); err != nil {
		p.t.Fatal(err)
	}
	got, want := p.engine.Stats(), p.reference.state()
	if got != want {
		p.t.Fatalf("Stats() =\n%+v, want\n%+v", got, want)
	}
	if got.HeldTokens+got.IdleTokens > got.KVTokens || got.KVUsage > 1 {
		p.t.Fatalf("Stats() = %+v, more than there is", got)
	}
	at, busy := p.engine.Next()
	if busy != p.reference.busy || busy && at != p.reference.end {
		p.t.Fatalf("Next() = %v, %v, want %v, %v", at, busy, p.reference.end, p.reference.busy)
	}
}

// finish runs the engine dry and checks that everything came to its end.
func (p *pair) finish() {
	for p.step() {
	}
	for id := range p.requests {
		if p.last[id] != engine.Done && !p.cancelled[id] {
			p.t.Errorf("request %d ended with %v", id, p.last[id])
		}
	}
	if s := p.engine.Stats(); s.Running+s.Waiting+s.HeldTokens != 0 {
		p.t.Errorf("Stats() after the end = %+v, want nothing held", s)
	}
	for id, r := range p.requests {
		want := p.reference.hit(r.Blocks) * p.cfg.BlockTokens
		if got := p.engine.Cached(r.Blocks); got != want {
			p.t.Errorf("Cached(request %d) = %d, want %d", id, got, want)
		}
	}
}

// chained makes up the blocks of a prompt: those of a prompt so far, kept up
// to a point, and fresh ones from salt.
func chained(old []uint64, keep, total int, salt uint64) []uint64 {
	blocks := slices.Clone(old[:min(keep, len(old), total)])
	h := salt
	for len(blocks) < total {
		h = h*0x9e3779b97f4a7c15 + 1
		blocks = append(blocks, h)
	}
	return blocks
}

func TestEngine_AgreesWithReference(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			block := 1 + rng.IntN(4)
			p := newPair(t, engine.Config{
				KVTokens:    block * (8 + rng.IntN(150)),
				BlockTokens: block,
				BatchTokens: 1 + rng.IntN(60),
				MaxRunning:  1 + rng.IntN(8),
			})
			var prompts [][]uint64
			for id := range int64(120) {
				switch op := rng.IntN(10); {
				case op < 5:
					output := 1 + rng.IntN(min(10, p.cfg.KVTokens/2))
					prompt := 1 + rng.IntN(min(60*block, p.cfg.KVTokens-output))
					var old []uint64
					if len(prompts) > 0 {
						old = prompts[rng.IntN(len(prompts))]
					}
					blocks := chained(old, rng.IntN(len(old)+1), rng.IntN((prompt+output)/block+1), rng.Uint64())
					prompts = append(prompts, blocks)
					p.submit(engine.Request{ID: id, Blocks: blocks, PromptTokens: prompt, OutputTokens: output, Stream: rng.IntN(2) == 0})
				case op < 6:
					p.cancel(rng.Int64N(id + 1))
				default:
					for range 1 + rng.IntN(6) {
						p.step()
					}
				}
			}
			p.finish()
		})
	}
}
