package workload_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/workload"
)

func TestChat_ArrivesByItsRateWhateverTheArchitecture(t *testing.T) {
	take := func(seed uint64) []workload.Arrival {
		w, err := workload.NewChat(workload.ChatConfig{Seed: seed, Rate: 20})
		if err != nil {
			t.Fatal(err)
		}
		out := make([]workload.Arrival, 20_000)
		for i := range out {
			out[i] = w.Next()
		}
		return out
	}
	a := take(1)
	if !reflect.DeepEqual(a, take(1)) {
		t.Error("two runs of one seed differ")
	}
	if reflect.DeepEqual(a, take(2)) {
		t.Error("seeds 1 and 2 are equal")
	}
	last := a[len(a)-1].At
	if got, want := last.Seconds(), 1_000.0; math.Abs(got-want) > 25 {
		t.Errorf("20,000 requests at 20 a second took %v s, want about %v", got, want)
	}
	turns := map[string]workload.Arrival{}
	apps := map[uint64]string{}
	var before time.Duration
	for _, r := range a {
		if r.At < before {
			t.Fatalf("arrival at %v after one at %v", r.At, before)
		}
		before = r.At
		segments := r.Prompt.Segments
		if app, ok := apps[segments[0].ID]; ok && app != r.Tenant {
			t.Errorf("%s and %s share a system prompt", app, r.Tenant)
		}
		apps[segments[0].ID] = r.Tenant
		last, continues := turns[r.Session]
		switch {
		case !continues && (r.Turn != 0 || len(segments) != 2):
			t.Fatalf("session %s begins with turn %d", r.Session, r.Turn)
		case continues && (r.Turn != last.Turn+1 || segments[len(segments)-2] != last.Answer):
			t.Fatalf("%+v does not continue %+v", r, last)
		}
		turns[r.Session] = r
	}
	if len(apps) != 4 {
		t.Errorf("%d applications, want 4", len(apps))
	}
}

func TestNewChat_RefusesBadConfig(t *testing.T) {
	for _, tt := range []struct {
		c    workload.ChatConfig
		want string
	}{
		{workload.ChatConfig{}, "Rate 0 "},
		{workload.ChatConfig{Rate: math.NaN()}, "Rate NaN "},
		{workload.ChatConfig{Rate: -1}, "Rate -1 "},
		{workload.ChatConfig{Rate: 1, Open: -1}, "Open -1"},
		{workload.ChatConfig{Rate: 1, Answer: workload.Range{Min: 2, Max: 1}}, "Answer 2 to 1"},
	} {
		if _, err := workload.NewChat(tt.c); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("NewChat(%+v) = %v, want an error with %q", tt.c, err, tt.want)
		}
	}
}
