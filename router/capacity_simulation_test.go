package router_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/router/routertest"
)

// A fleet whose memory is nearly full, and whose engines nobody tells the size of,
// is about as fast as one that is told: whatever it starts from.
func TestSimulate_LearnedCapacityIsAsGoodAsAKnownOne(t *testing.T) {
	const engines, tokens, seeds = 8, 400_000, 4
	// run returns the mean time to the first token in milliseconds, and what is
	// believed in the end. Learning starts at the given capacity, or does not if
	// it is zero.
	run := func(seed uint64, first int) (mean float64, believed []int) {
		w, err := routertest.Swarm(routertest.SwarmConfig{Seed: seed, Streams: 150})
		require.NoError(t, err)
		s := routertest.Scenario{Workload: w, Engines: make([]routertest.EngineSpec, engines), Seed: seed}
		for i := range s.Engines {
			s.Engines[i].KVCacheTokens = tokens
			s.Engines[i].Configured = first
		}
		var pool *router.Pool
		s.Router = func(g *routertest.Gateway) (router.Router, error) {
			var err error
			if pool, err = router.New(g.Config()); err != nil || first == 0 {
				return pool, err
			}
			return pool, pool.SetEndpointsAt(time.Unix(1_000_000, 0), fleet(engines)) // forgets the configuration
		}
		r, err := routertest.Simulate(s)
		require.NoError(t, err)
		for _, e := range pool.StatsAt(time.Unix(1_000_400, 0)) {
			believed = append(believed, e.Load.CapacityTokens)
		}
		return float64(r.TTFT.Mean) / float64(time.Millisecond), believed
	}
	means := map[int]float64{}
	for _, first := range []int{0, tokens / 2, tokens * 2} {
		for seed := range uint64(seeds) {
			mean, believed := run(seed+1, first)
			means[first] += mean / seeds
			sum := 0
			for _, got := range believed {
				sum += got
			}
			if share := float64(sum) / (engines * tokens); first != 0 && (share < 0.92 || share > 1.08) {
				t.Errorf("from %d, seed %d: the engines are believed to have %.2f of what they have", first, seed+1, share)
			}
		}
		t.Logf("from %d: %.0f ms", first, means[first])
	}
	for first, mean := range means {
		if mean > 1.25*means[0] {
			t.Errorf("from %d: mean TTFT %.0f ms, want at most a quarter more than the %.0f ms of a known capacity", first, mean, means[0])
		}
	}
}

// Engines of two kinds in one fleet: the small ones don't keep the large ones from
// being taken for what they are.
func TestSimulate_LearnedCapacitiesOfAMixedFleet(t *testing.T) {
	const engines, seeds = 8, 3
	run := func(seed uint64, unknown bool) time.Duration {
		w, err := routertest.Swarm(routertest.SwarmConfig{Seed: seed, Streams: 100})
		require.NoError(t, err)
		s := routertest.Scenario{Workload: w, Engines: make([]routertest.EngineSpec, engines), Seed: seed}
		for i := range s.Engines {
			s.Engines[i].KVCacheTokens = 200_000 + i%2*400_000
			if unknown {
				s.Engines[i].Configured = -1
			}
		}
		var pool *router.Pool
		s.Router = func(g *routertest.Gateway) (router.Router, error) {
			var err error
			pool, err = router.New(g.Config())
			return pool, err
		}
		r, err := routertest.Simulate(s)
		require.NoError(t, err)
		large := 0
		for i, e := range pool.StatsAt(time.Unix(1_000_400, 0)) {
			believed := e.Load.CapacityTokens
			if i%2 == 0 && believed > 220_000 {
				t.Errorf("seed %d: %s is believed to have %d tokens, has 200,000", seed, e.Endpoint.ID, believed)
			} else if i%2 == 1 {
				large += believed
			}
		}
		if mean := large / (engines / 2); mean < 500_000 || mean > 700_000 {
			t.Errorf("seed %d: the large ones are believed to have %d tokens, have 600,000", seed, mean)
		}
		return r.TTFT.Mean
	}
	var known, learned time.Duration
	for seed := range uint64(seeds) {
		known += run(seed+1, false)
		learned += run(seed+1, true)
	}
	if learned > known*5/4 {
		t.Errorf("mean TTFT %v, want at most a quarter more than the %v of known capacities", learned/seeds, known/seeds)
	}
}
