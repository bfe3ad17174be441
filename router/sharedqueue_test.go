package router_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/router"
)

// neighbours returns pools over the same endpoint, whose speed is known, that tell
// each other everything at once.
func neighbours(t *testing.T, n int, c router.Config) []*desk {
	bus := new(router.Bus)
	c.Hooks.Announce = bus.Announce
	var all []*desk
	for i := range n {
		c.Origin = uint64(i) + 1
		p := newPool(t, c)
		require.NoError(t, bus.Join(p))
		all = append(all, &desk{t: t, pool: p, now: start, got: map[string]*router.Decision{}, errs: map[string]error{}})
	}
	for _, d := range all {
		for _, e := range c.Endpoints {
			d.serve(e.ID, prompt(99, 40), time.Second)
			d.now = start.Add(time.Minute)
		}
	}
	return all
}

// Who is due first goes first, wherever it waits.
func TestQueue_SharedOrder(t *testing.T) {
	both := neighbours(t, 2, router.Config{Endpoints: fleet(1)})
	a, b := both[0], both[1]
	busy := a.occupy("e0", 500_000)
	a.enqueue("long", router.Request{Prefix: prompt(1, 60)})
	b.enqueue("longer", router.Request{Prefix: prompt(2, 70)})
	a.enqueue("longest", router.Request{Prefix: prompt(3, 75)})
	if a.pool.RemotelyHeld() != 1 || b.pool.RemotelyHeld() != 2 || b.pool.QueueStatsAt(b.now).Length != 1 {
		t.Fatalf("each knows of %d and %d elsewhere, want 1 and 2", a.pool.RemotelyHeld(), b.pool.RemotelyHeld())
	}
	for i, want := range []string{"[long] []", "[long] [longer]", "[long longest] [longer]"} {
		busy.FirstTokenAt(a.now)
		if got := fmt.Sprint(a.sent, " ", b.sent); got != want {
			t.Fatalf("after %d first tokens %s were sent, want %s", i+1, got, want)
		}
		busy = a.got["long"]
		if i == 1 {
			busy = b.got["longer"]
		}
	}
	for _, d := range both {
		require.NoError(t, d.pool.CheckQueue())
		if d.pool.RemotelyHeld() != 0 || !d.pool.DispatchAt(d.now).IsZero() {
			t.Errorf("%d are still believed to wait elsewhere", d.pool.RemotelyHeld())
		}
	}
}

// A place that nobody needs any more is free at once, however that came.
func TestQueue_SharedOrderEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(a, b *desk, h *router.Held)
	}{
		{"cancelled", func(a, _ *desk, h *router.Held) { h.CancelAt(a.now) }},
		{"overlong", func(a, _ *desk, _ *router.Held) { a.pool.DispatchAt(a.now.Add(10 * time.Second)) }},
		{"its pool is gone", func(_, b *desk, _ *router.Held) { b.pool.DisconnectAt(b.now, 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			both := neighbours(t, 2, router.Config{Endpoints: fleet(1), Queue: router.Queue{MaxWait: 10 * time.Second}})
			a, b := both[0], both[1]
			busy := b.occupy("e0", 500_000)
			h := a.enqueue("first", router.Request{Prefix: prompt(1, 60), HeadStart: time.Minute})
			b.now = b.now.Add(time.Second)
			b.enqueue("second", router.Request{Prefix: prompt(2, 60)})
			// So that the first stays where it is: its pool does not hear of the room.
			b.pool.DispatchAt(b.now)
			require.Equal(t, 1, b.pool.RemotelyHeld())
			c.end(a, b, h)
			if n := b.pool.RemotelyHeld(); n != 0 {
				t.Errorf("%d are still believed to wait elsewhere", n)
			}
			busy.FirstTokenAt(b.now)
			if a.got["first"] == nil && b.got["second"] == nil {
				t.Error("neither was sent")
			}
		})
	}
}

// What can't be used of announcements is dropped: a change of something unknown,
// what was sent already, what comes from nowhere for too long.
func TestQueue_SharedOrderForgets(t *testing.T) {
	d := newDesk(t, router.Config{Endpoints: fleet(1), Queue: router.Queue{MaxLength: 3, MaxWait: time.Minute}})
	apply := func(e router.Event) {
		e.Origin = 7
		require.NoError(t, d.pool.ApplyAt(d.now, &e))
	}
	apply(router.Event{Kind: router.Waiting, ID: 1, Due: time.Second})
	apply(router.Event{Kind: router.Sent, ID: 2, Endpoint: "e0", Tokens: 100})
	apply(router.Event{Kind: router.Waiting, ID: 2, Tokens: 1000})
	if n := d.pool.RemotelyHeld(); n != 0 {
		t.Errorf("%d are held of a change and of what was sent, want none", n)
	}
	for id := range uint64(5) {
		apply(router.Event{Kind: router.Waiting, ID: 10 + id, Tokens: 1000})
	}
	if n := d.pool.RemotelyHeld(); n != 3 {
		t.Errorf("%d are held, want the 3 that fit", n)
	}
	d.now = d.now.Add(time.Minute)
	d.pool.DispatchAt(d.now)
	d.pool.DispatchAt(d.now)
	if n := d.pool.RemotelyHeld(); n != 0 {
		t.Errorf("%d are held after the longest wait, want none", n)
	}
	require.NoError(t, d.pool.CheckQueue())
	if err := d.pool.ApplyAt(d.now, &router.Event{Kind: router.Waiting, Origin: 7, Due: 48 * time.Hour}); !errors.Is(err, router.ErrEvent) {
		t.Errorf("Apply of a place two days ahead: %v, want ErrEvent", err)
	}
}

// Several pools with random lives: whatever each holds, nobody waits for ever, and
// at the end nobody is believed to.
func TestQueue_SharedOrderComesToRest(t *testing.T) {
	for number := range uint64(30) {
		rng := rand.New(rand.NewPCG(*seed, number))
		desks := neighbours(t, 2+rng.IntN(3), router.Config{
			Endpoints: fleet(1 + rng.IntN(3)), KVCacheTokens: 30_000 + rng.IntN(100_000), Queue: router.Queue{Fair: rng.IntN(2) == 0},
		})
		now := start.Add(time.Hour)
		type sent struct {
			desk *desk
			name string
		}
		released, came, cancelled := map[sent]bool{}, 0, 0
		release := func() bool {
			for _, d := range desks {
				for name, one := range d.got {
					if one != nil && !released[sent{d, name}] {
						released[sent{d, name}] = true
						if rng.IntN(5) > 0 {
							one.FirstTokenAt(now)
						}
						one.ReleaseAt(now, router.Outcome{})
						return true
					}
				}
			}
			return false
		}
		held := map[sent]*router.Held{}
		for range 400 {
			now = now.Add(time.Duration(rng.IntN(500)) * time.Millisecond)
			d := desks[rng.IntN(len(desks))]
			d.now = now
			switch rng.IntN(5) {
			case 0, 1, 2:
				name := fmt.Sprint(came)
				came++
				if h := d.enqueue(name, router.Request{Prefix: prompt(rng.Uint64N(30), 1+rng.IntN(80)), Tenant: fmt.Sprint(rng.IntN(3))}); h != nil {
					held[sent{d, name}] = h
				}
			case 3:
				release()
			case 4:
				for who, h := range held {
					if rng.IntN(4) == 0 && h.CancelAt(now) {
						cancelled++
					}
					delete(held, who)
					break
				}
			}
		}
		for release() {
			now = now.Add(time.Millisecond)
		}
		ended := 0
		for i, d := range desks {
			ended += len(d.sent)
			require.NoError(t, d.pool.CheckQueue())
			require.NoError(t, d.pool.CheckInvariants(nil))
			if n := d.pool.RemotelyHeld(); n != 0 || d.pool.QueueStatsAt(now).Length != 0 {
				t.Errorf("life %d: pool %d has %+v and knows of %d elsewhere, want nothing", number, i, d.pool.QueueStatsAt(now), n)
			}
		}
		if ended+cancelled != came {
			t.Errorf("life %d: %d of %d requests ended, %d were cancelled", number, ended, came, cancelled)
		}
	}
}
