package loadstats_test

import (
	"math"
	"testing"

	"github.com/warmroute/warmroute/loadstats"
)

func TestCount_UnknownIsNotZero(t *testing.T) {
	var unknown loadstats.Count
	if n, ok := unknown.Get(); n != 0 || ok {
		t.Errorf("Count{}.Get() = %d, %v, want 0, false", n, ok)
	}
	if unknown == loadstats.Known(0) {
		t.Error("the unknown count equals zero")
	}
	if got := unknown.String(); got != "unknown" {
		t.Errorf("Count{}.String() = %q, want unknown", got)
	}
	if got := loadstats.Known(0).String(); got != "0" {
		t.Errorf("Known(0).String() = %q, want 0", got)
	}
}

func TestCount_KnownAndRounded(t *testing.T) {
	for _, n := range []int64{0, 1, 5, math.MaxInt64} {
		if got, ok := loadstats.Known(n).Get(); got != n || !ok {
			t.Errorf("Known(%d).Get() = %d, %v", n, got, ok)
		}
	}
	for _, n := range []int64{-1, math.MinInt64} {
		if got := loadstats.Known(n); got != (loadstats.Count{}) {
			t.Errorf("Known(%d) = %v, want unknown", n, got)
		}
	}
	for _, tt := range []struct {
		f    float64
		want loadstats.Count
	}{
		{0, loadstats.Known(0)},
		{math.Copysign(0, -1), loadstats.Known(0)},
		{5, loadstats.Known(5)},
		{5.5, loadstats.Known(6)},
		{0.49, loadstats.Known(0)},
		{1 << 53, loadstats.Known(1 << 53)},
		{1 << 54, loadstats.Count{}},
		{-0.1, loadstats.Count{}},
		{math.NaN(), loadstats.Count{}},
		{math.Inf(1), loadstats.Count{}},
		{math.Inf(-1), loadstats.Count{}},
	} {
		if got := loadstats.Rounded(tt.f); got != tt.want {
			t.Errorf("Rounded(%v) = %v, want %v", tt.f, got, tt.want)
		}
	}
}

func TestFraction_Ratio(t *testing.T) {
	zero, one := loadstats.Ratio(0), loadstats.Ratio(1)
	for _, tt := range []struct {
		f    float64
		want loadstats.Fraction
	}{
		{math.Copysign(0, -1), zero},
		{1.0000000000000002, one},
		{1.01, one},
		{1.02, loadstats.Fraction{}},
		{42, loadstats.Fraction{}}, // a percentage
		{-1e-9, loadstats.Fraction{}},
		{math.NaN(), loadstats.Fraction{}},
		{math.Inf(1), loadstats.Fraction{}},
		{math.Inf(-1), loadstats.Fraction{}},
	} {
		if got := loadstats.Ratio(tt.f); got != tt.want {
			t.Errorf("Ratio(%v) = %v, want %v", tt.f, got, tt.want)
		}
	}
	if f, ok := loadstats.Ratio(0.42).Get(); f != 0.42 || !ok {
		t.Errorf("Ratio(0.42).Get() = %v, %v", f, ok)
	}
	if f, ok := (loadstats.Fraction{}).Get(); f != 0 || ok {
		t.Errorf("Fraction{}.Get() = %v, %v, want 0, false", f, ok)
	}
	if got := loadstats.Ratio(0.42).String(); got != "0.42" {
		t.Errorf("Ratio(0.42).String() = %q", got)
	}
	if got := loadstats.Ratio(math.Copysign(0, -1)).String(); got != "0" {
		t.Errorf("Ratio(-0).String() = %q, want 0", got)
	}
	if got := (loadstats.Fraction{}).String(); got != "unknown" {
		t.Errorf("Fraction{}.String() = %q, want unknown", got)
	}
}
