package router_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
)

// Every engine reports that it is full, memory and all. Then a hot key goes on to
// the least loaded, not to its owner for ever.
func TestC33_EveryoneReportsFull(t *testing.T) {
	for name, policy := range map[string]balancer.Policy{"affinity": nil, "bounded": balancer.BoundedLoad{}, "least": balancer.LeastLoad{}} {
		var table loadstats.Table
		for _, e := range fleet(3) {
			table.Report(e.ID, loadstats.Report{At: start, Running: loadstats.Known(256), Waiting: loadstats.Known(100), KVCacheUsage: loadstats.Ratio(1)})
		}
		p := newPool(t, router.Config{Endpoints: fleet(3), Policy: policy, Reports: &table})
		for range 300 {
			pick(t, p, router.Request{Key: "hot"}).FirstTokenAt(start)
		}
		for id, n := range inFlight(p) {
			if n < 40 || n > 160 {
				t.Errorf("%s: %s has %d of 300, want about 100", name, id, n)
			}
		}
	}
}

// Every endpoint is at its own bound, for all have just come and ramp up. The
// policy that would always take the first has no say then.
func TestC33_AllAtTheirBound(t *testing.T) {
	p := newPool(t, router.Config{
		Endpoints: []router.Endpoint{{ID: "old", Weight: 1}}, SlowStart: time.Hour, Bound: balancer.Bound{Factor: 1},
		Policy: policyFunc(func(*balancer.PickInfo) (balancer.Choice, error) { return balancer.Choice{}, nil }),
	})
	require.NoError(t, p.SetEndpointsAt(start, append(fleet(3), router.Endpoint{ID: "old"})))
	for range 30 {
		pick(t, p, router.Request{Key: "hot"})
	}
	for id, n := range inFlight(p) {
		if id != "old" && n != 10 {
			t.Errorf("%s has %d of 30, want 10", id, n)
		}
	}
}

// One that was never asked is neither the most idle nor the least: its own count
// alone speaks, against what others report, in both directions.
func TestC50_NeverScraped(t *testing.T) {
	for name, policy := range map[string]balancer.Policy{"affinity": nil, "least": balancer.LeastLoad{}, "bounded": balancer.BoundedLoad{}} {
		for _, c := range []struct {
			own              int // requests of our own at e0, of which nothing is reported
			running, waiting int64
			want             string
		}{{0, 0, 1, "e0"}, {8, 0, 1, "e1"}, {8, 1, 0, "e1"}, {2, 9, 3, "e0"}} {
			var table loadstats.Table
			p := newPool(t, router.Config{Endpoints: fleet(2), Policy: policy, Reports: &table})
			for range c.own {
				pick(t, p, only("e0", start)).FirstTokenAt(start)
			}
			table.Report("e1", loadstats.Report{At: start, Running: loadstats.Known(c.running), Waiting: loadstats.Known(c.waiting)})
			if d := pick(t, p, router.Request{}); d.Endpoint.ID != c.want {
				t.Errorf("%s, %+v: picked %s", name, c, d.Endpoint.ID)
			}
		}
	}
}

// A reporter that says 0 for 18 s, again and again, while requests pile up.
func TestC22_ReporterStuckAtZero(t *testing.T) {
	for name, policy := range map[string]balancer.Policy{"affinity": nil, "least": balancer.LeastLoad{}} {
		var table loadstats.Table
		p := newPool(t, router.Config{Endpoints: fleet(4), Policy: policy, Reports: &table})
		for i := range 40 {
			at := start.Add(time.Duration(i) * 450 * time.Millisecond)
			for _, e := range fleet(4) {
				table.Report(e.ID, loadstats.Report{At: at, Running: loadstats.Known(0), Waiting: loadstats.Known(0), KVCacheUsage: loadstats.Ratio(0)})
			}
			pick(t, p, router.Request{At: at}).FirstTokenAt(at)
		}
		for id, n := range inFlight(p) {
			if n != 10 {
				t.Errorf("%s: %s has %d of 40, want 10", name, id, n)
			}
		}
	}
}

// A set with a bad weight is refused as a whole; the old one stays in force.
func TestC44_BadWeightLeavesTheOldSet(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(2)})
	for _, w := range []int{-1, 1_000_000_000} {
		if err := p.SetEndpointsAt(start, []router.Endpoint{{ID: "new", Weight: 1}, {ID: "bad", Weight: w}}); err == nil {
			t.Errorf("weight %d: no error", w)
		}
		ids := map[string]int{}
		for range 20 {
			ids[pick(t, p, router.Request{}).Endpoint.ID]++
		}
		if len(p.StatsAt(start)) != 2 || ids["e0"] != 10 || ids["e1"] != 10 {
			t.Errorf("weight %d: picks %v", w, ids)
		}
	}
}

// Keys crafted to have one home, by someone who knows the hash: beyond the bound
// they go elsewhere, whatever the policy.
func TestC95_CraftedKeysObeyTheBound(t *testing.T) {
	home := newPool(t, router.Config{Endpoints: fleet(8)})
	var crafted []string
	for i := 0; len(crafted) < 1000; i++ {
		k := fmt.Sprint("key ", i)
		d := pick(t, home, router.Request{Key: k})
		if d.Home == "e3" {
			crafted = append(crafted, k)
		}
		d.ReleaseAt(start, router.Outcome{Abandoned: true})
	}
	for name, c := range map[string]router.Config{
		"affinity": {Bound: balancer.Bound{Factor: 1.25}},
		"bounded":  {Policy: balancer.BoundedLoad{}},
		"as it is": {},
	} {
		c.Endpoints = fleet(8)
		p := newPool(t, c)
		for _, k := range crafted {
			pick(t, p, router.Request{Key: k})
		}
		limit := 157 // ceil(1.25·1000/8)
		if name == "as it is" {
			limit = 376
		}
		if n := inFlight(p)["e3"]; n > limit {
			t.Errorf("%s: %d of 1,000 crafted keys on their home, want at most %d", name, n, limit)
		}
	}
}

// A retry after a dial failure in the start-up window must not depend on anything
// that has not arrived yet, nor on there being a breaker.
func TestC109_AllUnknownAllRefuse(t *testing.T) {
	var table loadstats.Table
	p := newPool(t, router.Config{Endpoints: fleet(3), Reports: &table})
	var tried []string
	for range 3 {
		d := pick(t, p, router.Request{Prefix: prompt(1, 5), Exclude: tried})
		tried = append(tried, d.Endpoint.ID)
		d.ReleaseAt(start, refused)
	}
	if _, err := p.Pick(router.Request{At: start, Prefix: prompt(1, 5), Exclude: tried}); !errors.Is(err, router.ErrNoEndpoints) {
		t.Errorf("all tried: %v, want ErrNoEndpoints", err)
	}
	pick(t, p, router.Request{Prefix: prompt(1, 5)}) // one round of refusals closes nobody
}
