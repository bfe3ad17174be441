package routertest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/router/routertest"
)

// pool makes a pool with a policy whose caches' size is known (0: learned).
func pool(p balancer.Policy, kvTokens int) func([]router.Endpoint) (router.Router, error) {
	return func(endpoints []router.Endpoint) (router.Router, error) {
		return router.New(router.Config{Endpoints: endpoints, Policy: p, KVCacheTokens: kvTokens})
	}
}

func swarm(t *testing.T, streams int, route func([]router.Endpoint) (router.Router, error)) *routertest.Result {
	t.Helper()
	w, err := routertest.Swarm(1, streams, 60*time.Second, 160*time.Second)
	require.NoError(t, err)
	r, err := routertest.Simulate(routertest.Scenario{Router: route, Workload: w})
	require.NoError(t, err)
	return r
}

// What the README promises, in virtual time: bounds with room for other seeds.
func TestSimulate_AffinityOnTheSwarm(t *testing.T) {
	affinity := swarm(t, 100, pool(nil, 400_000))
	if affinity.HitRate < 0.94 || affinity.TTFT.P50 > 300*time.Millisecond || affinity.TTFT.Mean > 700*time.Millisecond {
		t.Errorf("affinity: %+v", affinity)
	}
	if d := affinity.Predicted - affinity.HitRate; d < -0.02 || d > 0.02 {
		t.Errorf("predicted hit rate %.3f, real %.3f: more than two points apart", affinity.Predicted, affinity.HitRate)
	}
	for name, p := range map[string]balancer.Policy{"round robin": balancer.RoundRobin{}, "least load": balancer.LeastLoad{}} {
		if r := swarm(t, 100, pool(p, 400_000)); r.HitRate > 0.7 || r.TTFT.P50 < 5*affinity.TTFT.P50 {
			t.Errorf("%s: %+v, affinity: %+v", name, r, affinity)
		}
	}
}

// A pool that is told nothing about the size of the caches begins at 262,144
// tokens and ends near one that is told, as long as the fleet's memory is not
// short. (At 100 streams and 400,000 tokens it is, and the mean is half as much
// again.)
func TestSimulate_LearnedCapacity(t *testing.T) {
	for _, c := range []struct{ tokens, streams int }{{200_000, 20}, {400_000, 40}, {800_000, 40}} {
		mean := func(told int) (sum time.Duration) {
			for seed := range uint64(3) {
				w, err := routertest.Swarm(seed+1, c.streams, 200*time.Second, 400*time.Second)
				require.NoError(t, err)
				r, err := routertest.Simulate(routertest.Scenario{Router: pool(nil, told), KVCacheTokens: c.tokens, Workload: w})
				require.NoError(t, err)
				sum += r.TTFT.Mean / 3
			}
			return sum
		}
		told, learned := mean(c.tokens), mean(0)
		if float64(learned) > 1.10*float64(told) {
			t.Errorf("caches of %d tokens, %d streams: mean TTFT %v when learned, %v when told", c.tokens, c.streams, learned, told)
		}
	}
}

// The same figures on every architecture and in every run: only integers and
// floating point that no compiler fuses decide.
func TestSimulate_IsDeterministic(t *testing.T) {
	a, b := swarm(t, 30, pool(nil, 0)), swarm(t, 30, pool(nil, 0))
	require.Equal(t, a, b)
	if got := fmt.Sprint(a.Requests, a.TTFT.Mean, a.TTFT.P99); got != goldenSwarm {
		t.Errorf("requests, mean and p99 = %s, want %s", got, goldenSwarm)
	}
}

const goldenSwarm = "748 300.07995ms 3.067530255s"

func TestSimulate_Errors(t *testing.T) {
	w, err := routertest.Swarm(1, 1, 0, time.Second)
	require.NoError(t, err)
	for _, c := range []struct {
		says     string
		scenario routertest.Scenario
	}{
		{"Router is nil", routertest.Scenario{}},
		{"Endpoints -1", routertest.Scenario{Router: pool(nil, 0), Endpoints: -1}},
		{"KVCacheTokens", routertest.Scenario{Router: pool(nil, 0), KVCacheTokens: 3}},
		{"no endpoints", routertest.Scenario{Router: func([]router.Endpoint) (router.Router, error) { return router.New(router.Config{}) }, Workload: w}},
	} {
		if _, err := routertest.Simulate(c.scenario); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Simulate = %v, want an error that says %s", err, c.says)
		}
	}
	if _, err := routertest.Swarm(1, 0, 0, time.Second); err == nil {
		t.Error("a swarm of 0 streams: no error")
	}
	if _, err := routertest.Trace("no such file", 1, 0); err == nil {
		t.Error("a trace that does not exist: no error")
	}
}
