package router_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// The tests in this file are about endpoints with nothing to do, which no request
// that they suit has to wait for, and about panics while requests are held.

// tick lets time pass until the request has been answered.
func (d *desk) tick(name string, most time.Duration) time.Duration {
	began := d.now
	for d.got[name] == nil && d.errs[name] == nil && d.now.Sub(began) < most {
		d.now = d.now.Add(router.PassInterval)
		d.pool.DispatchAt(d.now)
	}
	return d.now.Sub(began)
}

// However many wait in front for an endpoint that is at work.
func TestQueue_ManyInFrontLeaveNoEndpointIdle(t *testing.T) {
	for _, n := range []int{router.LookAhead - 1, router.LookAhead, router.LookAhead + 1, 100} {
		warm := newDesk(t, router.Config{Endpoints: fleet(2), KVCacheTokens: 40_000_000})
		for i := range n {
			warm.serve("e0", prompt(uint64(i), 200), 5120*time.Millisecond)
		}
		warm.occupy("e0", 100_000)
		bound := newDesk(t, router.Config{Endpoints: fleet(2)})
		bound.occupy("e0", 1_000_000)
		for i := range n {
			warm.enqueue(fmt.Sprint("turn", i), router.Request{Prefix: prompt(uint64(i), 209)})
			bound.enqueue(fmt.Sprint("only e0", i), router.Request{Prefix: prompt(uint64(i), 12), Eligible: at("e0")})
		}
		warm.enqueue("cold", router.Request{Prefix: prompt(1000, 120)})
		idle := warm.pool.StatsAt(warm.now)[1].Load.InFlight == 0 // so many turns may be worth a second copy
		if waited := warm.tick("cold", 5*time.Second); idle && warm.got["cold"] == nil {
			t.Errorf("with %d turns in front that wait for e0, a cold prompt waits %v beside an idle e1", n, waited)
		}
		bound.enqueue("only e1", router.Request{Prefix: prompt(1000, 40), Eligible: at("e1")})
		if waited := bound.tick("only e1", 5*time.Second); bound.got["only e1"] == nil {
			t.Errorf("with %d in front that only e0 may serve, one for e1 waits %v", n, waited)
		}
	}
}

// What another pool holds may be for other endpoints than it seems here, or the
// news of its end may be lost.
func TestQueue_OtherPoolsLeaveNoEndpointIdle(t *testing.T) {
	both := neighbours(t, 2, router.Config{Endpoints: fleet(2)})
	a, b := both[0], both[1]
	a.occupy("e0", 1_000_000)
	a.enqueue("lora", router.Request{Prefix: prompt(1, 20), Eligible: at("e0")})
	b.enqueue("one", router.Request{Prefix: prompt(100, 40), Eligible: at("e1")})
	if waited := b.tick("one", 5*time.Second); b.got["one"] == nil {
		t.Errorf("beside one of another pool that only e0 may serve, one for e1 waits %v", waited)
	}

	both = neighbours(t, 2, router.Config{Endpoints: fleet(2)})
	a, b = both[0], both[1]
	refused := pick(t, a.pool, router.Request{Prefix: &tokenprefix.Signature{Tokens: 10}, Eligible: at("e1"), At: a.now})
	refused.ReleaseAt(a.now, router.Outcome{StatusCode: 429, RetryAfter: 30 * time.Second}) // which is not announced
	a.occupy("e0", 1_000_000)
	a.enqueue("x", router.Request{Prefix: prompt(1, 20)})
	b.enqueue("y", router.Request{Prefix: prompt(2, 40)})
	if waited := b.tick("y", 25*time.Second); b.got["y"] == nil {
		t.Errorf("e1 asked another pool to be left alone, and here one waits %v for it", waited)
	}

	lost := newDesk(t, router.Config{Endpoints: fleet(8), Origin: 1})
	for i := range uint64(2 * router.LookAhead) {
		e := router.Event{Kind: router.Waiting, Origin: 2, ID: i, Tokens: 300, Blocks: slices.Clone(prompt(i, 1).Blocks)}
		require.NoError(t, lost.pool.ApplyAt(lost.now, &e))
	}
	lost.enqueue("one", router.Request{Prefix: prompt(100, 60)})
	if waited := lost.tick("one", 5*time.Second); lost.got["one"] == nil {
		t.Errorf("beside requests whose end was not told, one waits %v for eight idle endpoints", waited)
	}
}

// panicAt is Affinity that panics for prompts of one size.
type panicAt struct{ tokens *atomic.Int64 }

func (p panicAt) Choose(i *balancer.PickInfo) (balancer.Choice, error) {
	if p.tokens.Load() == int64(i.PromptTokens) {
		panic("a defect")
	}
	return balancer.Affinity{}.Choose(i)
}

// A policy that panics for a request of another pool is that pool's matter.
func TestQueue_PanicsForOtherPoolsHitNobodyHere(t *testing.T) {
	var bad atomic.Int64
	both := neighbours(t, 2, router.Config{Endpoints: fleet(1), Policy: panicAt{&bad}})
	a, b := both[0], both[1]
	busy := b.occupy("e0", 500_000)
	a.enqueue("x", router.Request{Prefix: prompt(1, 60)})
	bad.Store(60 * router.BlockTokens)
	b.enqueue("y", router.Request{Prefix: prompt(2, 70)})
	busy.FirstTokenAt(b.now)
	if b.got["y"] == nil {
		t.Errorf("y was not sent: %v", b.errs["y"])
	}
	if err := a.errs["x"]; err == nil || !strings.Contains(err.Error(), "a defect") {
		t.Errorf("x ended with %v, want the panic", err)
	}
}

// A hook that panics while a request is told to have waited too long does not keep
// the answer from its caller.
func TestAcquire_AnswersThoughAHookPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, busy := busyPool(t, router.Config{Queue: router.Queue{MaxWait: time.Second}, Hooks: router.Hooks{Announce: func(e *router.Event) {
			if e.Kind == router.Released && e.Blocks == nil && e.ID == 2 {
				panic("a defect")
			}
		}}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		func() {
			defer func() { _ = recover() }() // it made the pass itself
			if _, err := p.Acquire(ctx, router.Request{Prefix: prompt(1, 60)}); !errors.Is(err, router.ErrSaturated) {
				t.Errorf("Acquire = %v, want ErrSaturated", err)
			}
		}()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("Acquire took %v, want its MaxWait of a second", took)
		}
		busy.Release(router.Outcome{})
		require.NoError(t, p.CheckQueue())
		require.NoError(t, p.CheckInvariants(nil))
	})
}

// The clocks of those who report and those who ask need not agree.
func TestAcquire_WaitsAreNotNegative(t *testing.T) {
	d := newDesk(t, router.Config{Endpoints: fleet(1)})
	busy := d.occupy("e0", 500_000)
	d.enqueue("x", router.Request{Prefix: prompt(1, 60)})
	busy.FirstTokenAt(d.now.Add(-10 * time.Millisecond))
	if got := d.got["x"]; got == nil || got.Waited != 0 {
		t.Errorf("sent: %v; want it to have waited for no time", got)
	}
}

// What no endpoint has heard of is not cached in a shadow's books either.
func TestPrefillDecode_WithdrawsShadowsToo(t *testing.T) {
	candidate := newPool(t, router.Config{Endpoints: fleet(2), Policy: policyFunc(func(*balancer.PickInfo) (balancer.Choice, error) {
		return balancer.Choice{Index: 1}, nil
	})})
	prefill := &router.Shadow{Router: newPool(t, router.Config{Endpoints: fleet(2)}), Candidate: candidate}
	r := &router.PrefillDecode{Prefill: prefill, Decode: newPool(t, router.Config{})}
	if _, err := r.Pick(router.Request{Prefix: prompt(1, 40), At: start}); !errors.Is(err, router.ErrNoEndpoints) {
		t.Fatalf("Pick = %v, want ErrNoEndpoints", err)
	}
	if d := pick(t, candidate, router.Request{Prefix: prompt(1, 40), At: start}); d.BestCachedTokens != 0 {
		t.Errorf("the shadow believes that %d tokens are cached", d.BestCachedTokens)
	}
}

// Prompts that fail together leave nothing behind, in whatever order.
func TestRelease_WhatFailedTogetherIsNotCached(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		p := newPool(t, router.Config{Endpoints: fleet(1)})
		var all []*router.Decision
		for i := range 3 {
			s := *prompt(1, 40+i)
			s.Tail = 0
			all = append(all, pick(t, p, router.Request{Prefix: &s, At: start.Add(time.Duration(i))}))
		}
		for _, i := range order {
			all[i].ReleaseAt(start.Add(time.Second), refused)
		}
		if d := pick(t, p, router.Request{Prefix: prompt(1, 43), At: start.Add(2 * time.Second)}); d.CachedTokens != 0 {
			t.Errorf("after failures in the order %v: %v", order, d)
		}
	}
}
