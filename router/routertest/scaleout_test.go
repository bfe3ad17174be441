package routertest_test

import (
	"testing"
	"time"

	"github.com/warmroute/warmroute/router/routertest"
)

// C32: 2 endpoints become 4 under load. After the ramp each newcomer has its
// share, at no time most of it, and conversations don't all move.
func TestC32_ScaleOut(t *testing.T) {
	w := swarm(t, routertest.SwarmConfig{Seed: 1, Streams: 30, WarmUp: time.Second, Duration: 240 * time.Second})
	r := simulate(t, routertest.Scenario{Workload: w, Engines: make([]routertest.EngineSpec, 2), Changes: []routertest.Change{
		{At: 60 * time.Second, Kind: routertest.Join, Endpoint: 2},
		{At: 60 * time.Second, Kind: routertest.Join, Endpoint: 3},
	}})
	r.NoLeak(t)
	t.Logf("moved %d of %d later turns, lost %d", r.Moved, r.LaterTurns, r.Lost)
	var late [4]int
	total := 0
	for _, s := range r.Series {
		if s.At <= 60*time.Second {
			continue
		}
		sum := 0
		for _, e := range s.Endpoints {
			sum += e.Sent
		}
		for i, e := range s.Endpoints {
			if i >= 2 && sum >= 20 && e.Sent > sum*6/10 {
				t.Errorf("up to %v newcomer %d got %d of %d: a flood", s.At, i, e.Sent, sum)
			}
			if s.At > 120*time.Second {
				late[i] += e.Sent
				total += e.Sent
			}
		}
	}
	t.Logf("after the ramp: %v of %d", late, total)
	for i := 2; i < 4; i++ {
		if share := float64(late[i]) / float64(total); share < 0.15 || share > 0.35 {
			t.Errorf("newcomer %d has %.0f %% after the ramp, want 15 to 35 %%", i, 100*share)
		}
	}
}
