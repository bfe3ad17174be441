package loadstats_test

import (
	"testing"
	"time"

	"github.com/warmroute/warmroute/loadstats"
)

func TestReport_FreshAt(t *testing.T) {
	tests := []struct {
		name   string
		r      *loadstats.Report
		maxAge time.Duration
		want   bool
	}{
		{"nil", nil, time.Hour, false},
		{"no time", &loadstats.Report{}, time.Hour, false},
		{"now", &loadstats.Report{At: start}, time.Second, true},
		{"as old as allowed", &loadstats.Report{At: start.Add(-time.Second)}, time.Second, true},
		{"older", &loadstats.Report{At: start.Add(-time.Second - 1)}, time.Second, false},
		{"slightly in the future", &loadstats.Report{At: start.Add(time.Millisecond)}, time.Second, true},
		{"far in the future", &loadstats.Report{At: start.Add(time.Hour)}, time.Second, false},
		{"zero age", &loadstats.Report{At: start}, 0, false},
		{"negative age", &loadstats.Report{At: start}, -time.Second, false},
		{"beyond a duration", &loadstats.Report{At: time.Unix(1, 0)}, time.Second, false},
	}
	for _, tt := range tests {
		if got := tt.r.FreshAt(start, tt.maxAge); got != tt.want {
			t.Errorf("%s: FreshAt = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestReport_Known(t *testing.T) {
	for name, r := range map[string]*loadstats.Report{
		"running":  {Running: loadstats.Known(0)},
		"waiting":  {Waiting: loadstats.Known(0)},
		"usage":    {KVCacheUsage: loadstats.Ratio(0)},
		"capacity": {KVCacheTokens: loadstats.Known(1)},
		"adapters": {Adapters: &loadstats.Adapters{}},
	} {
		if !r.Known() {
			t.Errorf("Known() of a report with only %s = false", name)
		}
	}
	for name, r := range map[string]*loadstats.Report{"nil": nil, "time only": {At: start}} {
		if r.Known() {
			t.Errorf("Known() of %s = true", name)
		}
	}
}
