package router_test

import (
	"sync"
	"testing"

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
