package loadstats_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/warmroute/warmroute/loadstats"
)

// start is the zero of all scripted times in these tests.
var start = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func closeTo(got, want, relative float64) bool {
	return math.Abs(got-want) <= relative*math.Max(1e-300, math.Abs(want))
}

func TestAverage_ZeroValueKnowsNothing(t *testing.T) {
	var a loadstats.Average
	if mean, weight := a.Value(start); mean != 0 || weight != 0 {
		t.Errorf("Value(no samples) = %v, %v, want 0, 0", mean, weight)
	}
}

func TestAverage_SampleCountsHalfAfterHalfLife(t *testing.T) {
	a := loadstats.Average{HalfLife: 10 * time.Second}
	a.Add(start, 100)
	a.Add(start.Add(10*time.Second), 400)
	mean, weight := a.Value(start.Add(10 * time.Second))
	if want := (100*0.5 + 400) / 1.5; !closeTo(mean, want, 1e-15) {
		t.Errorf("mean = %v, want %v", mean, want)
	}
	if weight != 1.5 {
		t.Errorf("weight = %v, want 1.5", weight)
	}
	later, weight := a.Value(start.Add(30 * time.Second))
	if later != mean || weight != 0.375 {
		t.Errorf("Value(two half-lives later) = %v, %v, want %v, 0.375: the mean stays, the evidence fades", later, weight, mean)
	}
}

func TestAverage_ZeroHalfLifeIsDefault(t *testing.T) {
	var a loadstats.Average
	a.Add(start, 1)
	if _, weight := a.Value(start.Add(loadstats.DefaultHalfLife)); weight != 0.5 {
		t.Errorf("weight after DefaultHalfLife = %v, want 0.5", weight)
	}
}

func TestAverage_ForgetsCompletely(t *testing.T) {
	a := loadstats.Average{HalfLife: time.Millisecond}
	a.Add(start, 7)
	if mean, weight := a.Value(start.Add(time.Hour)); mean != 0 || weight != 0 {
		t.Errorf("Value(an hour later) = %v, %v, want 0, 0", mean, weight)
	}
	a.Add(start.Add(time.Hour), 9)
	if mean, weight := a.Value(start.Add(time.Hour)); mean != 9 || weight != 1 {
		t.Errorf("Value(after a new sample) = %v, %v, want 9, 1", mean, weight)
	}
}

func TestAverage_DropsWhatIsNotFinite(t *testing.T) {
	var a loadstats.Average
	a.Add(start, 5)
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		a.Add(start, v)
		a.AddWeighted(start, 1, v)
	}
	a.AddWeighted(start, 1, 0)
	a.AddWeighted(start, 1, -1)
	if mean, weight := a.Value(start); mean != 5 || weight != 1 {
		t.Errorf("Value(start) = %v, %v, want 5, 1", mean, weight)
	}
}

func TestAverage_WeightedRateIsWorkOverTime(t *testing.T) {
	var a loadstats.Average
	a.AddWeighted(start, 30000/3.0, 3) // 30,000 tokens in 3 s
	a.AddWeighted(start, 500/0.5, 0.5) // 500 tokens in 0.5 s
	if mean, _ := a.Value(start); !closeTo(mean, 30500/3.5, 1e-14) {
		t.Errorf("mean = %v, want %v", mean, 30500/3.5)
	}
}

// The definition, evaluated directly: sum of 2^(-age/H) v over sum of
// 2^(-age/H). Any order of arrival must give it.
func TestAverage_MatchesDefinitionInAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		halfLife := time.Duration(1 + rng.Int64N(int64(time.Minute)))
		a := loadstats.Average{HalfLife: halfLife}
		type sample struct {
			at time.Time
			v  float64
		}
		samples := make([]sample, 1+rng.IntN(40))
		for i := range samples {
			samples[i] = sample{start.Add(time.Duration(rng.Int64N(int64(3 * halfLife)))), rng.Float64() * 1000}
			a.Add(samples[i].at, samples[i].v)
		}
		now := start.Add(4 * halfLife)
		var sum, total float64
		for _, s := range samples {
			w := math.Exp2(-float64(now.Sub(s.at)) / float64(halfLife))
			sum += w * s.v
			total += w
		}
		mean, weight := a.Value(now)
		if !closeTo(mean, sum/total, 1e-9) || !closeTo(weight, total, 1e-9) {
			t.Fatalf("round %d: Value = %v, %v, want %v, %v", round, mean, weight, sum/total, total)
		}
	}
}

func TestAverage_StaysFiniteAtTheEdges(t *testing.T) {
	a := loadstats.Average{HalfLife: 1}
	times := []time.Time{{}, start, start.Add(math.MaxInt64), time.Unix(1<<40, 0), start}
	values := []float64{math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 0}
	for _, at := range times {
		for _, v := range values {
			a.AddWeighted(at, v, math.MaxFloat64)
			a.AddWeighted(at, v, math.SmallestNonzeroFloat64)
			mean, weight := a.Value(at)
			if math.IsNaN(mean) || math.IsInf(mean, 0) || math.IsNaN(weight) || math.IsInf(weight, 0) || weight < 0 {
				t.Fatalf("Value after Add(%v, %v) = %v, %v, want finite", at, v, mean, weight)
			}
		}
	}
}

// Golden bits: a change here changes decisions between gateways of different
// versions or architectures.
func TestAverage_GoldenBits(t *testing.T) {
	a := loadstats.Average{HalfLife: 7 * time.Second}
	for i := range 10 {
		a.Add(start.Add(time.Duration(i)*1234567891), float64(i*i)/3)
	}
	mean, weight := a.Value(start.Add(time.Minute))
	if got := math.Float64bits(mean); got != goldenMean {
		t.Errorf("mean bits = %#x, want %#x", got, uint64(goldenMean))
	}
	if got := math.Float64bits(weight); got != goldenWeight {
		t.Errorf("weight bits = %#x, want %#x", got, uint64(goldenWeight))
	}
}

// An evaluation of the definition in 50 decimal digits gives
// 12.5790723684822 and 0.0484283147121573.
const goldenMean, goldenWeight = 0x4029287c2c694bfa, 0x3fa8cb9897c772f9

func TestAverage_ConcurrentAddsAllCount(t *testing.T) {
	var a loadstats.Average
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 1000 {
				a.Add(start, float64(i))
				a.Value(start)
			}
		})
	}
	wg.Wait()
	mean, weight := a.Value(start)
	if weight != 8000 || !closeTo(mean, 499.5, 1e-9) {
		t.Errorf("Value(start) = %v, %v, want 499.5, 8000", mean, weight)
	}
}

func BenchmarkAverage_Add(b *testing.B) {
	b.ReportAllocs()
	a := loadstats.Average{HalfLife: 10 * time.Second}
	at := start
	for b.Loop() {
		at = at.Add(12345678)
		a.Add(at, 0.25)
	}
}
