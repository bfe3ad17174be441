package router_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router"
)

// Errors and timeouts that never decremented; entries kept by address that gave
// a phantom load to whoever used the address next.
func TestC07_FailuresReleaseTheirPlace(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1)})
	for _, o := range []router.Outcome{refused, {Err: errors.New("timeout awaiting headers")}, {StatusCode: 500}, {StatusCode: 504}} {
		pick(t, p, router.Request{}).ReleaseAt(start, o)
		if got := inFlight(p)["e0"]; got != 0 {
			t.Errorf("%+v: %d in flight, want 0", o, got)
		}
	}
	late := pick(t, p, router.Request{})
	require.NoError(t, p.SetEndpoints(nil))
	require.NoError(t, p.SetEndpoints(fleet(1)))
	if s := p.StatsAt(start); len(s) != 2 || s[0].Load.InFlight != 0 || s[0].Load.FailureShare != 0 || s[0].Picks != 0 {
		t.Errorf("the same address again starts with %+v", s)
	}
	late.ReleaseAt(start, refused)
	if s := p.StatsAt(start); len(s) != 1 || s[0].Load.InFlight != 0 || s[0].Load.FailureShare != 0 {
		t.Errorf("a late failure of the old instance counts for the new one: %+v", s)
	}
}

// One or two endpoints and a bound that is hardly above the mean.
func TestC36_TinyFleets(t *testing.T) {
	for n := 1; n <= 2; n++ {
		p := newPool(t, router.Config{Endpoints: fleet(n), Bound: balancer.Bound{Factor: 1.01}, Policy: balancer.BoundedLoad{Bound: balancer.Bound{Factor: 1.01}}})
		for i := range 20 {
			if d := pick(t, p, router.Request{Key: "one"}); d.InFlight > (i+1)/n {
				t.Errorf("%d endpoints, request %d: %v", n, i, d)
			}
		}
	}
}

// Fleets that grow one by one, past whatever a fixed partition count can bear.
func TestC37_GrowingAndShrinking(t *testing.T) {
	p := newPool(t, router.Config{})
	homes := make([]string, 50)
	for n := 1; n <= 200; n++ {
		require.NoError(t, p.SetEndpointsAt(start, fleet(n)))
		for k := range homes {
			d := pick(t, p, router.Request{Key: fmt.Sprint("key ", k)})
			d.ReleaseAt(start, router.Outcome{Abandoned: true})
			if d.Home != homes[k] && n > 1 && d.Home != fmt.Sprint("e", n-1) {
				t.Fatalf("key %d moved from %s to %s when e%d joined", k, homes[k], d.Home, n-1)
			}
			homes[k] = d.Home
		}
	}
	for n := 199; n >= 1; n-- {
		require.NoError(t, p.SetEndpointsAt(start, fleet(n)))
		for k := range homes {
			d := pick(t, p, router.Request{Key: fmt.Sprint("key ", k)})
			d.ReleaseAt(start, router.Outcome{Abandoned: true})
			if d.Home != homes[k] && homes[k] != fmt.Sprint("e", n) {
				t.Fatalf("key %d moved from %s to %s when e%d left", k, homes[k], d.Home, n)
			}
			homes[k] = d.Home
		}
	}
}

// The empty pool, and the last endpoint that leaves during a pick.
func TestC38_NobodyThere(t *testing.T) {
	var p *router.Pool
	p = newPool(t, router.Config{Policy: policyFunc(func(info *balancer.PickInfo) (balancer.Choice, error) {
		require.NoError(t, p.SetEndpoints(nil))
		return balancer.Choice{}, nil
	})})
	for range 2 {
		for _, r := range []router.Request{{}, {Key: "k"}, {Prefix: prompt(1, 5)}, {Exclude: []string{"e0"}}} {
			if _, err := p.Pick(r); !errors.Is(err, router.ErrNoEndpoints) {
				t.Errorf("Pick(%+v) = %v, want ErrNoEndpoints", r, err)
			}
		}
		if s := p.Stats(); len(s) != 0 {
			t.Errorf("Stats() = %+v", s)
		}
		require.NoError(t, p.SetEndpoints(fleet(1))) // the next pick removes it
	}
}

// Names that run together with a number behind them.
func TestC41_NamesThatCollide(t *testing.T) {
	all := []router.Endpoint{{ID: "w1", Weight: 1}, {ID: "w11", Weight: 1}, {ID: "w", Weight: 1}, {ID: "w1/1", Weight: 1}}
	p := newPool(t, router.Config{Endpoints: all})
	home := func(k int) string {
		d := pick(t, p, router.Request{Key: fmt.Sprint(k)})
		d.ReleaseAt(start, router.Outcome{Abandoned: true})
		return d.Home
	}
	var before [500]string
	share := map[string]int{}
	for k := range before {
		before[k] = home(k)
		share[before[k]]++
	}
	for _, e := range all {
		if n := share[e.ID]; n < 80 || n > 170 {
			t.Errorf("%s is the home of %d of 500 keys, want about 125", e.ID, n)
		}
	}
	require.NoError(t, p.SetEndpoints([]router.Endpoint{all[0], all[2], all[3]}))
	for k := range before {
		if after := home(k); after != before[k] && before[k] != "w11" {
			t.Errorf("key %d moved from %s to %s when w11 left", k, before[k], after)
		}
	}
}

// "No instances" where "overloaded" was meant, and the other way round.
func TestC46_SaturatedIsNotEmpty(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(2), MaxInFlight: 1})
	pick(t, p, router.Request{})
	pick(t, p, router.Request{})
	var full *router.SaturatedError
	_, err := p.Pick(router.Request{At: start})
	if !errors.As(err, &full) || errors.Is(err, router.ErrNoEndpoints) || full.RetryAfter != time.Second {
		t.Errorf("all full: %v, want saturated for a second", err)
	}
	if _, err := p.Pick(router.Request{At: start, Exclude: []string{"e0", "e1"}}); !errors.Is(err, router.ErrNoEndpoints) || errors.Is(err, router.ErrSaturated) {
		t.Errorf("all excluded: %v, want ErrNoEndpoints", err)
	}
	require.NoError(t, p.SetEndpoints(nil))
	if _, err := p.Pick(router.Request{At: start}); !errors.Is(err, router.ErrNoEndpoints) || errors.Is(err, router.ErrSaturated) {
		t.Errorf("none registered: %v, want ErrNoEndpoints", err)
	}
}

// An endpoint that fills between the choice and the sending.
func TestC49_PickAndReserveAreOneStep(t *testing.T) {
	var p *router.Pool
	nested := 0
	p = newPool(t, router.Config{Endpoints: fleet(2), MaxInFlight: 1, Policy: policyFunc(func(info *balancer.PickInfo) (balancer.Choice, error) {
		if nested < 1 {
			nested++
			pick(t, p, only("e0", start))
		}
		return prefer("e0").Choose(info)
	})})
	if d := pick(t, p, router.Request{}); d.Endpoint.ID != "e1" {
		t.Errorf("picked %v, which is full", d)
	}
	require.NoError(t, p.CheckInvariants(map[string]int{"e0": 1, "e1": 1}))
}
