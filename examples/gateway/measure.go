package main

import (
	"math"
	"slices"
	"sync"
	"time"
)

// sample is one request as its client saw it. Times are model time.
type sample struct {
	sent         time.Duration // since the start of the run
	ttft, e2e    time.Duration
	promptTokens int
	cachedTokens int
	err          error // the request was lost
}

// measurement collects samples. It is safe for concurrent use.
type measurement struct {
	from time.Duration // requests sent earlier are warm-up

	mu      sync.Mutex
	begun   int // requests that count, including those under way
	total   int // answered requests, warm-up included
	samples []sample
}

// begin notes that a request is sent now, and says if it still may, given a
// limit on those that count (zero: none).
func (m *measurement) begin(now time.Duration, limit int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now < m.from {
		return true
	}
	if limit > 0 && m.begun >= limit {
		return false
	}
	m.begun++
	return true
}

// end takes the sample of a request that was begun.
func (m *measurement) end(s sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total++
	if s.sent >= m.from {
		m.samples = append(m.samples, s)
	}
}

// milliseconds of model time, rounded to what is worth reading.
type milliseconds float64

// result is what a run has shown of its policy.
type result struct {
	Policy   string  `json:"policy"`
	Requests int     `json:"requests"` // that count and were answered
	Lost     int     `json:"lost"`     // that count and were not
	HitRate  float64 `json:"hit_rate"` // cached share of all prompt tokens
	TTFT     struct {
		Mean milliseconds `json:"mean"`
		P50  milliseconds `json:"p50"`
		P90  milliseconds `json:"p90"`
		P99  milliseconds `json:"p99"`
	} `json:"ttft_ms"`
	E2E struct {
		P50 milliseconds `json:"p50"`
		P99 milliseconds `json:"p99"`
	} `json:"e2e_ms"`
	RequestsPerSecond float64 `json:"req_s"`
	Imbalance         float64 `json:"imbalance"` // busy time of engines, max/mean

	firstError error // of the lost ones
}

// result sums up, for requests sent until the given time.
func (m *measurement) result(policy string, until time.Duration, busy []time.Duration) result {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := result{Policy: policy}
	var ttft, e2e []time.Duration
	prompt, cached := 0, 0
	for _, s := range m.samples {
		if s.err != nil {
			r.Lost++
			if r.firstError == nil {
				r.firstError = s.err
			}
			continue
		}
		ttft, e2e = append(ttft, s.ttft), append(e2e, s.e2e)
		prompt += s.promptTokens
		cached += s.cachedTokens
	}
	slices.Sort(ttft)
	slices.Sort(e2e)
	r.Requests = len(ttft)
	r.HitRate = round(ratio(float64(cached), float64(prompt)), 4)
	r.TTFT.Mean = mean(ttft)
	r.TTFT.P50, r.TTFT.P90, r.TTFT.P99 = quantile(ttft, 0.5), quantile(ttft, 0.9), quantile(ttft, 0.99)
	r.E2E.P50, r.E2E.P99 = quantile(e2e, 0.5), quantile(e2e, 0.99)
	r.RequestsPerSecond = round(ratio(float64(r.Requests), (until-m.from).Seconds()), 2)
	r.Imbalance = round(imbalance(busy), 3)
	return r
}

func mean(sorted []time.Duration) milliseconds {
	var sum time.Duration
	for _, d := range sorted {
		sum += d
	}
	return inMilliseconds(ratio(float64(sum), float64(len(sorted))))
}

// quantile is the smallest value that at least the share q is not above.
func quantile(sorted []time.Duration, q float64) milliseconds {
	if len(sorted) == 0 {
		return 0
	}
	i := max(0, int(math.Ceil(q*float64(len(sorted))))-1)
	return inMilliseconds(float64(sorted[i]))
}

func inMilliseconds(nanoseconds float64) milliseconds {
	return milliseconds(round(nanoseconds/1e6, 1))
}

func imbalance(busy []time.Duration) float64 {
	var sum, most time.Duration
	for _, b := range busy {
		sum += b
		most = max(most, b)
	}
	return ratio(float64(most)*float64(len(busy)), float64(sum))
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func round(x float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(x*p) / p
}
