package router_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router"
)

// A membership change between the choice of an endpoint and the reservation
// there must make the pick choose again: whoever drains an endpoint and waits
// until it is idle is about to switch it off.
func TestPick_ChoosesAgainWhenTheEndpointCloses(t *testing.T) {
	for _, c := range []struct {
		name string
		next []router.Endpoint
	}{
		{"drains", []router.Endpoint{{ID: "e0"}, {ID: "e1", Weight: 1}}},
		{"leaves", []router.Endpoint{{ID: "e1", Weight: 1}}},
	} {
		var p *router.Pool
		asked := 0
		p = newPool(t, router.Config{Endpoints: fleet(2), Policy: policyFunc(func(info *balancer.PickInfo) (balancer.Choice, error) {
			asked++
			for i := range info.Candidates {
				if info.Candidates[i].ID == "e0" {
					require.NoError(t, p.SetEndpointsAt(start, c.next))
					require.NoError(t, p.WaitIdle(t.Context(), "e0"))
					return balancer.Choice{Index: i}, nil
				}
			}
			return balancer.Choice{}, nil
		})})
		if d := pick(t, p, router.Request{}); d.Endpoint.ID != "e1" || asked != 2 {
			t.Errorf("e0 %s: picked %s after asking the policy %d times, want e1 after 2", c.name, d.Endpoint.ID, asked)
		}
		require.NoError(t, p.CheckInvariants(map[string]int{"e1": 1}), c.name)
	}
}

// What is in flight on an endpoint that leaves or changes its address is visible
// at every moment of the change.
func TestStats_LosesNothingDuringAChange(t *testing.T) {
	for round := range 200 {
		p := newPool(t, router.Config{Endpoints: fleet(2), Policy: balancer.RoundRobin{}})
		pick(t, p, router.Request{})
		pick(t, p, router.Request{})
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := p.SetEndpointsAt(start, fleet(1)); err != nil {
				t.Error(err)
			}
		})
		for range 20 {
			if got := inFlight(p); got["e0"] != 1 || got["e1"] != 1 {
				t.Fatalf("round %d: in flight %v, want one each", round, got)
			}
		}
		wg.Wait()
	}
}

// What somebody waits for is one endpoint, whether it stays or left.
func TestWaitIdle_OneEndpointOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, router.Config{Endpoints: fleet(3)})
		var held [3]*router.Decision
		for i := range held {
			held[i] = pick(t, p, only(fmt.Sprint("e", i), start))
		}
		require.NoError(t, p.SetEndpoints(fleet(2))) // e2 leaves
		if err := p.WaitIdle(t.Context(), "unknown"); err != nil {
			t.Errorf("WaitIdle(unknown) = %v, want nil at once", err)
		}
		for i, id := range []string{"e0", "e1", "e2"} { // e0 and e1 stay
			var done [2]bool
			for k := range done {
				go func() {
					if err := p.WaitIdle(t.Context(), id); err != nil {
						t.Errorf("WaitIdle(%s) = %v", id, err)
					}
					done[k] = true
				}()
			}
			synctest.Wait()
			if done[0] || done[1] {
				t.Fatalf("WaitIdle(%s) returned with a request in flight", id)
			}
			held[i].Release(router.Outcome{})
			synctest.Wait()
			if !done[0] || !done[1] {
				t.Errorf("WaitIdle(%s) did not return after the last release", id)
			}
		}
	})
}
