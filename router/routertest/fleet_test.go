package routertest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/router/routertest"
)

// recorder is a test whose failures are looked at. Fatalf ends it by a panic.
type recorder struct {
	testing.TB
	errors   []string
	cleanups []func()
}

type fatal string

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(f string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(f, args...))
}
func (r *recorder) Fatalf(f string, args ...any) { panic(fatal(fmt.Sprintf(f, args...))) }
func (r *recorder) Fatal(args ...any)            { panic(fatal(fmt.Sprint(args...))) }

// fatalOf returns what a test dies of.
func fatalOf(t *testing.T, f func()) (message string) {
	t.Helper()
	defer func() {
		if m, ok := recover().(fatal); ok {
			message = string(m)
		}
	}()
	f()
	return ""
}

func inFlight(f *routertest.Fleet) map[string]int {
	n := map[string]int{}
	for _, s := range f.Pool.StatsAt(f.Now()) {
		n[s.Endpoint.ID] = s.Load.InFlight
	}
	return n
}

func TestFleet_EndsWithNothingInFlight(t *testing.T) {
	r := &recorder{TB: t}
	f := routertest.NewFleet(r, 2, router.Config{})
	f.SetInFlight("e0", 3)
	f.Pick(routertest.Prompt(1, 1024, 0))
	f.Serve(routertest.Prompt(2, 1024, 0))
	f.PickRequest(router.Request{Key: "k"})
	forgotten, err := f.Pool.Pick(router.Request{At: f.Now()})
	if err != nil {
		t.Fatal(err)
	}
	for _, cleanup := range r.cleanups {
		cleanup()
	}
	want := fmt.Sprintf("%s has 1 requests in flight", forgotten.Endpoint.ID)
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], want) {
		t.Errorf("errors %q, want one that says %q", r.errors, want)
	}
	forgotten.ReleaseAt(f.Now(), router.Outcome{})
	if got := inFlight(f); got["e0"] != 0 || got["e1"] != 0 {
		t.Errorf("%v in flight at the end, want none", got)
	}
}

func TestFleet_FailsTestsThatMakeNoSense(t *testing.T) {
	r := &recorder{TB: t}
	f := routertest.NewFleet(r, 1, router.Config{MaxInFlight: 3})
	for _, c := range []struct {
		name string
		f    func()
		want string
	}{
		{"a negative number", func() { f.SetInFlight("e0", -1) }, "SetInFlight(e0, -1): the number is negative"},
		{"an unknown endpoint", func() { f.SetInFlight("e9", 1) }, "SetInFlight(e9, 1): router: no endpoints"},
		{"more than allowed", func() { f.SetInFlight("e0", 4) }, "SetInFlight(e0, 4): router: saturated"},
		{"a pick that fails", func() { f.Pick(routertest.Prompt(1, 1024, 0)) }, "router: saturated"},
		{"a bad configuration", func() { routertest.NewFleet(r, 1, router.Config{MaxInFlight: -1}) }, "MaxInFlight -1"},
	} {
		if got := fatalOf(t, c.f); !strings.Contains(got, c.want) {
			t.Errorf("%s: fatal %q, want %q", c.name, got, c.want)
		}
	}
	if got := inFlight(f)["e0"]; got != 3 {
		t.Errorf("%d in flight, want the 3 that there was room for", got)
	}
	for _, cleanup := range r.cleanups {
		cleanup()
	}
	if len(r.errors) > 0 {
		t.Errorf("errors at the end: %q", r.errors)
	}
}

// The endpoints of a fleet come on top of the caller's, and not into their slice.
func TestFleet_LeavesTheConfigurationAlone(t *testing.T) {
	all := []router.Endpoint{{ID: "a", Weight: 1}, {ID: "b", Weight: 1}}
	f := routertest.NewFleet(t, 1, router.Config{Endpoints: all[:1]})
	if got := inFlight(f); len(got) != 2 || all[1].ID != "b" {
		t.Errorf("endpoints %v, and %q where the caller has b", got, all[1].ID)
	}
}

func TestFleet_SetInFlight(t *testing.T) {
	f := routertest.NewFleet(t, 3, router.Config{})
	for _, n := range []int{5, 2, 0, 7} {
		f.SetInFlight("e1", n)
		if got := inFlight(f); got["e0"] != 0 || got["e1"] != n || got["e2"] != 0 {
			t.Errorf("SetInFlight(e1, %d): %v", n, got)
		}
	}
	for _, s := range f.Pool.StatsAt(f.Now()) {
		if s.Load.Backlog != 0 || s.Load.PendingPrefills != 0 {
			t.Errorf("%s has a backlog of %d, %d pending; requests of others decode", s.Endpoint.ID, s.Load.Backlog, s.Load.PendingPrefills)
		}
	}
}

// The clock moves only by Advance: a decision has the fleet's time, and a report
// grows old by it.
func TestFleet_Time(t *testing.T) {
	f := routertest.NewFleet(t, 2, router.Config{Policy: balancer.LeastLoad{}, ReportMaxAge: time.Second})
	began := f.Now()
	f.Report("e0", loadstats.Report{Running: loadstats.Known(50)})
	if d := f.Pick(routertest.Prompt(1, 1024, 0)); d.Endpoint.ID != "e1" || !d.At.Equal(began) {
		t.Errorf("%v at %v, want e1, as e0 reports 50, at %v", d, d.At, began)
	}
	f.Advance(time.Second + 1)
	if got := f.Now().Sub(began); got != time.Second+1 {
		t.Errorf("time moved by %v, want 1.000000001s", got)
	}
	if d := f.Pick(routertest.Prompt(2, 1024, 256)); d.Endpoint.ID != "e0" {
		t.Errorf("%v, want e0, as its report is too old", d)
	}
}

// Serve leaves the prefix behind and nothing in flight.
func TestFleet_Serve(t *testing.T) {
	f := routertest.NewFleet(t, 4, router.Config{})
	first := f.Serve(routertest.Prompt(1, 8192, 1024))
	if got := inFlight(f)[first.Endpoint.ID]; first.Reason != balancer.Cold || got != 0 {
		t.Errorf("%v, %d in flight after Serve, want cold, 0", first, got)
	}
	next := f.Pick(routertest.Prompt(1, 8192, 2048))
	if next.Reason != balancer.Warm || next.Endpoint.ID != first.Endpoint.ID || next.CachedTokens != 8192+1024 {
		t.Errorf("%v with %d cached, want it warm on %s with %d", next, next.CachedTokens, first.Endpoint.ID, 8192+1024)
	}
}

func TestPrompt_LaterTurnsExtendEarlierOnes(t *testing.T) {
	short, long := routertest.Prompt(1, 1024, 512), routertest.Prompt(1, 1024, 2048)
	if len(short.Blocks) != 6 || len(long.Blocks) != 12 || !slices.Equal(short.Blocks, long.Blocks[:6]) {
		t.Errorf("blocks %d and %d, want 6 that begin 12", len(short.Blocks), len(long.Blocks))
	}
	if short.Tokens != 1536 || short.SystemBlocks != 4 || short.HistoryBlocks != 5 || short.BlockTokens != router.BlockTokens {
		t.Errorf("signature %+v", short)
	}
	if s := routertest.Prompt(1, 1024, 256); s.HistoryBlocks != 0 {
		t.Errorf("a first turn has %d blocks of history, want 0", s.HistoryBlocks)
	}
	if s := routertest.Prompt(1, -1024, -1); len(s.Blocks) != 0 || s.Tokens != 0 {
		t.Errorf("a prompt of negative size is %+v", s)
	}
	other := routertest.Prompt(2, 1024, 512)
	if !slices.Equal(short.Blocks[:4], other.Blocks[:4]) || short.Blocks[4] == other.Blocks[4] || short.Tail == other.Tail {
		t.Error("conversations must share the system part and nothing else")
	}
	if routertest.Prompt(1, 2048, 0).Blocks[0] == short.Blocks[0] {
		t.Error("system parts of other sizes must differ")
	}
	if short.Tail == long.Tail || !slices.Equal(routertest.Prompt(1, 1024, 512).Blocks, short.Blocks) {
		t.Error("a prompt is identified by its blocks and its tail")
	}
}
