package workload

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"time"
)

// Range is a range of counts, both ends included. The zero Range stands for
// the default of the field that holds it.
type Range struct{ Min, Max int }

func (r Range) orDefault(minimum, maximum int) Range {
	if r == (Range{}) {
		return Range{minimum, maximum}
	}
	return r
}

func (r Range) validate(name string) error {
	const limit = 10_000_000 // keeps sums of tokens within 32 bits
	if r.Min < 1 || r.Max < r.Min || r.Max > limit {
		return fmt.Errorf("workload: %s %d to %d is not a range within 1 to %d", name, r.Min, r.Max, limit)
	}
	return nil
}

// source is a seeded source of random values. It uses integers only, because
// the last bit of a logarithm differs between architectures.
type source struct{ pcg rand.PCG }

func newSource(seed, stream uint64) *source {
	s := new(source)
	s.pcg.Seed(seed, stream)
	return s
}

// below returns a value in [0, n) for n > 0. Its bias is n/2^64.
func (s *source) below(n uint64) uint64 {
	v, _ := bits.Mul64(s.pcg.Uint64(), n)
	return v
}

func (s *source) in(r Range) int {
	return r.Min + int(s.below(uint64(r.Max-r.Min)+1))
}

// exponential returns a value with the given mean, by von Neumann's method of
// comparing uniform values ("Various techniques used in connection with random
// digits", 1951): the fraction is the first value of a descending run of odd
// length, the whole part the number of runs of even length before it.
func (s *source) exponential(mean time.Duration) time.Duration {
	for whole := time.Duration(0); ; whole++ {
		first := s.pcg.Uint64()
		length := 1
		for last := first; ; length++ {
			v := s.pcg.Uint64()
			if v >= last {
				break
			}
			last = v
		}
		if length%2 == 1 {
			fraction, _ := bits.Mul64(first, uint64(mean))
			return whole*mean + time.Duration(fraction)
		}
	}
}
