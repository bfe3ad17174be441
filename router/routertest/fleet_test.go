package routertest_test

import (
	"slices"
	"testing"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/router/routertest"
)

func TestPolicies_Conform(t *testing.T) {
	for name, p := range map[string]balancer.Policy{
		"affinity": balancer.Affinity{}, "bounded_load": balancer.BoundedLoad{}, "least_load": balancer.LeastLoad{},
		"power_of_two": balancer.PowerOfTwo{}, "round_robin": balancer.RoundRobin{},
	} {
		t.Run(name, func(t *testing.T) { routertest.TestPolicy(t, p) })
	}
}

func TestPrompt_LaterTurnsExtendEarlierOnes(t *testing.T) {
	short, long := routertest.Prompt(1, 1024, 512), routertest.Prompt(1, 1024, 2048)
	if len(short.Blocks) != 6 || len(long.Blocks) != 12 || !slices.Equal(short.Blocks, long.Blocks[:6]) {
		t.Errorf("blocks %d and %d, want 6 that begin 12", len(short.Blocks), len(long.Blocks))
	}
	other := routertest.Prompt(2, 1024, 512)
	if !slices.Equal(short.Blocks[:4], other.Blocks[:4]) || short.Blocks[4] == other.Blocks[4] || short.Tail == other.Tail {
		t.Error("conversations must share the system part and nothing else")
	}
	if routertest.Prompt(1, 2048, 0).Blocks[0] == short.Blocks[0] {
		t.Error("system parts of other sizes must differ")
	}
}

func TestFleet_SetInFlight(t *testing.T) {
	f := routertest.NewFleet(t, 3, router.Config{})
	f.SetInFlight("e1", 5)
	f.SetInFlight("e1", 2)
	for _, s := range f.Pool.StatsAt(f.Now()) {
		want := 0
		if s.Endpoint.ID == "e1" {
			want = 2
		}
		if s.Load.InFlight != want || s.Load.Backlog != 0 {
			t.Errorf("%s has %d in flight, a backlog of %d, want %d and 0", s.Endpoint.ID, s.Load.InFlight, s.Load.Backlog, want)
		}
	}
}
