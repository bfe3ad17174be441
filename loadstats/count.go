package loadstats

import (
	"math"
	"strconv"
)

// Count is a number of requests or tokens that may be unknown. The zero value
// is unknown: what was never read can't pass for "none waiting". Counts are
// values and compare with ==.
type Count struct {
	n     int64
	known bool
}

// Known returns the count n. A negative n is no count and is unknown.
func Known(n int64) Count {
	if n < 0 {
		return Count{}
	}
	return Count{n, true}
}

// Rounded returns the count nearest to f, for sources that send every number
// as floating point. What is NaN, negative or beyond 2^53, where floating point
// stops counting, is unknown.
func Rounded(f float64) Count {
	if !(f >= 0 && f <= 1<<53) {
		return Count{}
	}
	return Count{int64(math.Round(f)), true}
}

// Get returns the count, and whether it is known; if not, the count is zero.
func (c Count) Get() (int64, bool) { return c.n, c.known }

// String returns the count in decimal, or "unknown".
func (c Count) String() string {
	if !c.known {
		return "unknown"
	}
	return strconv.FormatInt(c.n, 10)
}

// Fraction is a share from 0 to 1 that may be unknown. The zero value is
// unknown. Fractions are values and compare with ==.
type Fraction struct {
	f     float64
	known bool
}

// Ratio returns the fraction f. Engines that divide counters taken at
// different moments report slightly more than 1; up to 1.01 that is 1. What is
// NaN, negative or larger (a percentage, or another metric under a familiar
// name) is unknown.
func Ratio(f float64) Fraction {
	if !(f >= 0 && f <= 1.01) {
		return Fraction{}
	}
	return Fraction{min(f, 1) + 0, true} // + 0 makes one zero of 0 and -0
}

// Get returns the fraction, and whether it is known; if not, it is zero.
func (f Fraction) Get() (float64, bool) { return f.f, f.known }

// String returns the fraction in decimal, or "unknown".
func (f Fraction) String() string {
	if !f.known {
		return "unknown"
	}
	return strconv.FormatFloat(f.f, 'g', -1, 64)
}
