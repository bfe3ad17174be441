package router_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// busyPool is a pool of one endpoint that has a long prompt to compute, in the
// time of a synctest bubble.
func busyPool(t *testing.T, c router.Config) (*router.Pool, *router.Decision) {
	c.Endpoints = fleet(1)
	p := newPool(t, c)
	d := pick(t, p, router.Request{Prefix: &tokenprefix.Signature{Tokens: 10_000}, At: time.Now()})
	time.Sleep(time.Second)
	d.FirstToken()
	d.Release(router.Outcome{})
	return p, pick(t, p, router.Request{Prefix: &tokenprefix.Signature{Tokens: 500_000}, At: time.Now()})
}

func TestAcquire_WaitsUntilThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, busy := busyPool(t, router.Config{})
		time.AfterFunc(3*time.Second, busy.FirstToken)
		began := time.Now()
		d, err := p.Acquire(t.Context(), router.Request{Prefix: prompt(1, 60)})
		require.NoError(t, err)
		if waited := time.Since(began); waited != 3*time.Second || d.Waited != waited || d.Held != router.HeldForPrefill {
			t.Errorf("Acquire took %v, waited %v for %v, want 3 s for prefill", waited, d.Waited, d.Held)
		}
		d.Release(router.Outcome{})
		busy.Release(router.Outcome{})
		require.NoError(t, p.CheckQueue())
		require.NoError(t, p.CheckInvariants(nil))
	})
}

func TestAcquire_ContextEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, busy := busyPool(t, router.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		if d, err := p.Acquire(ctx, router.Request{Prefix: prompt(1, 60)}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire = %v, %v, want the context's error", d, err)
		}
		if waited := time.Since(began); waited != 2*time.Second {
			t.Errorf("Acquire took %v, want 2 s", waited)
		}
		if d, err := p.Acquire(ctx, router.Request{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire with a context that is done = %v, %v, want its error", d, err)
		}
		require.NoError(t, p.CheckQueue())
		busy.Release(router.Outcome{})
		require.NoError(t, p.CheckInvariants(nil))
	})
}

// Nobody else does anything, and still the longest wait is kept, the end of a
// back-pressure seen, and nothing runs when nobody waits.
func TestAcquire_Time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, busy := busyPool(t, router.Config{Queue: router.Queue{MaxWait: 5 * time.Second}})
		began := time.Now()
		_, err := p.Acquire(t.Context(), router.Request{Prefix: prompt(1, 60)})
		if waited := time.Since(began); !errors.Is(err, router.ErrSaturated) || waited < 5*time.Second || waited > 5*time.Second+router.PassInterval {
			t.Errorf("Acquire = %v after %v, want ErrSaturated after 5 s", err, waited)
		}
		busy.Release(router.Outcome{StatusCode: 503, RetryAfter: 3 * time.Second})
		began = time.Now()
		d, err := p.Acquire(t.Context(), router.Request{Prefix: prompt(1, 60)})
		require.NoError(t, err)
		if waited := time.Since(began); waited < 3*time.Second || waited > 3*time.Second+router.PassInterval || d.Held != router.HeldForRoom {
			t.Errorf("Acquire took %v and waited for %v, want 3 s for room", waited, d.Held)
		}
		d.Release(router.Outcome{})
		require.NoError(t, p.CheckQueue())
	})
}

// The callers' clock may run at another speed: what they wait is told in its time.
func TestAcquire_ClockOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, router.Config{Endpoints: fleet(1)})
		began := time.Now()
		now := func() time.Time { return start.Add(10 * time.Since(began)) }
		d := pick(t, p, router.Request{Prefix: &tokenprefix.Signature{Tokens: 10_000}, At: now()})
		time.Sleep(100 * time.Millisecond)
		d.FirstTokenAt(now())
		busy := pick(t, p, router.Request{Prefix: &tokenprefix.Signature{Tokens: 500_000}, At: now()})
		time.AfterFunc(310*time.Millisecond, func() { busy.FirstTokenAt(now()) }) // between two looks
		one, err := p.Acquire(t.Context(), router.Request{Prefix: prompt(1, 60), At: now()})
		require.NoError(t, err)
		if one.Waited != 3100*time.Millisecond || !one.At.Equal(now()) {
			t.Errorf("waited %v until %v, want 3.1 s until %v", one.Waited, one.At, now())
		}
	})
}

// Hooks run with no lock held: they may use the pool, also for what lets the next
// one go.
func TestAcquire_HooksMayUseThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *router.Pool
		waited := 0
		p, busy := busyPool(t, router.Config{Hooks: router.Hooks{
			Decided: func(d *router.Decision) {
				if d.Waited > 0 {
					waited++
					d.FirstToken()
					p.Stats()
					p.QueueStats()
				}
			},
			Announce: func(*router.Event) {
				if p != nil {
					p.DispatchAt(time.Now())
				}
			},
		}})
		var callers sync.WaitGroup
		for i := range uint64(10) {
			callers.Go(func() {
				d, err := p.Acquire(t.Context(), router.Request{Prefix: prompt(i, 60)})
				if err != nil {
					t.Error(err)
					return
				}
				d.Release(router.Outcome{})
			})
		}
		time.Sleep(time.Second)
		busy.Release(router.Outcome{})
		callers.Wait()
		if waited != 10 {
			t.Errorf("%d requests waited, want 10", waited)
		}
		require.NoError(t, p.CheckQueue())
		require.NoError(t, p.CheckInvariants(nil))
	})
}

// A panic of user code in a pass hits the caller of the request it was called for,
// not the one who made room, and nobody else who waits.
func TestAcquire_PanicsHitTheirCaller(t *testing.T) {
	defect := errors.New("a defect")
	for _, where := range []string{"policy", "eligible", "decided"} {
		synctest.Test(t, func(t *testing.T) {
			var armed atomic.Bool
			panics := func(here string, yes bool) {
				if armed.Load() && here == where && yes {
					panic(defect)
				}
			}
			const marked = 7 // the one with the defect has a prompt of so many tokens
			p, busy := busyPool(t, router.Config{
				Policy: policyFunc(func(i *balancer.PickInfo) (balancer.Choice, error) {
					panics("policy", i.PromptTokens == 60*router.BlockTokens+marked)
					return balancer.Affinity{}.Choose(i)
				}),
				Hooks: router.Hooks{Decided: func(d *router.Decision) {
					panics("decided", d.PromptTokens == 60*router.BlockTokens+marked)
				}},
			})
			var callers sync.WaitGroup
			var served, hit atomic.Int32
			for i := range uint64(3) {
				r := router.Request{Prefix: prompt(i, 60)}
				if i == 1 {
					r.Prefix.Tokens += marked
					r.Eligible = func(*router.Endpoint) bool { panics("eligible", true); return true }
				}
				callers.Go(func() {
					defer func() {
						if v := recover(); v != nil {
							hit.Add(1)
							if err, ok := v.(error); !ok || !errors.Is(err, defect) || i != 1 {
								t.Errorf("%s: caller %d saw a panic with %v", where, i, v)
							}
						}
					}()
					d, err := p.Acquire(t.Context(), r)
					if err != nil {
						t.Error(err)
						return
					}
					served.Add(1)
					d.Release(router.Outcome{})
				})
			}
			time.Sleep(router.PassInterval / 2)
			armed.Store(true)
			busy.FirstToken() // does not panic
			callers.Wait()
			if served.Load() != 2 || hit.Load() != 1 {
				t.Errorf("%s: %d were served and %d saw the panic, want 2 and 1", where, served.Load(), hit.Load())
			}
			busy.Release(router.Outcome{})
			require.NoError(t, p.CheckQueue())
			require.NoError(t, p.CheckInvariants(nil))
		})
	}
}

// Without a caller to panic it is an error.
func TestEnqueue_PanicsAreErrors(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1), KVCacheTokens: 400_000})
	first := pick(t, p, router.Request{Prefix: prompt(0, 60), At: start})
	first.FirstTokenAt(start.Add(time.Second)) // with which there is a speed
	first.ReleaseAt(start.Add(time.Second), router.Outcome{})
	busy := pick(t, p, router.Request{Prefix: prompt(1, 600), At: start.Add(time.Second)})
	armed := false
	var got error
	h := p.Enqueue(router.Request{Prefix: prompt(2, 60), At: start.Add(time.Second), Eligible: func(*router.Endpoint) bool {
		if armed {
			panic("a defect")
		}
		return true
	}}, func(d *router.Decision, err error) { got = err })
	if h == nil {
		t.Fatal("the request was not held")
	}
	armed = true
	busy.FirstTokenAt(start.Add(2 * time.Second))
	if got == nil || !strings.Contains(got.Error(), "a defect") {
		t.Errorf("ready was called with %v, want the panic", got)
	}
	busy.ReleaseAt(start.Add(2*time.Second), router.Outcome{})
	require.NoError(t, p.CheckQueue())
	require.NoError(t, p.CheckInvariants(nil))
}

func TestAcquire_ErrorsAreThoseOfPick(t *testing.T) {
	p := newPool(t, router.Config{})
	if _, err := p.Acquire(t.Context(), router.Request{}); !errors.Is(err, router.ErrNoEndpoints) {
		t.Errorf("Acquire of an empty pool: %v, want ErrNoEndpoints", err)
	}
	p = newPool(t, router.Config{Endpoints: fleet(2)})
	bad := &tokenprefix.Signature{Blocks: []uint64{1}, BlockTokens: 16}
	if _, err := p.Acquire(t.Context(), router.Request{Prefix: bad}); err == nil {
		t.Error("Acquire with blocks of 16 tokens has no error")
	}
	var err error
	for range 20 {
		if _, err = p.Acquire(t.Context(), router.Request{Exclude: []string{"e0"}}); err != nil {
			break
		}
	}
	if !errors.Is(err, router.ErrRetryBudget) {
		t.Errorf("Acquire of many retries: %v, want ErrRetryBudget", err)
	}
	p = newPool(t, router.Config{Endpoints: fleet(2), Policy: failing{}})
	if _, err := p.Acquire(t.Context(), router.Request{}); !errors.Is(err, errFailing) {
		t.Errorf("Acquire with a policy that fails: %v, want its error", err)
	}
	require.NoError(t, p.CheckQueue())
}

var errFailing = errors.New("failing")

type failing struct{}

func (failing) Choose(*balancer.PickInfo) (balancer.Choice, error) {
	return balancer.Choice{}, errFailing
}

// Many callers, cancellations and changes of the fleet at once: each call ends,
// and at the end nothing is left.
func TestAcquire_ManyAtOnce(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(3), KVCacheTokens: 60_000, MaxInFlight: 4, Queue: router.Queue{MaxLength: 20, Fair: true}})
	var callers, changes sync.WaitGroup
	done := make(chan struct{})
	changes.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
				if err := p.SetEndpoints(fleet(2 + n%2)); err != nil {
					t.Error(err)
				}
				p.QueueStats()
			}
		}
	})
	for c := range uint64(8) {
		callers.Go(func() {
			rng := rand.New(rand.NewPCG(c, 9))
			for range 150 {
				ctx, cancel := context.WithCancel(context.Background())
				if rng.IntN(3) == 0 {
					go cancel()
				}
				s := prompt(rng.Uint64N(20), 1+rng.IntN(60))
				d, err := p.Acquire(ctx, router.Request{Prefix: s, Tenant: fmt.Sprint(c % 3)})
				cancel()
				switch {
				case err == nil:
					if rng.IntN(4) > 0 {
						d.FirstToken()
					}
					d.Release(router.Outcome{StatusCode: 200})
				case !errors.Is(err, context.Canceled) && !errors.Is(err, router.ErrSaturated):
					t.Error(err)
				}
				clear(s.Blocks) // the caller's again
			}
		})
	}
	callers.Wait()
	close(done)
	changes.Wait()
	require.NoError(t, p.CheckQueue())
	require.NoError(t, p.CheckInvariants(nil))
	if got := p.QueueStats(); got.Length != 0 || got.Tokens != 0 || p.Tenants() != 0 {
		t.Errorf("%+v and %d tenants are left, want nothing", got, p.Tenants())
	}
}

// The same of two pools that share their order.
func TestAcquire_ManyAtOnceInTwoPools(t *testing.T) {
	bus := new(router.Bus)
	var pools []*router.Pool
	for i := range uint64(2) {
		p := newPool(t, router.Config{
			Endpoints: fleet(2), KVCacheTokens: 60_000, MaxInFlight: 3, Queue: router.Queue{Fair: i == 0},
			Origin: i + 1, Hooks: router.Hooks{Announce: bus.Announce},
		})
		require.NoError(t, bus.Join(p))
		pools = append(pools, p)
	}
	var callers sync.WaitGroup
	for c := range uint64(8) {
		callers.Go(func() {
			rng := rand.New(rand.NewPCG(c, 9))
			for range 80 {
				ctx, cancel := context.WithCancel(context.Background())
				if rng.IntN(3) == 0 {
					go cancel()
				}
				s := prompt(rng.Uint64N(20), 1+rng.IntN(60))
				d, err := pools[c%2].Acquire(ctx, router.Request{Prefix: s, Tenant: fmt.Sprint(c % 3)})
				cancel()
				*s = tokenprefix.Signature{} // the caller's again
				switch {
				case err == nil:
					d.FirstToken()
					d.Release(router.Outcome{StatusCode: 200})
				case !errors.Is(err, context.Canceled):
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	for i, p := range pools {
		p.DispatchAt(time.Now()) // takes out what ended elsewhere meanwhile
		require.NoError(t, p.CheckQueue())
		require.NoError(t, p.CheckInvariants(nil))
		if n := p.RemotelyHeld(); n != 0 {
			t.Errorf("pool %d believes that %d wait elsewhere", i, n)
		}
	}
}

func TestAcquire_AllocatesTheDecisionOnly(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	p, s := newPool(t, router.Config{Endpoints: fleet(16)}), prompt(1, 60)
	if n := testing.AllocsPerRun(1000, func() { uncontended(t, p, s, start) }); n > 1 {
		t.Errorf("an uncontended Acquire allocates %v times, want once", n)
	}
}
