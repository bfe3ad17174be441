package workload_test

import (
	"math"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/workload"
)

func TestExponential_HasItsDistribution(t *testing.T) {
	const n = 200_000
	values := workload.Exponential(1, time.Second, n)
	var sum, squares float64
	beyond := [4]int{} // whole means
	for _, v := range values {
		if v < 0 {
			t.Fatalf("value %v is negative", v)
		}
		s := v.Seconds()
		sum += s
		squares += s * s
		for k := range beyond {
			if s > float64(k) {
				beyond[k]++
			}
		}
	}
	if mean := sum / n; math.Abs(mean-1) > 0.01 {
		t.Errorf("mean = %v, want 1", mean)
	}
	if second := squares / n; math.Abs(second-2) > 0.05 {
		t.Errorf("second moment = %v, want 2", second)
	}
	for k, got := range beyond {
		if want := math.Exp(-float64(k)); math.Abs(float64(got)/n-want) > 0.005 {
			t.Errorf("share beyond %d means = %v, want %v", k, float64(got)/n, want)
		}
	}
}

func TestUniform_CoversBothEndsEvenly(t *testing.T) {
	counts := map[int]int{}
	for _, v := range workload.Uniform(1, workload.Range{Min: 5, Max: 20}, 160_000) {
		counts[v]++
	}
	if len(counts) != 16 || counts[5] == 0 || counts[20] == 0 {
		t.Fatalf("values %v, want 5 to 20", counts)
	}
	for v, n := range counts {
		if n < 9_500 || n > 10_500 {
			t.Errorf("value %d occurs %d times, want about 10000", v, n)
		}
	}
}

func TestRandom_IsGolden(t *testing.T) {
	if got, want := workload.Exponential(1, time.Second, 3), [3]time.Duration{1023676495, 555455359, 590334797}; [3]time.Duration(got) != want {
		t.Errorf("exponential values = %d, want %d", got, want)
	}
	if got, want := workload.Uniform(1, workload.Range{Min: 200, Max: 2_000}, 4), [4]int{1277, 360, 1488, 242}; [4]int(got) != want {
		t.Errorf("uniform values = %v, want %v", got, want)
	}
}
