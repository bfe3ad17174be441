package router_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router"
)

func sent(id uint64, endpoint string, blocks int) *router.Event {
	return &router.Event{
		Kind: router.Sent, Origin: 7, ID: id, Endpoint: endpoint, Blocks: prompt(id, blocks).Blocks, Tokens: blocks * 256, Own: 1,
	}
}

func apply(t *testing.T, p *router.Pool, at time.Time, e *router.Event) {
	t.Helper()
	require.NoError(t, p.ApplyAt(at, e))
}

// The life of another pool's request counts like that of an own one.
func TestApply_LifeOfARequest(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(2)})
	load := func() (flying, backlog, pinned, cached int) {
		l := p.StatsAt(start)[1].Load
		return l.InFlight, l.Backlog, l.PinnedTokens, l.CachedTokens
	}
	want := func(when string, flying, backlog, pinned, cached int) {
		t.Helper()
		if a, b, c, d := load(); a != flying || b != backlog || c != pinned || d != cached {
			t.Errorf("%s: %d in flight, backlog %d, pinned %d, cached %d, want %d, %d, %d, %d", when, a, b, c, d, flying, backlog, pinned, cached)
		}
	}
	apply(t, p, start, sent(1, "e1", 40))
	want("sent", 1, 10240, 41*256, 10240)
	apply(t, p, start, sent(1, "e1", 40))
	want("sent, heard twice", 1, 10240, 41*256, 10240)
	if d := pick(t, p, router.Request{Prefix: prompt(1, 50)}); d.Endpoint.ID != "e1" || d.CachedTokens != 10240 {
		t.Errorf("the next turn: %v, want it on e1, where the first one went", d)
	} else {
		d.ReleaseAt(start, router.Outcome{Abandoned: true})
	}
	apply(t, p, start, &router.Event{Kind: router.FirstToken, Origin: 7, ID: 1})
	apply(t, p, start, &router.Event{Kind: router.FirstToken, Origin: 7, ID: 1})
	want("first token", 1, 0, 41*256, 12800)
	apply(t, p, start, &router.Event{Kind: router.Released, Origin: 7, ID: 1, Failed: true})
	apply(t, p, start, &router.Event{Kind: router.Released, Origin: 7, ID: 1, Failed: true})
	want("released", 0, 0, 0, 12800)
	if got := p.StatsAt(start)[1].Load.FailureShare; got == 0 {
		t.Error("its failure is not remembered")
	}
	if p.StatsAt(start)[1].Picks != 1 {
		t.Error("it counts as a pick of this pool")
	}
}

func TestApply_WhatThePoolDoesNotKnow(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(2), Origin: 3})
	for _, e := range []*router.Event{
		sent(1, "elsewhere", 5),
		{Kind: router.FirstToken, Origin: 7, ID: 9},
		{Kind: router.Released, Origin: 7, ID: 9},
	} {
		apply(t, p, start, e)
	}
	// A bus may bring back what it was given.
	own := sent(1, "e1", 5)
	own.Origin = 3
	apply(t, p, start, own)
	p.Disconnect(99)
	if n := len(p.Remotes()); n != 0 {
		t.Errorf("%d requests are tracked, want none", n)
	}
	require.NoError(t, p.CheckInvariants(nil))
}

func TestApply_Malformed(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1)})
	for _, e := range []router.Event{
		{Kind: 0}, {Kind: 9},
		{Kind: router.Sent, Origin: 1, Endpoint: "e0", Tokens: -1},
		{Kind: router.Sent, Origin: 1, Endpoint: "e0", Tokens: 1<<30 + 1},
		{Kind: router.Sent, Origin: 1, Endpoint: "e0", Own: -1},
		{Kind: router.Sent, Origin: 1, Endpoint: "e0", Own: 1<<22 + 1},
		{Kind: router.Sent, Origin: 1, Endpoint: "e0", Blocks: make([]uint64, 1<<22+1)},
	} {
		if err := p.Apply(&e); !errors.Is(err, router.ErrEvent) {
			t.Errorf("Apply(kind %d, %d tokens, %d blocks) = %v, want ErrEvent", e.Kind, e.Tokens, len(e.Blocks), err)
		}
		if b, err := e.AppendBinary([]byte("x")); !errors.Is(err, router.ErrEvent) || string(b) != "x" {
			t.Errorf("AppendBinary(kind %d, %d tokens, %d blocks) = %d bytes, %v, want ErrEvent", e.Kind, e.Tokens, len(e.Blocks), len(b), err)
		}
	}
	require.NoError(t, p.CheckInvariants(nil))
}

// Releases that got lost must not weigh on an endpoint for ever, as phantom
// requests do in other routers (C01).
func TestApply_LostReleasesAreForgotten(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(2), MaxInFlight: 10})
	for i := range uint64(20) {
		apply(t, p, start, sent(i, fmt.Sprint("e", i%2), 3))
	}
	for _, c := range []struct {
		after time.Duration
		want  error
	}{{time.Minute, router.ErrSaturated}, {time.Hour, router.ErrSaturated}, {time.Hour + 2*time.Minute, nil}} {
		d, err := p.Pick(router.Request{At: start.Add(c.after)})
		if !errors.Is(err, c.want) {
			t.Errorf("Pick after %v: %v, want %v", c.after, err, c.want)
		}
		if d != nil {
			d.ReleaseAt(start.Add(c.after), router.Outcome{})
		}
	}
	apply(t, p, start, &router.Event{Kind: router.Released, Origin: 7, ID: 1}) // it was only late
	if n := len(p.Remotes()); n != 0 {
		t.Errorf("%d requests of others at the end", n)
	}
	require.NoError(t, p.CheckInvariants(nil))

	// Who picks nothing finds out by what others announce, or by looking.
	at := start.Add(24 * time.Hour)
	apply(t, p, at, sent(30, "e1", 3))
	apply(t, p, at.Add(2*time.Hour), sent(31, "e1", 3))
	if ids := p.Remotes(); len(ids) != 1 || !ids[31] {
		t.Errorf("requests of others: %v, want the young one only", ids)
	}
	if got := p.StatsAt(at.Add(4 * time.Hour))[1].Load.InFlight; got != 0 {
		t.Errorf("%d in flight two hours later", got)
	}

	// A clock that was set back must not keep them for as long.
	apply(t, p, start.Add(48*time.Hour), sent(40, "e1", 3))
	p.StatsAt(start)
	apply(t, p, start, sent(41, "e1", 3))
	p.StatsAt(start.Add(2 * time.Hour))
	if ids := p.Remotes(); ids[41] {
		t.Errorf("requests of others: %v", ids)
	}
	p.Disconnect(7)
}

func TestApply_RequestsOfOthersAreBounded(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1)})
	for id := range uint64(1<<16 + 10) {
		apply(t, p, start, &router.Event{Kind: router.Sent, Origin: 7, ID: id, Endpoint: "e0"})
	}
	if n := len(p.Remotes()); n != 1<<16 {
		t.Errorf("%d requests are tracked, want 65,536", n)
	}
	p.DisconnectAt(start, 7)
	require.NoError(t, p.CheckInvariants(nil))
}

func TestDisconnect_EndsOneOriginOnly(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1)})
	for id := range uint64(6) {
		e := sent(id, "e0", 5)
		e.Origin = 7 + id%2
		apply(t, p, start, e)
	}
	p.Disconnect(7)
	require.NoError(t, p.CheckInvariants(map[string]int{"e0": 3}))
	p.Disconnect(8)
	require.NoError(t, p.CheckInvariants(nil))
}

// An endpoint leaves while others announce requests to it: they are visible
// until they end, or were never taken.
func TestApply_WhileTheEndpointLeaves(t *testing.T) {
	for round := range uint64(200) {
		p := newPool(t, router.Config{Endpoints: fleet(2)})
		var wg sync.WaitGroup
		wg.Go(func() { apply(t, p, start, sent(round, "e1", 3)) })
		wg.Go(func() {
			if err := p.SetEndpointsAt(start, fleet(1)); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		if tracked, visible := len(p.Remotes()), inFlight(p)["e1"]; tracked != visible {
			t.Fatalf("round %d: %d requests tracked, %d in flight", round, tracked, visible)
		}
		apply(t, p, start, &router.Event{Kind: router.Released, Origin: 7, ID: round})
		require.NoError(t, p.CheckInvariants(nil))
	}
}

// Pools on one bus that are driven by given times stay in that time.
func TestBus_KeepsTheTimesGiven(t *testing.T) {
	var bus router.Bus
	var pools [2]*router.Pool
	for i := range pools {
		pools[i] = newPool(t, router.Config{Endpoints: fleet(2), Origin: uint64(i + 1), Hooks: router.Hooks{Announce: bus.Announce}})
		bus.Join(pools[i])
	}
	d := pick(t, pools[0], router.Request{Prefix: prompt(1, 100)})
	at := start.Add(2 * time.Second)
	d.FirstTokenAt(at)
	for i, p := range pools {
		for _, s := range p.StatsAt(at) {
			if s.Endpoint.ID == d.Endpoint.ID && (s.TTFT != 2*time.Second || s.Load.PrefillRate != 12800) {
				t.Errorf("pool %d: TTFT %v, %v tokens a second, want 2s and 12,800", i, s.TTFT, s.Load.PrefillRate)
			}
		}
	}
}

// Four gateways at once, each with its clients, over one bus.
func TestBus_ConcurrentPoolsAgreeAtTheEnd(t *testing.T) {
	var bus router.Bus
	pools := make([]*router.Pool, 4)
	for i := range pools {
		pools[i] = newPool(t, router.Config{Endpoints: fleet(4), Origin: uint64(i + 1), Hooks: router.Hooks{Announce: bus.Announce}})
	}
	var wg sync.WaitGroup
	for i, p := range pools {
		wg.Go(func() { bus.Join(p) })
		for client := range uint64(2) {
			wg.Go(func() {
				for turn := range 200 {
					d, err := p.Pick(router.Request{Prefix: prompt(client*10+uint64(i), 5+turn%10)})
					if err != nil {
						t.Error(err)
						return
					}
					if turn%3 > 0 {
						d.FirstToken()
					}
					d.Release(router.Outcome{StatusCode: 200})
				}
			})
		}
	}
	wg.Wait()
	for i, p := range pools {
		if err := p.CheckInvariants(nil); err != nil {
			t.Errorf("pool %d: %v", i, err)
		}
		if n := len(p.Remotes()); n != 0 {
			t.Errorf("pool %d: %d requests of others at the end", i, n)
		}
	}
}

// Two gateways with the same fleet and half of the traffic each spread it as one
// would.
func TestBus_GatewaysDoNotHerd(t *testing.T) {
	var bus router.Bus
	var pools [4]*router.Pool
	for i := range pools {
		pools[i] = newPool(t, router.Config{
			Endpoints: fleet(8), Origin: uint64(i + 1), Policy: balancer.LeastLoad{}, Hooks: router.Hooks{Announce: bus.Announce},
		})
		bus.Join(pools[i])
	}
	for i := range 80 {
		pick(t, pools[i%4], router.Request{})
	}
	for id, n := range inFlight(pools[0]) {
		if n != 10 {
			t.Errorf("%s has %d of 80, want 10", id, n)
		}
	}
	if s := fmt.Sprint(inFlight(pools[3])); s != fmt.Sprint(inFlight(pools[0])) {
		t.Errorf("pool 3 sees %s, pool 0 %v", s, inFlight(pools[0]))
	}
}

// What ends at one moment ends in the order of its numbers, so that the same
// calls leave the same cache.
func TestDisconnect_InOrder(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1), KVCacheTokens: 10 * 256})
	for id := range uint64(9) {
		e := sent(id+1, "e0", 1)
		e.Own = 0
		apply(t, p, start, e)
	}
	p.DisconnectAt(start, 7)
	for i := range uint64(4) { // each pushes out two
		s := prompt(100+i, 2)
		d := pick(t, p, router.Request{Prefix: s, MaxOutputTokens: 1})
		d.ReleaseAt(start, router.Outcome{})
	}
	if d := pick(t, p, router.Request{Prefix: prompt(9, 1)}); d.CachedTokens != 256 {
		t.Errorf("%v, want the last of 9 prompts to be cached still", d)
	}
}
