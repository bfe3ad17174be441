package loadstats

import (
	"math"
	"sync"
	"time"
)

// DefaultHalfLife is the half-life of an [Average] whose HalfLife is zero. An
// engine that changes its behaviour (a new neighbour on the node, a restart)
// is then believed to within one part in eight after a minute and a half.
const DefaultHalfLife = 30 * time.Second

// Average is a mean in which old samples fade: a sample counts half as much
// for every HalfLife that passes. It serves for whatever is learned about an
// endpoint from its answers: time to first token, prefill rate, share of
// failures (samples 1 and 0).
//
// Unlike a moving average that fades by the number of samples, it forgets at
// the same pace whether an endpoint is busy or quiet, and it says how much
// evidence is left, so that a caller can tell "fails nine times out of ten"
// from "failed once, an hour ago".
//
// The zero value is ready to use. All methods are safe for concurrent use. An
// Average must not be copied after first use, and HalfLife must not be changed.
// The same samples give the same bits on every architecture.
type Average struct {
	// HalfLife is the age at which a sample counts half. Zero or negative
	// means [DefaultHalfLife].
	HalfLife time.Duration

	mu     sync.Mutex
	at     int64 // newest sample, UnixNano; weight is as of this time
	mean   float64
	weight float64
}

// Add records the sample v observed at the given time. Samples may arrive out
// of order: an old one counts as much as if it had arrived in time. NaN and
// infinite samples are dropped.
func (a *Average) Add(at time.Time, v float64) { a.AddWeighted(at, v, 1) }

// AddWeighted records a sample that counts like weight samples of [Average.Add]:
// a rate weighted by the seconds it was measured over averages to total work
// divided by total time. A weight that is not positive and finite, like a
// sample that is not finite, is dropped.
func (a *Average) AddWeighted(at time.Time, v, weight float64) {
	if !finite(v) || !finite(weight) || weight <= 0 {
		return
	}
	nano := at.UnixNano()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.weight == 0:
		a.at = nano
	case nano > a.at:
		a.weight *= a.fade(uint64(nano - a.at))
		a.at = nano
	default:
		weight *= a.fade(uint64(a.at - nano))
	}
	total := a.weight + weight
	if total == 0 || !finite(total) {
		return
	}
	share := weight / total
	// The conversions forbid fused multiply-add, which only some
	// architectures have.
	a.mean = float64(a.mean*(1-share)) + float64(v*share)
	a.weight = total
}

// Value returns the mean and the weight of the evidence behind it at the given
// time: the number of samples, each faded by its age. A weight of zero means
// that nothing is known (no sample, or all forgotten); the mean is then zero
// and means nothing. Fading lowers the weight only: a mean does not drift while
// no samples arrive. A time before the newest sample is taken as the time of
// the newest sample.
func (a *Average) Value(at time.Time) (mean, weight float64) {
	nano := at.UnixNano()
	a.mu.Lock()
	defer a.mu.Unlock()
	weight = a.weight
	if nano > a.at {
		weight *= a.fade(uint64(nano - a.at))
	}
	if weight == 0 {
		return 0, 0
	}
	return a.mean, weight
}

// fade returns 2^(-age/HalfLife) for an age in nanoseconds. It is not math.Exp2,
// whose last bits differ between architectures: here whole half-lives are exact
// halvings and the rest is the Taylor series of exp(-x) for x in [0, ln 2), to
// twelve terms, in a form that no compiler fuses.
func (a *Average) fade(age uint64) float64 {
	halfLife := uint64(DefaultHalfLife)
	if a.HalfLife > 0 {
		halfLife = uint64(a.HalfLife)
	}
	whole := age / halfLife
	if whole > 1074 { // smaller than the smallest float64
		return 0
	}
	x := float64(age%halfLife) / float64(halfLife) * math.Ln2
	s := 1.0
	for _, r := range reciprocals {
		s = 1 - float64(x*s*r)
	}
	return math.Ldexp(s, -int(whole))
}

// reciprocals are 1/12 to 1/1: multiplying by them takes half the time of dividing.
var reciprocals = [...]float64{1. / 12, 1. / 11, 1. / 10, 1. / 9, 1. / 8, 1. / 7, 1. / 6, 1. / 5, 1. / 4, 1. / 3, 1. / 2, 1}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
