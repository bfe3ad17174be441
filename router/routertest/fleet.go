package routertest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// Fleet is a pool with a clock that stands still until it is moved, for tests of
// decisions. It is not safe for concurrent use.
type Fleet struct {
	// Pool makes the decisions. Tests that call it directly give it the fleet's
	// time, and release what it returns.
	Pool *router.Pool

	t       testing.TB
	now     time.Time
	reports *loadstats.Table
	picked  []*router.Decision            // all, also the released
	filler  map[string][]*router.Decision // in flight, by endpoint
}

// NewFleet returns a fleet of n endpoints of weight 1, named e0, e1 and so on,
// beside those that the configuration has. At the end of the test the fleet
// releases what its methods picked, and fails the test if anything is left in
// flight: a request that the test took from Pool and did not release. It fails
// the test at once if the configuration has an error.
func NewFleet(t testing.TB, n int, c router.Config) *Fleet {
	t.Helper()
	c.Endpoints = slices.Clip(c.Endpoints) // so that it is not the caller's slice that grows
	for i := range n {
		c.Endpoints = append(c.Endpoints, router.Endpoint{ID: fmt.Sprint("e", i), Weight: 1})
	}
	if c.Reports == nil {
		c.Reports = new(loadstats.Table)
	}
	p, err := router.New(c)
	if err != nil {
		t.Fatal(err)
	}
	f := &Fleet{Pool: p, t: t, now: time.Unix(1_000_000, 0), reports: c.Reports, filler: map[string][]*router.Decision{}}
	t.Cleanup(f.release)
	return f
}

// release gives everything back and checks that nothing is left.
func (f *Fleet) release() {
	f.t.Helper()
	for _, d := range f.picked {
		d.ReleaseAt(f.now, router.Outcome{})
	}
	for id := range f.filler {
		f.SetInFlight(id, 0)
	}
	for _, s := range f.Pool.StatsAt(f.now) {
		if s.Load.InFlight != 0 {
			f.t.Errorf("routertest: %s has %d requests in flight that were never released", s.Endpoint.ID, s.Load.InFlight)
		}
	}
}

// Now is the fleet's time.
func (f *Fleet) Now() time.Time { return f.now }

// Advance moves the fleet's time.
func (f *Fleet) Advance(d time.Duration) { f.now = f.now.Add(d) }

// Pick picks for a prompt and fails the test if that fails.
func (f *Fleet) Pick(prompt *tokenprefix.Signature) *router.Decision {
	f.t.Helper()
	return f.PickRequest(router.Request{Prefix: prompt})
}

// PickRequest picks for a request, whose time is the fleet's, and fails the test
// if that fails.
func (f *Fleet) PickRequest(r router.Request) *router.Decision {
	f.t.Helper()
	r.At = f.now
	d, err := f.Pool.Pick(r)
	if err != nil {
		f.t.Fatal(err)
	}
	f.picked = append(f.picked, d)
	return d
}

// Serve picks for a prompt and lets the endpoint answer it at once, so that its
// prefix is cached there.
func (f *Fleet) Serve(prompt *tokenprefix.Signature) *router.Decision {
	f.t.Helper()
	d := f.Pick(prompt)
	d.FirstTokenAt(f.now)
	d.ReleaseAt(f.now, router.Outcome{StatusCode: 200})
	return d
}

// SetInFlight makes an endpoint have so many requests of others in flight,
// beyond those that the test picked: requests without a prompt that are decoding.
// It fails the test if the endpoint can't take them.
func (f *Fleet) SetInFlight(id string, n int) {
	f.t.Helper()
	if n < 0 {
		f.t.Fatalf("routertest: SetInFlight(%s, %d): the number is negative", id, n)
	}
	flying := f.filler[id]
	for len(flying) > n {
		last := len(flying) - 1
		flying[last].ReleaseAt(f.now, router.Outcome{})
		flying = flying[:last]
	}
	for len(flying) < n {
		d, err := f.Pool.Pick(router.Request{At: f.now, Eligible: func(e *router.Endpoint) bool { return e.ID == id }})
		if err != nil {
			f.filler[id] = flying
			f.t.Fatalf("routertest: SetInFlight(%s, %d): %v", id, n, err)
		}
		d.FirstTokenAt(f.now)
		flying = append(flying, d)
	}
	f.filler[id] = flying
}

// Report makes an endpoint's engine report its load now. The report is believed
// until the fleet's time is later by more than the pool's ReportMaxAge.
func (f *Fleet) Report(id string, r loadstats.Report) {
	r.At = f.now
	f.reports.Report(id, r)
}
