package workload_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/workload"
)

func newSwarm(t testing.TB, c workload.SwarmConfig) *workload.Swarm {
	t.Helper()
	w, err := workload.NewSwarm(c)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestSwarm_StreamsDependOnSeedAndNumberOnly(t *testing.T) {
	take := func(s *workload.Stream) (out []workload.Request) {
		for range 50 {
			_, r := s.Next()
			out = append(out, r)
		}
		return out
	}
	w := newSwarm(t, workload.SwarmConfig{Seed: 1})
	alone := take(w.Stream(7))

	a, b := w.Stream(7), w.Stream(8) // in turns
	var woven []workload.Request
	for range 50 {
		_, r := a.Next()
		woven = append(woven, r)
		b.Next()
	}
	if !reflect.DeepEqual(woven, alone) {
		t.Error("stream 7 differs when stream 8 runs beside it")
	}
	if reflect.DeepEqual(take(w.Stream(8)), alone) {
		t.Error("streams 7 and 8 are equal")
	}
	if reflect.DeepEqual(take(newSwarm(t, workload.SwarmConfig{Seed: 2}).Stream(7)), alone) {
		t.Error("stream 7 is equal for two seeds")
	}
}

func TestSwarm_KeepsToItsRanges(t *testing.T) {
	w := newSwarm(t, workload.SwarmConfig{Seed: 1})
	personas := map[uint64]int{} // sessions by static prefix
	tenants := map[string]map[uint64]bool{}
	sessions := map[string]int{}
	in := func(what string, got, low, high int) {
		t.Helper()
		if got < low || got > high {
			t.Errorf("%s = %d, want %d to %d", what, got, low, high)
		}
	}
	for i := range uint32(400) {
		s := w.Stream(i)
		var last workload.Request
		for range 60 {
			think, r := s.Next()
			in("think time in ms", int(think/time.Millisecond), 200, 1_000)
			in("answer", r.Answer.Tokens, 60, 200)
			segments := r.Prompt.Segments
			in("tokens added", segments[len(segments)-1].Tokens, 200, 2_000)
			static := segments[0]
			if r.Turn == 0 {
				if last.Session != "" {
					in("turns", last.Turn+1, 5, 20)
				}
				personas[static.ID]++
				in("static prefix", static.Tokens, 24_000, 32_000)
				sessions[r.Session]++
				if tenants[r.Tenant] == nil {
					tenants[r.Tenant] = map[uint64]bool{}
				}
				tenants[r.Tenant][static.ID] = true
			} else {
				// The turn continues the one before, with its answer.
				want := append(slices.Clone(last.Prompt.Segments), last.Answer, segments[len(segments)-1])
				if r.Session != last.Session || r.Turn != last.Turn+1 || !slices.Equal(segments, want) {
					t.Fatalf("%+v does not continue %+v", r, last)
				}
			}
			last = r
		}
	}
	if len(personas) != 64 || len(tenants) != 8 {
		t.Errorf("%d personas of %d tenants, want 64 of 8", len(personas), len(tenants))
	}
	for name, own := range tenants {
		if len(own) != 8 {
			t.Errorf("%s has %d personas, want 8 of its own", name, len(own))
		}
	}
	for name, n := range sessions {
		if n != 1 {
			t.Errorf("session %s was opened %d times", name, n)
		}
	}
	// Zipf: the first persona has 1/H(64) = 21 % of all sessions, twice the second's.
	counts := make([]int, 0, 64)
	total := 0
	for _, n := range personas {
		counts = append(counts, n)
		total += n
	}
	slices.SortFunc(counts, func(a, b int) int { return b - a })
	in("percent of sessions with the first persona", 100*counts[0]/total, 19, 23)
	in("percent of sessions with the second persona", 100*counts[1]/total, 9, 12)
}

func TestSwarm_EarlierPromptsStayAsTheyWere(t *testing.T) {
	s := newSwarm(t, workload.SwarmConfig{}).Stream(0)
	_, first := s.Next()
	copied := slices.Clone(first.Prompt.Segments)
	_ = append(first.Prompt.Segments, workload.Segment{ID: 1}) // must not reach the stream's own
	_, second := s.Next()
	if !slices.Equal(first.Prompt.Segments, copied) || second.Prompt.Segments[2] != first.Answer {
		t.Errorf("prompts share memory that changes: %v, %v", first, second)
	}
}

func TestNewSwarm_RefusesBadConfig(t *testing.T) {
	for _, tt := range []struct {
		c    workload.SwarmConfig
		want string
	}{
		{workload.SwarmConfig{Tenants: -1}, "-1 tenants"},
		{workload.SwarmConfig{Personas: 1 << 20}, "1048576 personas"},
		{workload.SwarmConfig{Turns: workload.Range{Min: 3, Max: 2}}, "Turns 3 to 2"},
		{workload.SwarmConfig{Think: workload.Range{Min: 0, Max: 2}}, "Think 0 to 2"},
		{workload.SwarmConfig{User: workload.Range{Min: 1, Max: 1 << 30}}, fmt.Sprintf("User 1 to %d", 1<<30)},
	} {
		if _, err := workload.NewSwarm(tt.c); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("NewSwarm(%+v) = %v, want an error with %q", tt.c, err, tt.want)
		}
	}
}
