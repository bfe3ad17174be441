package router_test

import (
	"math/rand/v2"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
)

// Signatures made by hand may lack what a Hasher fills in.

func TestPick_SignaturesWithoutTailAreNoDuplicates(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(4)})
	used := map[string]bool{}
	for i := range uint64(40) {
		s := prompt(i, 20)
		s.Tail = 0
		d := pick(t, p, router.Request{Prefix: s})
		if d.Reason == balancer.Duplicate {
			t.Fatalf("prompt %d: %v, but it is another one", i, d)
		}
		used[d.Endpoint.ID] = true
		d.ReleaseAt(start, router.Outcome{})
	}
	if len(used) != 4 {
		t.Errorf("40 prompts went to %v, want all 4 endpoints", used)
	}
	if n := p.Duplicates(); n != 0 {
		t.Errorf("%d prompts count as being computed at the end", n)
	}
}

func TestPick_SignaturesWithoutTokensHaveAffinity(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(4)})
	s := prompt(1, 20)
	s.Tokens = 0
	pick(t, p, router.Request{Prefix: s}).ReleaseAt(start, router.Outcome{})
	d := pick(t, p, router.Request{Prefix: s})
	if d.Reason != balancer.Warm || d.CachedTokens != 20*router.BlockTokens || d.PromptTokens != d.CachedTokens {
		t.Errorf("second request: %v, want it warm with all of 20 blocks", d)
	}
}

// A tokenizer that makes fewer or more tokens of the text than was estimated
// must not look like a cache that loses or gains some of every prompt.
func TestPool_CapacityDoesNotDependOnTheTokenizer(t *testing.T) {
	for _, perEstimate := range []float64{0.6, 0.8, 1, 1.3, 2} {
		p := newPool(t, router.Config{Endpoints: fleet(1)})
		rng := rand.New(rand.NewPCG(1, 1))
		now := start
		s := signature(rng, nil, 40)
		for range 30 {
			other := signature(rng, nil, 10)
			pick(t, p, router.Request{Prefix: &other, At: now}).ReleaseAt(now, router.Outcome{})
			now = now.Add(time.Second)
			s = signature(rng, s.Blocks, 3)
			d := pick(t, p, router.Request{Prefix: &s, At: now})
			d.FirstTokenAt(now)
			d.ReleaseAt(now, router.Outcome{
				PromptTokens: loadstats.Known(int64(perEstimate * float64(d.PromptTokens))),
				CachedTokens: loadstats.Known(int64(perEstimate * float64(d.CachedTokens))),
			})
			now = now.Add(time.Second)
		}
		if got := p.LearnedCapacity("e0"); got != 256<<10 {
			t.Errorf("%v tokens for each estimated: capacity = %d, want it untouched", perEstimate, got)
		}
		if d := pick(t, p, router.Request{Prefix: &s, At: now}); d.CachedTokens != d.PromptTokens/256*256 {
			t.Errorf("%v tokens for each estimated: %v, want everything cached", perEstimate, d)
		}
	}
}

// What a key stands for is made up; answers can't be compared with it.
func TestPool_NothingIsLearnedFromKeysAlone(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1)})
	for i := range 10 {
		now := start.Add(time.Duration(i) * time.Second)
		pick(t, p, router.Request{Key: "session", At: now}).ReleaseAt(now, router.Outcome{CachedTokens: loadstats.Known(100)})
	}
	if got := p.LearnedCapacity("e0"); got != 256<<10 {
		t.Errorf("capacity = %d, want it untouched", got)
	}
	if d := pick(t, p, router.Request{Key: "session", At: start.Add(time.Hour)}); d.Reason != balancer.Warm {
		t.Errorf("%v, want it warm", d)
	}
}

func TestShadow_OfAShadow(t *testing.T) {
	var pools [4]*router.Pool
	for i := range pools {
		pools[i] = newPool(t, router.Config{Endpoints: fleet(2)})
	}
	s := &router.Shadow{
		Router:    &router.Shadow{Router: pools[0], Candidate: pools[1]},
		Candidate: &router.Shadow{Router: pools[2], Candidate: pools[3]},
	}
	d := pick(t, s, router.Request{Prefix: prompt(1, 5)})
	d.FirstTokenAt(start)
	d.ReleaseAt(start, router.Outcome{})
	for i, p := range pools {
		if err := p.CheckInvariants(nil); err != nil {
			t.Errorf("pool %d: %v", i, err)
		}
	}
}

func TestSetEndpoints_URLWithPasswordStaysTheSame(t *testing.T) {
	endpoints := func(raw string) []router.Endpoint {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		return []router.Endpoint{{ID: "a", URL: u, Weight: 1}}
	}
	p := newPool(t, router.Config{Endpoints: endpoints("http://user:one@host:1")})
	d := pick(t, p, router.Request{Prefix: prompt(1, 5)})
	for _, c := range []struct {
		url string
		all int // with those that left
	}{
		{"http://user:one@host:1", 1},
		{"http://user:two@host:1", 2},
	} {
		if err := p.SetEndpointsAt(start, endpoints(c.url)); err != nil {
			t.Fatal(err)
		}
		if got := len(p.StatsAt(start)); got != c.all {
			t.Errorf("after %s: %d endpoints with those that left, want %d", c.url, got, c.all)
		}
	}
	d.ReleaseAt(start, router.Outcome{})
}

// The answer's cached tokens were found by the prefill endpoint, whether or not it
// has been released before: the decode endpoint learns nothing from them.
func TestPrefillDecode_CachedTokensAreOfThePrefill(t *testing.T) {
	for _, streams := range []bool{false, true} {
		var pools [2]*router.Pool
		for i := range pools {
			pools[i] = newPool(t, router.Config{Endpoints: fleet(1)})
			fill := prompt(1, 3000) // more than the first guess of the capacity
			pick(t, pools[i], router.Request{Prefix: fill}).ReleaseAt(start, router.Outcome{})
		}
		pair, err := (&router.PrefillDecode{Prefill: pools[0], Decode: pools[1]}).Pick(router.Request{Prefix: prompt(2, 10), At: start})
		if err != nil {
			t.Fatal(err)
		}
		if streams {
			pair.FirstTokenAt(start)
		}
		for range 2 { // the second one does nothing
			pair.ReleaseAt(start, router.Outcome{CachedTokens: loadstats.Known(2560)})
			prefill, decode := pools[0].LearnedCapacity("e0"), pools[1].LearnedCapacity("e0")
			if prefill != (256<<10)*3/2 || decode != 256<<10 {
				t.Errorf("streams %v: capacities %d and %d, want the first one to have grown once", streams, prefill, decode)
			}
		}
	}
}

// Answers of which one block at most was expected say nothing: neither that an
// engine that finds nothing still has its cache, nor that its cache is larger.
func TestPool_MissesOfOneBlockProveNothing(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1), KVCacheTokens: 1 << 20})
	now := start
	send := func(r router.Request, cached int64) *router.Decision {
		now = now.Add(time.Second)
		r.At = now
		d := pick(t, p, r)
		d.ReleaseAt(now, router.Outcome{CachedTokens: loadstats.Known(cached)})
		return d
	}
	for i := range uint64(4) {
		send(router.Request{Prefix: prompt(i, 100)}, 0)
	}
	send(router.Request{Prefix: prompt(9, 1)}, 0)
	for i := range uint64(3) {
		send(router.Request{Prefix: prompt(i, 100)}, 0)
		one := prompt(20+i, 3)
		one.Blocks[0] = prompt(9, 1).Blocks[0]
		send(router.Request{Prefix: one}, 0)
	}
	if d := send(router.Request{Prefix: prompt(3, 100)}, 0); d.CachedTokens != 0 {
		t.Errorf("after three misses: %v, want the engine taken for restarted", d)
	}

	p = newPool(t, router.Config{Endpoints: fleet(1)})
	for i := range uint64(3000) {
		s := prompt(i, 3)
		s.Blocks[0] = 1
		send(router.Request{Prefix: s}, 0)
	}
	if got := p.LearnedCapacity("e0"); got > 256<<10 {
		t.Errorf("capacity = %d after answers that found nothing", got)
	}
}

// What an endpoint did not compute it has not cached, here and in the pools that
// hear of it; what others have used since stays.
func TestRelease_WhatWasNotComputedIsNotCached(t *testing.T) {
	long := prompt(1, 8)
	short := *long
	short.Blocks, short.Tokens, short.Tail = long.Blocks[:5], 5*router.BlockTokens, 0
	for _, c := range []struct {
		outcome router.Outcome
		began   bool // to answer
		want    int  // blocks cached afterwards
	}{
		{router.Outcome{}, false, 8},
		{router.Outcome{Abandoned: true}, false, 8}, // the engine was at it, for all we know
		{refused, false, 3},
		{refused, true, 8},
		{router.Outcome{StatusCode: 429}, false, 3},
		{router.Outcome{StatusCode: 400}, false, 3},
	} {
		for ask := range 4 {
			shared := ask >= 2
			var bus router.Bus
			var pools [2]*router.Pool
			for i := range pools {
				pools[i] = newPool(t, router.Config{Endpoints: fleet(1), Origin: uint64(i + 1), Hooks: router.Hooks{Announce: bus.Announce}})
				require.NoError(t, bus.Join(pools[i]))
			}
			begin := *long
			begin.Blocks, begin.Tokens, begin.Tail = long.Blocks[:3], 3*router.BlockTokens, 0
			pick(t, pools[0], router.Request{Prefix: &begin}).ReleaseAt(start, router.Outcome{})
			at := start.Add(time.Second)
			d := pick(t, pools[0], router.Request{Prefix: long, At: at})
			want := c.want
			if shared {
				pick(t, pools[0], router.Request{Prefix: &short, At: at}).ReleaseAt(at.Add(time.Second), router.Outcome{})
				want = max(want, 5)
			}
			if c.began {
				d.FirstTokenAt(at.Add(2 * time.Second))
			}
			d.ReleaseAt(at.Add(2*time.Second), c.outcome)
			for _, p := range pools {
				if err := p.CheckInvariants(nil); err != nil {
					t.Error(err)
				}
			}
			again := pick(t, pools[ask%2], router.Request{Prefix: long, At: at.Add(time.Minute)})
			if got := again.CachedTokens / router.BlockTokens; got != want {
				t.Errorf("pool %d, %+v, began %v, shared %v: %d blocks cached, want %d", ask%2, c.outcome, c.began, shared, got, want)
			}
		}
	}
}

// A decision that a hook's panic keeps from its caller is released, and as if it
// had never been made.
func TestPick_PanicsOfHooksLeaveNothingBehind(t *testing.T) {
	for _, hook := range []string{"decided", "announce", "compare"} {
		fail := true
		panics := func() {
			if fail {
				fail = false
				panic(hook)
			}
		}
		var c router.Config
		switch hook {
		case "decided":
			c.Hooks.Decided = func(*router.Decision) { panics() }
		case "announce":
			c.Hooks.Announce = func(*router.Event) { panics() }
		}
		c.Endpoints = fleet(3)
		p, candidate := newPool(t, c), newPool(t, router.Config{Endpoints: fleet(3)})
		r := &router.Shadow{Router: p, Candidate: candidate}
		if hook == "compare" {
			r.Compare = func(_, _ *router.Decision) { panics() }
		}
		func() {
			defer func() {
				if got := recover(); got != hook {
					t.Errorf("Pick recovered %v, want the panic of %s", got, hook)
				}
			}()
			_, _ = r.Pick(router.Request{Prefix: prompt(1, 5), At: start})
		}()
		for _, p := range []*router.Pool{p, candidate} {
			if err := p.CheckInvariants(nil); err != nil {
				t.Errorf("after the panic of %s: %v", hook, err)
			}
			d := pick(t, p, router.Request{Prefix: prompt(1, 5)})
			if d.CachedTokens != 0 || d.InFlight != 0 {
				t.Errorf("after the panic of %s: %v", hook, d)
			}
			d.ReleaseAt(start, router.Outcome{})
		}
	}
}

// Servers go on after a panic of a handler; so does the pool after one of the
// functions it is given.
func TestPick_PanicsLeaveNothingBehind(t *testing.T) {
	fail := true
	p := newPool(t, router.Config{Endpoints: fleet(3), Policy: policyFunc(func(info *balancer.PickInfo) (balancer.Choice, error) {
		if fail {
			panic("policy")
		}
		return balancer.Affinity{}.Choose(info)
	})})
	panics := func(r router.Request) (got any) {
		defer func() { got = recover() }()
		pick(t, p, r)
		return nil
	}
	for range 3 {
		if got := panics(router.Request{Prefix: prompt(1, 5)}); got != "policy" {
			t.Errorf("Pick recovered %v, want the policy's panic", got)
		}
		if got := panics(router.Request{Key: "k", Eligible: func(e *router.Endpoint) bool { panic("eligible") }}); got != "eligible" {
			t.Errorf("Pick recovered %v, want Eligible's panic", got)
		}
	}
	if err := p.CheckInvariants(nil); err != nil {
		t.Error(err)
	}
	fail = false
	pick(t, p, router.Request{Prefix: prompt(1, 5)}).ReleaseAt(start, router.Outcome{})
	if d := pick(t, p, router.Request{Prefix: prompt(1, 5)}); d.Reason != balancer.Warm || d.Candidates != 3 {
		t.Errorf("after the panics: %v", d)
	}
}

// Whose decision nobody is told would hold its place for ever.
func TestPool_EnqueueForNobody(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1), MaxInFlight: 1})
	for sent := range int64(2) { // there is room, and there is none
		if h := p.Enqueue(router.Request{At: start}, nil); h != nil {
			t.Error("a request is held that nobody waits for")
		}
		if got := p.StatsAt(start)[0].Picks; got != sent {
			t.Errorf("%d requests were sent, want %d", got, sent)
		}
		p.Pick(router.Request{At: start})
	}
}
