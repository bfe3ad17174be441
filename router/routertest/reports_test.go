package routertest_test

import (
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router/routertest"
)

// meanTTFT is that of a swarm of 100 agents, over some seeds.
func meanTTFT(t *testing.T, reports routertest.Reports) time.Duration {
	t.Helper()
	const seeds = 2
	var sum time.Duration
	for seed := range uint64(seeds) {
		w := swarm(t, routertest.SwarmConfig{Seed: seed + 1, Streams: 100, WarmUp: 40 * time.Second, Duration: 120 * time.Second})
		sum += simulate(t, routertest.Scenario{Workload: w, Reports: reports}).TTFT.Mean
	}
	return sum / seeds
}

// odd says whether a report is one of those that a fault spares.
func odd(endpoint string) bool { return endpoint[1]%2 == 1 }

func claim(r *loadstats.Report, running, waiting int64, usage float64) {
	r.Running, r.Waiting, r.KVCacheUsage = loadstats.Known(running), loadstats.Known(waiting), loadstats.Ratio(usage)
}

// Whatever is wrong with the engines' reports, a gateway is hardly worse off than
// one without any; and one that is alone doesn't care how old they are.
func TestSimulate_ReportsDoNoHarm(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	none := meanTTFT(t, routertest.Reports{})
	for name, r := range map[string]routertest.Reports{
		"each 50 ms":       {Every: 50 * time.Millisecond},
		"each 5 s":         {Every: 5 * time.Second, Late: 500 * time.Millisecond},
		"4 s old":          {Late: 4 * time.Second},
		"half are missing": {Alter: func(e string, _ *loadstats.Report) bool { return odd(e) }},
		"they stop":        {Alter: func(_ string, r *loadstats.Report) bool { return r.At.Sub(start) < 50*time.Second }},
		"half claim to be idle": {Alter: func(e string, r *loadstats.Report) bool {
			if !odd(e) {
				claim(r, 0, 0, 0)
			}
			return true
		}},
		"one claims to be full": {Alter: func(e string, r *loadstats.Report) bool {
			if e == "e3" {
				claim(r, 256, 50, 1)
			}
			return true
		}},
		"half claim to be full": {Alter: func(e string, r *loadstats.Report) bool {
			if !odd(e) {
				claim(r, 256, 50, 1)
			}
			return true
		}},
		"numbers without a meaning": {Alter: func(e string, r *loadstats.Report) bool {
			x := xxhash.Sum64String(e + r.At.String())
			claim(r, int64(x%256), int64(x>>8%64), float64(x>>16%100)/100)
			r.KVCacheTokens = loadstats.Known(int64(x >> 24 % 1_000_000))
			return x>>60 > 3
		}},
	} {
		if r.Every == 0 {
			r.Every = 500 * time.Millisecond
		}
		got := meanTTFT(t, r)
		if float64(got) > 1.1*float64(none) {
			t.Errorf("%s: mean TTFT %v, without reports %v", name, got, none)
		}
	}
}
