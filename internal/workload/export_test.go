package workload

import "time"

// Exponential returns n values of the source with the given seed.
func Exponential(seed uint64, mean time.Duration, n int) []time.Duration {
	src := newSource(seed, 0)
	values := make([]time.Duration, n)
	for i := range values {
		values[i] = src.exponential(mean)
	}
	return values
}

// Uniform returns n values of the source with the given seed.
func Uniform(seed uint64, r Range, n int) []int {
	src := newSource(seed, 0)
	values := make([]int, n)
	for i := range values {
		values[i] = src.in(r)
	}
	return values
}
