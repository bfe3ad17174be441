package balancer

import "math"

// Bound is the bounded-load limit on requests in flight: of total requests, an
// endpoint with weight w of the total weight W may hold
//
//	max(ceil(Factor · mean), floor(mean + Gap))
//
// where mean is (total+1)·w/W (Mirrokni, Thorup, Zadimoghaddam, "Consistent
// hashing with bounded loads", arXiv:1608.01350; the gap is ours). The first
// term rounds up, so that with more endpoints than requests each may still
// take one; the second keeps the noise of small counts from breaking affinity.
//
// The zero value bounds nothing.
type Bound struct {
	// Factor is the allowed ratio to the mean, at least 1. Zero means no bound.
	Factor float64
	// Gap is the allowed excess over the mean in requests; 0 gives the strict
	// rounded-up bound.
	Gap float64
}

// Limit returns the most requests in flight that an endpoint may have after
// taking one more, at least 1, and math.MaxInt if there is no bound.
func (b Bound) Limit(total, weight, totalWeight int) int {
	if b.Factor == 0 || totalWeight <= 0 {
		return math.MaxInt
	}
	mean := float64(total+1) * float64(weight) / float64(totalWeight)
	limit := max(math.Ceil(b.Factor*mean), math.Floor(mean+b.Gap))
	if !(limit < math.MaxInt32) {
		return math.MaxInt // what doesn't fit converts differently on each architecture
	}
	return max(1, int(limit))
}
