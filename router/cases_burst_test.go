package router_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router"
)

// 64 picks that have all seen the same idle fleet before any has reserved: each
// must look again, for the others' reservations count.
func TestC21_BurstThatSawTheSame(t *testing.T) {
	for name, policy := range map[string]balancer.Policy{"affinity": balancer.Affinity{}, "least": balancer.LeastLoad{}} {
		var seen atomic.Int32
		all := make(chan struct{})
		p := newPool(t, router.Config{Endpoints: fleet(8), Policy: policyFunc(func(info *balancer.PickInfo) (balancer.Choice, error) {
			c, err := policy.Choose(info)
			if n := seen.Add(1); n == 64 {
				close(all)
			}
			<-all
			return c, err
		})})
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() { pick(t, p, router.Request{}) })
		}
		wg.Wait()
		for id, n := range inFlight(p) {
			if n < 6 || n > 10 {
				t.Errorf("%s: %s got %d of 64, want 8 ± 2", name, id, n)
			}
		}
	}
}

// What is excluded is not picked however much speaks for it: warm, idle, and not
// known to have failed.
func TestC45_ExcludedHoweverWarm(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(4)})
	for k := range uint64(8) {
		r := router.Request{Prefix: prompt(k, 100)}
		home := pick(t, p, r)
		home.FirstTokenAt(start)
		home.ReleaseAt(start, router.Outcome{})
		r.Exclude = []string{home.Endpoint.ID}
		second := pick(t, p, r)
		r.Exclude = append(r.Exclude, second.Endpoint.ID)
		if second.Endpoint.ID == home.Endpoint.ID {
			t.Errorf("prompt %d: the retry met %s again", k, home.Endpoint.ID)
		}
		second.ReleaseAt(start, router.Outcome{Abandoned: true})
		r.Exclude = nil
		for range 10 { // first attempts, which earn the next retry
			d := pick(t, p, r)
			if d.Endpoint.ID != home.Endpoint.ID {
				t.Errorf("prompt %d: later on %s, want %s", k, d.Endpoint.ID, home.Endpoint.ID)
			}
			d.ReleaseAt(start, router.Outcome{})
		}
	}
}

// Requests stay counted at the endpoint that new picks see, not at one that has
// formally left, when the same set comes again, in another order or with other
// labels.
func TestC02_SameSetSameInstance(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(3)})
	for i := range 10 {
		pick(t, p, router.Request{Eligible: func(e *router.Endpoint) bool { return e.ID == fmt.Sprint("e", i%2) }})
	}
	for round := range 5 {
		set := fleet(3)
		set[0], set[2] = set[2], set[0]
		set[1].Labels = map[string]string{"round": fmt.Sprint(round)}
		require.NoError(t, p.SetEndpointsAt(start, set))
		stats := p.StatsAt(start)
		if len(stats) != 3 {
			t.Fatalf("round %d: %d endpoints are known, want 3", round, len(stats))
		}
		for i, want := range []int{5, 5, 0} {
			if s := stats[i]; s.Left || s.Load.InFlight != want {
				t.Errorf("round %d: %s has %d (left %v), want %d", round, s.Endpoint.ID, s.Load.InFlight, s.Left, want)
			}
		}
	}
	if d := pick(t, p, router.Request{}); d.Endpoint.ID != "e2" {
		t.Errorf("picked %s, want the idle e2", d.Endpoint.ID)
	}
}
