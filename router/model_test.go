package router_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	remote    map[uint64]announced // by another pool, by ID
	remoteID  uint64
	lost      []*router.Event // on their way; some come late, some never
	count     map[string]int  // live decisions by endpoint, all generations
	config    router.Config
	mirror    *router.Pool // hears of everything
	log       hash.Hash64  // of all decisions
}

// announced is a request of another pool.
type announced struct {
	endpoint string
	at       time.Time
}

func newHistory(t *testing.T, seed, number uint64) *history {
	rng := rand.New(rand.NewPCG(seed, number))
	policies := []balancer.Policy{nil, balancer.RoundRobin{}, balancer.LeastLoad{}, balancer.PowerOfTwo{}, balancer.BoundedLoad{}}
	h := &history{
		t: t, rng: rng, now: time.Unix(1_000_000, 0),
		remote: map[uint64]announced{}, count: map[string]int{}, log: fnv.New64a(),
	}
	h.config = router.Config{
		Policy: policies[rng.IntN(len(policies))],
		Bound:  []balancer.Bound{{}, {Factor: 1.25}, {Factor: 1.25, Gap: 4}, {Factor: -1}}[rng.IntN(4)],
		Seed:   seed, KVCacheTokens: rng.IntN(2) * 20_000, SlowStart: -time.Duration(rng.IntN(2)),
		Hooks: router.Hooks{Announce: h.tell},
	}
	if rng.IntN(2) == 0 {
		h.config.MaxInFlight = 6
	}
	h.pool = newPool(t, h.config)
	h.mirror = newPool(t, router.Config{Origin: 1})
	return h
}

// tell passes an event of the pool on to the mirror, through bytes.
func (h *history) tell(e *router.Event) {
	b, err := e.AppendBinary(nil)
	require.NoError(h.t, err)
	var same router.Event
	require.NoError(h.t, same.UnmarshalBinary(b))
	require.NoError(h.t, h.mirror.ApplyAt(h.now, &same))
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
	before := h.pool.StatsAt(h.now)
	h.checkRemote()
	d, err := h.pool.Pick(r)
	fmt.Fprintln(h.log, d, err)
	if err != nil {
		if !errors.Is(err, router.ErrNoEndpoints) && !errors.Is(err, router.ErrSaturated) && !errors.Is(err, router.ErrRetryBudget) {
			h.t.Fatalf("Pick: %v", err)
		}
		return
	}
	h.checkChoice(&r, d, before)
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

// checkChoice compares a decision with the state before it.
func (h *history) checkChoice(r *router.Request, d *router.Decision, before []router.EndpointStats) {
	var chosen router.EndpointStats
	total, weight, able := 0, 0, 0
	cooling, busy := 0, 0
	for _, s := range before {
		if s.Left || s.Endpoint.Weight == 0 || slices.Contains(r.Exclude, s.Endpoint.ID) || r.Eligible != nil && !r.Eligible(&s.Endpoint) {
			continue
		}
		if s.Endpoint.ID == d.Endpoint.ID {
			chosen = s
		}
		able++
		if s.Busy {
			busy++
			continue
		}
		if s.Cooling {
			cooling++
		}
		total += s.Load.InFlight
		weight += s.Endpoint.Weight
	}
	if chosen.Busy {
		h.t.Fatalf("picked %v, which asked to be left alone", d)
	}
	if _, probe := d.Probe(); probe != chosen.Cooling && (probe || cooling < able) {
		h.t.Fatalf("picked %v: probe %v, cooling %v, with %d of %d cooling", d, probe, chosen.Cooling, cooling, able)
	}
	if chosen.Load.InFlight >= cmp.Or(h.config.MaxInFlight, math.MaxInt) {
		h.t.Fatalf("picked %v with %d in flight", d, chosen.Load.InFlight)
	}
	if len(h.remote) > 0 || cooling > 0 || h.config.SlowStart == 0 || h.config.Bound.Factor <= 0 {
		return // then the bound is not known exactly
	}
	if limit := h.config.Bound.Limit(total, chosen.Endpoint.Weight, weight); chosen.Load.InFlight >= limit {
		for _, s := range before {
			if s.Left || s.Endpoint.Weight == 0 || s.Busy || slices.Contains(r.Exclude, s.Endpoint.ID) || r.Eligible != nil && !r.Eligible(&s.Endpoint) {
				continue
			}
			if s.Load.InFlight < min(cmp.Or(h.config.MaxInFlight, math.MaxInt), h.config.Bound.Limit(total, s.Endpoint.Weight, weight)) {
				h.t.Fatalf("picked %v with %d in flight, limit %d, and %s had only %d", d, chosen.Load.InFlight, limit, s.Endpoint.ID, s.Load.InFlight)
			}
		}
	}
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
	if h.rng.IntN(3) == 0 {
		return // goes on decoding
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
	case h.rng.IntN(4) == 0: // another engine under the old name
		next[i].URL = &url.URL{Scheme: "http", Host: fmt.Sprint(id, ":", h.rng.IntN(1000))}
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
	if err := errors.Join(h.pool.SetEndpointsAt(h.now, next), h.mirror.SetEndpointsAt(h.now, next)); err != nil {
		h.t.Fatal(err)
	}
	h.endpoints = next
}

// announce applies an event of another pool; some come twice, some late or never.
func (h *history) announce() {
	e := &router.Event{Origin: 7}
	switch {
	case len(h.lost) > 0 && h.rng.IntN(4) == 0:
		k := h.rng.IntN(len(h.lost))
		e = h.lost[k]
		h.lost = slices.Delete(h.lost, k, k+1)
	case len(h.remote) == 0 || h.rng.IntN(2) == 0:
		h.remoteID++
		p := h.prompt()
		e.Kind, e.ID, e.Endpoint = router.Sent, h.remoteID, fmt.Sprint("e", h.rng.IntN(9))
		e.Blocks, e.Tokens, e.Own = slices.Clone(p.Blocks), p.Tokens, 1
	default:
		ids := slices.Sorted(maps.Keys(h.remote))
		e.Kind, e.ID = router.FirstToken, ids[h.rng.IntN(len(ids))]
		if h.rng.IntN(2) == 0 {
			e.Kind, e.Failed = router.Released, h.rng.IntN(9) == 0
		}
	}
	if h.rng.IntN(10) == 0 {
		h.lost = append(h.lost, e)
		return
	}
	for range 1 + h.rng.IntN(2) {
		if err := h.pool.ApplyAt(h.now, e); err != nil {
			h.t.Fatal(err)
		}
		if was, ok := h.remote[e.ID]; ok && e.Kind == router.Released {
			delete(h.remote, e.ID)
			h.count[was.endpoint]--
		}
		h.checkRemote()
		if _, ok := h.remote[e.ID]; !ok && e.Kind == router.Sent && h.find(e.Endpoint) != nil {
			h.remote[e.ID] = announced{e.Endpoint, h.now}
			h.count[e.Endpoint]++
		}
	}
}

// checkRemote compares the requests of other pools by age, after something that
// gives up those that are too old.
func (h *history) checkRemote() {
	const tolerance = 10 * time.Minute // for a clock that was set back
	tracked := h.pool.Remotes()
	for id, r := range h.remote {
		switch age := h.now.Sub(r.at); {
		case tracked[id] && age > router.MaxRemoteAge+tolerance:
			h.t.Fatalf("a request of another pool is tracked for %v", age)
		case !tracked[id] && age < router.MaxRemoteAge-tolerance:
			h.t.Fatalf("a request of another pool was given up after %v", age)
		case !tracked[id]:
			delete(h.remote, id)
			h.count[r.endpoint]--
		}
	}
}

func (h *history) check(step int) {
	if err := h.pool.CheckInvariants(h.count); err != nil {
		h.t.Fatalf("step %d: %v", step, err)
	}
	if got := len(h.pool.Remotes()); got != len(h.remote) {
		h.t.Fatalf("step %d: %d remote requests, want %d", step, got, len(h.remote))
	}
	probes := map[any]bool{}
	for _, d := range h.live {
		switch generation, probe := d.Probe(); {
		case probe && probes[generation]:
			h.t.Fatalf("step %d: two probes of %s at a time", step, d.Endpoint.ID)
		case probe:
			probes[generation] = true
		}
	}
	if n := h.pool.Duplicates(); n > len(h.live) {
		h.t.Fatalf("step %d: %d prompts count as being computed, with %d requests", step, n, len(h.live))
	}
}

// run makes random steps, checks after each, and ends everything.
func (h *history) run(steps int) {
	for step := range steps {
		h.now = h.now.Add(time.Duration(h.rng.IntN(100)) * time.Millisecond)
		switch op := h.rng.IntN(1000); {
		case op < 450:
			h.pick()
		case op < 850:
			h.release()
		case op < 900:
			h.membership()
		case op < 990:
			h.announce()
		case op < 994:
			h.now = h.now.Add(-time.Minute) // clocks step back, too
		case op < 998:
			h.now = h.now.Add(time.Minute)
		case op < 999:
			h.now = h.now.Add(time.Hour)
		default:
			h.disconnect()
		}
		h.check(step)
	}
	for len(h.live) > 0 {
		h.release()
	}
	h.disconnect()
	h.check(steps)
}

// disconnect gives up what the other pool announced.
func (h *history) disconnect() {
	for _, r := range h.remote {
		h.count[r.endpoint]--
	}
	clear(h.remote)
	h.pool.DisconnectAt(h.now, 7)
}

// Replay a history that failed with -seed and -run.
func TestPool_RandomHistoriesKeepTheBooks(t *testing.T) {
	steps := 10_000
	if testing.Short() || raceDetector {
		steps = 1000
	}
	for number := range uint64(10) {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			h := newHistory(t, *seed, number)
			h.run(steps)
			if n := h.pool.Duplicates(); n != 0 {
				t.Errorf("%d prompts still count as being computed", n)
			}
			for _, s := range h.pool.StatsAt(h.now) {
				if s.Left || s.Load.PinnedTokens != 0 || s.Load.Backlog != 0 {
					t.Errorf("%s at the end: left %v, %d tokens pinned, %d to compute", s.Endpoint.ID, s.Left, s.Load.PinnedTokens, s.Load.Backlog)
				}
			}
			if err := h.mirror.CheckInvariants(nil); err != nil {
				t.Errorf("the pool that was told: %v", err)
			}
			if n := len(h.mirror.Remotes()); n != 0 {
				t.Errorf("the pool that was told: %d requests at the end", n)
			}
		})
	}
}

func TestPool_TheSameHistoryGivesTheSameDecisions(t *testing.T) {
	for number := range uint64(5) {
		a, b := newHistory(t, *seed, number), newHistory(t, *seed, number)
		a.run(1000)
		b.run(1000)
		if a.log.Sum64() != b.log.Sum64() {
			t.Errorf("history %d: the decisions of two runs differ", number)
		}
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
	set := func(n, change int) {
		var endpoints []router.Endpoint
		for i := range n {
			endpoints = append(endpoints, router.Endpoint{
				ID: fmt.Sprint("e", i), Weight: (1 + i + change) % 3, URL: &url.URL{Scheme: "http", Host: fmt.Sprint("e", i, ":", change/(i+1))},
			})
		}
		if err := errors.Join(pool.SetEndpoints(endpoints), other.SetEndpoints(endpoints)); err != nil {
			t.Error(err)
		}
	}
	set(6, 0)
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
			set(2+i%6, i)
		}
		set(6, 0)
	})
	wg.Go(func() { // those who look on
		for i := range 200 {
			for _, s := range pool.Stats() {
				if s.Load.InFlight < 0 || s.Load.Backlog < 0 || s.Load.PinnedTokens < 0 {
					t.Errorf("%+v", s)
				}
			}
			now, cancel := context.WithCancel(t.Context())
			cancel()
			if err := pool.WaitIdle(now, fmt.Sprint("e", i%6)); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if i%50 == 0 {
				pool.Disconnect(9)
			}
		}
	})
	wg.Wait()
	pool.Disconnect(9) // a release that met the other disconnection ended nothing
	if err := pool.CheckInvariants(nil); err != nil {
		t.Error(err)
	}
	if err := other.CheckInvariants(nil); err != nil {
		t.Error(err)
	}
	for id := range 8 {
		if err := pool.WaitIdle(t.Context(), fmt.Sprint("e", id)); err != nil {
			t.Error(err)
		}
	}
	if pool.Duplicates() != 0 || len(pool.Remotes()) != 0 {
		t.Errorf("%d duplicates, %d remote requests at the end", pool.Duplicates(), len(pool.Remotes()))
	}
}

// Bounds hold whoever picks at the same time.
func TestPick_BoundsHoldUnderConcurrency(t *testing.T) {
	for name, c := range map[string]router.Config{
		"hard cap":     {MaxInFlight: 3, Policy: policyFunc(func(*balancer.PickInfo) (balancer.Choice, error) { return balancer.Choice{}, nil })},
		"strict bound": {Bound: balancer.Bound{Factor: 1}, Policy: balancer.BoundedLoad{Bound: balancer.Bound{Factor: 2}}},
	} {
		c.Endpoints = fleet(4)
		p := newPool(t, c)
		most := int32(c.MaxInFlight)
		if most == 0 {
			// Each of 8 goroutines holds at most three. What moves while the loads are
			// read may be counted twice.
			most = 8*3/4 + 1
		}
		var flying [4]atomic.Int32
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				var held []*router.Decision
				release := func() {
					d := held[0]
					held = held[1:]
					flying[d.Endpoint.ID[1]-'0'].Add(-1) // before it really is
					d.Release(router.Outcome{})
				}
				for step := range 1000 {
					d, err := p.Pick(router.Request{Key: fmt.Sprint("key ", (g+step)%3)})
					if err != nil {
						if !errors.Is(err, router.ErrSaturated) || c.MaxInFlight == 0 {
							t.Error(err)
						}
					} else {
						held = append(held, d)
						if n := flying[d.Endpoint.ID[1]-'0'].Add(1); n > most {
							t.Errorf("%s: %d at once on %s, want at most %d", name, n, d.Endpoint.ID, most)
						}
					}
					if len(held) > 2 || err != nil && len(held) > 0 {
						release()
					}
				}
				for len(held) > 0 {
					release()
				}
			})
		}
		wg.Wait()
		require.NoError(t, p.CheckInvariants(nil))
	}
}
