package router_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

var seed = flag.Uint64("seed", 1, "seed of the random histories, to replay one that failed")

// history is a random life of a pool, with what should be true of it.
type history struct {
	t         *testing.T
	rng       *rand.Rand
	pool      *router.Pool
	now       time.Time
	endpoints []router.Endpoint
	prompts   []tokenprefix.Signature
	live      []*router.Decision
	remote    map[uint64]string // announced by another pool, by ID: the endpoint
	remoteID  uint64
	count     map[string]int // live decisions by endpoint, all generations
}

func newHistory(t *testing.T, seed, number uint64) *history {
	rng := rand.New(rand.NewPCG(seed, number))
	policies := []balancer.Policy{nil, balancer.RoundRobin{}, balancer.LeastLoad{}, balancer.PowerOfTwo{}, balancer.BoundedLoad{}}
	h := &history{
		t: t, rng: rng, now: time.Unix(1_000_000, 0),
		remote: map[uint64]string{}, count: map[string]int{},
	}
	c := router.Config{
		Policy: policies[rng.IntN(len(policies))],
		Bound:  []balancer.Bound{{}, {Factor: 1.25}, {Factor: 1.25, Gap: 4}, {Factor: -1}}[rng.IntN(4)],
		Seed:   seed, KVCacheTokens: 20_000,
	}
	if rng.IntN(2) == 0 {
		c.MaxInFlight = 6
	}
	pool, err := router.New(c)
	if err != nil {
		t.Fatal(err)
	}
	h.pool = pool
	return h
}

func (h *history) prompt() *tokenprefix.Signature {
	if len(h.prompts) > 30 {
		h.prompts = h.prompts[10:]
	}
	if len(h.prompts) > 0 && h.rng.IntN(3) > 0 {
		old := &h.prompts[h.rng.IntN(len(h.prompts))]
		if h.rng.IntN(3) == 0 {
			return old // the same again
		}
		next := signature(h.rng, old.Blocks[:h.rng.IntN(len(old.Blocks)+1)], 1+h.rng.IntN(5))
		h.prompts = append(h.prompts, next)
		return &h.prompts[len(h.prompts)-1]
	}
	h.prompts = append(h.prompts, signature(h.rng, nil, h.rng.IntN(30)))
	return &h.prompts[len(h.prompts)-1]
}

// signature makes a prompt of the given beginning and more new blocks.
func signature(rng *rand.Rand, beginning []uint64, more int) tokenprefix.Signature {
	s := tokenprefix.Signature{Blocks: slices.Clone(beginning), BlockTokens: 256, Tail: rng.Uint64() | 1}
	for range more {
		s.Blocks = append(s.Blocks, rng.Uint64())
	}
	s.Tokens = len(s.Blocks)*256 + rng.IntN(256)
	return s
}

func (h *history) request() router.Request {
	r := router.Request{At: h.now, MaxOutputTokens: h.rng.IntN(1000)}
	switch h.rng.IntN(8) {
	case 0:
	case 1:
		r.Key = fmt.Sprint("session ", h.rng.IntN(5))
	default:
		r.Prefix = h.prompt()
		if h.rng.IntN(8) == 0 {
			r.Key = "with prefix"
		}
	}
	if len(h.endpoints) > 0 && h.rng.IntN(6) == 0 {
		r.Exclude = []string{h.endpoints[h.rng.IntN(len(h.endpoints))].ID, "unknown"}
	}
	if h.rng.IntN(6) == 0 {
		r.Eligible = func(e *router.Endpoint) bool { return e.ID != "e1" }
	}
	return r
}

func (h *history) pick() {
	r := h.request()
	d, err := h.pool.Pick(r)
	if err != nil {
		if !errors.Is(err, router.ErrNoEndpoints) && !errors.Is(err, router.ErrSaturated) && !errors.Is(err, router.ErrRetryBudget) {
			h.t.Fatalf("Pick: %v", err)
		}
		return
	}
	e := h.find(d.Endpoint.ID)
	switch {
	case e == nil || e.Weight == 0:
		h.t.Fatalf("picked %s, which is draining or gone", d.Endpoint.ID)
	case slices.Contains(r.Exclude, d.Endpoint.ID):
		h.t.Fatalf("picked %s, which was excluded", d.Endpoint.ID)
	case r.Eligible != nil && !r.Eligible(&d.Endpoint):
		h.t.Fatalf("picked %s, which is not eligible", d.Endpoint.ID)
	case d.InFlight >= d.Limit:
		h.t.Fatalf("picked %s with %d in flight, limit %d", d.Endpoint.ID, d.InFlight, d.Limit)
	case d.CachedTokens > d.PromptTokens || d.CachedTokens > d.BestCachedTokens:
		h.t.Fatalf("decision %v", d)
	}
	h.live = append(h.live, d)
	h.count[d.Endpoint.ID]++
}

func (h *history) find(id string) *router.Endpoint {
	for i := range h.endpoints {
		if h.endpoints[i].ID == id {
			return &h.endpoints[i]
		}
	}
	return nil
}

var outcomes = []router.Outcome{
	{}, {}, {}, {StatusCode: 200, CachedTokens: loadstats.Known(0)}, {StatusCode: 200, CachedTokens: loadstats.Known(5000)},
	{Abandoned: true}, {Err: errors.New("dial")}, {StatusCode: 500}, {StatusCode: 502}, {StatusCode: 503},
	{StatusCode: 503, RetryAfter: time.Second}, {StatusCode: 429}, {StatusCode: 400},
}

func (h *history) release() {
	if len(h.live) == 0 {
		return
	}
	k := h.rng.IntN(len(h.live))
	d := h.live[k]
	if h.rng.IntN(2) == 0 {
		d.FirstTokenAt(h.now)
	}
	o := outcomes[h.rng.IntN(len(outcomes))]
	if !d.ReleaseAt(h.now, o) {
		h.t.Fatalf("first release of %v did nothing", d)
	}
	if d.ReleaseAt(h.now, o) {
		h.t.Fatalf("second release of %v did something", d)
	}
	d.FirstTokenAt(h.now) // late
	h.live = slices.Delete(h.live, k, k+1)
	h.count[d.Endpoint.ID]--
}

func (h *history) membership() {
	next := slices.Clone(h.endpoints)
	id := fmt.Sprint("e", h.rng.IntN(9))
	i := slices.IndexFunc(next, func(e router.Endpoint) bool { return e.ID == id })
	switch {
	case i < 0:
		next = append(next, router.Endpoint{ID: id, Weight: 1 + h.rng.IntN(3)})
	case h.rng.IntN(3) == 0:
		next = slices.Delete(next, i, i+1)
	default:
		next[i].Weight = h.rng.IntN(3) // 0 drains
	}
	h.rng.Shuffle(len(next), func(a, b int) { next[a], next[b] = next[b], next[a] })
	if h.rng.IntN(10) == 0 { // a bad set leaves the old one in force
		bad := append(slices.Clone(next), router.Endpoint{ID: "x", Weight: -1})
		if err := h.pool.SetEndpointsAt(h.now, bad); err == nil {
			h.t.Fatal("SetEndpoints with a negative weight: no error")
		}
		return
	}
	if err := h.pool.SetEndpointsAt(h.now, next); err != nil {
		h.t.Fatal(err)
	}
	h.endpoints = next
}

// announce applies an event of another pool; some get lost or come twice.
func (h *history) announce() {
	e := &router.Event{Origin: 7}
	switch {
	case len(h.remote) == 0 || h.rng.IntN(2) == 0:
		h.remoteID++
		e.Kind, e.ID, e.Endpoint = router.Sent, h.remoteID, fmt.Sprint("e", h.rng.IntN(9))
		p := h.prompt()
		e.Blocks, e.Tokens, e.Own = p.Blocks, p.Tokens, 1
		if h.find(e.Endpoint) != nil {
			h.remote[e.ID] = e.Endpoint
			h.count[e.Endpoint]++
		}
	default:
		for id := range h.remote { // any will do, but the same for the same seed
			if e.ID == 0 || id < e.ID {
				e.ID = id
			}
		}
		if e.Kind = router.FirstToken; h.rng.IntN(2) == 0 {
			e.Kind = router.Released
			h.count[h.remote[e.ID]]--
			delete(h.remote, e.ID)
		}
	}
	for range 1 + h.rng.IntN(2) {
		if err := h.pool.ApplyAt(h.now, e); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *history) disconnect() {
	for _, id := range h.remote {
		h.count[id]--
	}
	clear(h.remote)
	h.pool.DisconnectAt(h.now, 7)
}

func (h *history) check(step int) {
	if err := h.pool.CheckInvariants(h.count); err != nil {
		h.t.Fatalf("step %d: %v", step, err)
	}
	if got := h.pool.Remotes(); got != len(h.remote) {
		h.t.Fatalf("step %d: %d remote requests, want %d", step, got, len(h.remote))
	}
}

func TestPool_RandomHistoriesKeepTheBooks(t *testing.T) {
	steps := 10_000
	if testing.Short() {
		steps = 1000
	}
	for number := range uint64(10) {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			h := newHistory(t, *seed, number)
			for step := range steps {
				h.now = h.now.Add(time.Duration(h.rng.IntN(100)) * time.Millisecond)
				switch op := h.rng.IntN(100); {
				case op < 45:
					h.pick()
				case op < 85:
					h.release()
				case op < 90:
					h.membership()
				case op < 98:
					h.announce()
				case op < 99:
					h.now = h.now.Add(-time.Minute) // clocks step back, too
				default:
					h.disconnect() // what is so old would be dropped, the next time somebody looks
					h.now = h.now.Add(time.Hour)
				}
				h.check(step)
			}
			for len(h.live) > 0 {
				h.release()
			}
			h.disconnect()
			h.check(steps)
			if n := h.pool.Duplicates(); n != 0 {
				t.Errorf("%d prompts still count as being computed", n)
			}
			for _, s := range h.pool.StatsAt(h.now) {
				if s.Left || s.Load.PinnedTokens != 0 {
					t.Errorf("%s at the end: left %v, %d tokens pinned", s.Endpoint.ID, s.Left, s.Load.PinnedTokens)
				}
			}
		})
	}
}

// The same with everything at once; the books are compared at the end.
func TestPool_ConcurrentUseKeepsTheBooks(t *testing.T) {
	pool, err := router.New(router.Config{KVCacheTokens: 20_000, Bound: balancer.Bound{Factor: 1.25}})
	if err != nil {
		t.Fatal(err)
	}
	other, err := router.New(router.Config{Origin: 9, Hooks: router.Hooks{Announce: func(e *router.Event) {
		if err := pool.Apply(e); err != nil {
			t.Error(err)
		}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	set := func(n int) {
		var endpoints []router.Endpoint
		for i := range n {
			endpoints = append(endpoints, router.Endpoint{ID: fmt.Sprint("e", i), Weight: 1 + i%2})
		}
		if err := errors.Join(pool.SetEndpoints(endpoints), other.SetEndpoints(endpoints)); err != nil {
			t.Error(err)
		}
	}
	set(6)
	var wg sync.WaitGroup
	for g := range uint64(8) {
		wg.Go(func() {
			h := &history{t: t, rng: rand.New(rand.NewPCG(*seed, g))}
			p := pool
			if g%4 == 0 {
				p = other
			}
			var live []*router.Decision
			for step := range 1500 {
				r := h.request()
				r.At = time.Time{}
				if d, err := p.Pick(r); err == nil {
					live = append(live, d)
				}
				if len(live) > 5 || step%3 == 0 && len(live) > 0 {
					d := live[0]
					live = live[1:]
					wg.Go(func() {
						d.FirstToken()
						d.Release(outcomes[step%len(outcomes)])
					})
					d.Release(router.Outcome{}) // whoever is first
				}
			}
			for _, d := range live {
				d.Release(router.Outcome{})
			}
		})
	}
	wg.Go(func() {
		for i := range 60 {
			set(2 + i%6)
		}
		set(6)
	})
	wg.Wait()
	if err := pool.CheckInvariants(nil); err != nil {
		t.Error(err)
	}
	if err := other.CheckInvariants(nil); err != nil {
		t.Error(err)
	}
	if pool.Duplicates() != 0 || pool.Remotes() != 0 {
		t.Errorf("%d duplicates, %d remote requests at the end", pool.Duplicates(), pool.Remotes())
	}
}
