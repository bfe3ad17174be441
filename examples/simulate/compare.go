package main

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/warmroute/warmroute/router/routertest"
)

// result is what became of a policy.
type result struct {
	policy policy
	row    row
	all    []*routertest.Result // of each seed
}

// row are the figures of a policy, times in milliseconds.
type row struct {
	Policy    string  `json:"policy"`
	Requests  float64 `json:"requests"`
	HitRate   float64 `json:"hit_rate"`
	TTFTMean  float64 `json:"ttft_mean"`
	TTFTP50   float64 `json:"ttft_p50"`
	TTFTP90   float64 `json:"ttft_p90"`
	TTFTP99   float64 `json:"ttft_p99"`
	E2EP50    float64 `json:"e2e_p50"`
	E2EP99    float64 `json:"e2e_p99"`
	TPOT      float64 `json:"tpot"`
	Rate      float64 `json:"req_s"`
	Imbalance float64 `json:"imbalance"`
	Timeouts  float64 `json:"timeouts"`
	Lost      float64 `json:"lost"`
	TTFTMax   float64 `json:"ttft_max"`
	Greedy    float64 `json:"greedy_ttft_mean"` // of the greedy tenant
	Busy      float64 `json:"busy"`             // time of all engines with something to compute
}

// compare simulates each policy for each seed, as many at a time as there are
// processors. The results are in the order of the policies.
func (o *options) compare(ctx context.Context, p *progress) ([]result, error) {
	workloads := make([]routertest.Workload, o.seeds)
	for i := range workloads {
		var err error
		if workloads[i], err = o.workload(o.seed + uint64(i)); err != nil {
			return nil, err
		}
	}
	p.start(len(o.policies) * o.seeds)
	defer p.end()
	all := make([]*routertest.Result, len(o.policies)*o.seeds)
	errs := make([]error, len(all))
	var work sync.WaitGroup
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range all {
		policy, k := o.policies[i/o.seeds], i%o.seeds
		places <- struct{}{}
		work.Go(func() {
			defer func() { <-places }()
			if errs[i] = ctx.Err(); errs[i] != nil {
				return
			}
			s := o.scenario(workloads[k], o.seed+uint64(k))
			policy.set(o, &s)
			all[i], errs[i] = routertest.Simulate(s)
			p.done(policy.name)
		})
	}
	work.Wait()
	if err := cmp.Or(errs...); err != nil { // what is wrong with a scenario is so for all policies
		return nil, err
	}
	results := make([]result, len(o.policies))
	for i, policy := range o.policies {
		some := all[i*o.seeds : (i+1)*o.seeds]
		results[i] = result{policy, meanOf(policy.name, some), some}
	}
	return results, nil
}

// meanOf is the mean of the figures over the seeds.
func meanOf(name string, results []*routertest.Result) row {
	n := float64(len(results))
	mean := func(of func(*routertest.Result) float64) float64 {
		sum := 0.0
		for _, r := range results {
			sum += of(r)
		}
		return sum / n
	}
	ms := func(of func(*routertest.Result) time.Duration) float64 {
		return mean(func(r *routertest.Result) float64 { return of(r).Seconds() * 1000 })
	}
	return row{
		Policy:    name,
		Requests:  mean(func(r *routertest.Result) float64 { return float64(r.Requests) }),
		HitRate:   mean(func(r *routertest.Result) float64 { return r.HitRate }),
		TTFTMean:  ms(func(r *routertest.Result) time.Duration { return r.TTFT.Mean }),
		TTFTP50:   ms(func(r *routertest.Result) time.Duration { return r.TTFT.P50 }),
		TTFTP90:   ms(func(r *routertest.Result) time.Duration { return r.TTFT.P90 }),
		TTFTP99:   ms(func(r *routertest.Result) time.Duration { return r.TTFT.P99 }),
		E2EP50:    ms(func(r *routertest.Result) time.Duration { return r.E2E.P50 }),
		E2EP99:    ms(func(r *routertest.Result) time.Duration { return r.E2E.P99 }),
		TPOT:      ms(func(r *routertest.Result) time.Duration { return r.TPOT }),
		Rate:      mean(func(r *routertest.Result) float64 { return r.Rate }),
		Imbalance: mean(func(r *routertest.Result) float64 { return r.Imbalance }),
		Timeouts:  mean(func(r *routertest.Result) float64 { return float64(r.Timeouts) }),
		Lost:      mean(func(r *routertest.Result) float64 { return float64(r.Lost) }),
		TTFTMax:   ms(func(r *routertest.Result) time.Duration { return r.TTFT.Max }),
		Greedy:    ms(func(r *routertest.Result) time.Duration { return r.Greedy.Mean }),
		Busy: ms(func(r *routertest.Result) (sum time.Duration) {
			for _, e := range r.Endpoints {
				sum += e.Busy
			}
			return sum
		}),
	}
}
