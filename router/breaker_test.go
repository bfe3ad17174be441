package router_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router"
)

var refused = router.Outcome{Err: errors.New("connection refused")}

// only makes a request that nobody but one endpoint can serve.
func only(id string, at time.Time) router.Request {
	return router.Request{At: at, Eligible: func(e *router.Endpoint) bool { return e.ID == id }}
}

// broken returns a pool of two endpoints whose breaker of e0 opened at start.
func broken(t *testing.T, c router.Config) *router.Pool {
	t.Helper()
	c.Endpoints = fleet(2)
	p := newPool(t, c)
	for range 5 {
		pick(t, p, only("e0", start)).ReleaseAt(start, refused)
	}
	if !p.StatsAt(start)[0].Cooling {
		t.Fatal("five failures in a row did not open the breaker")
	}
	return p
}

func isCandidate(t *testing.T, p *router.Pool, at time.Time) bool {
	t.Helper()
	d := pick(t, p, router.Request{At: at})
	d.ReleaseAt(at, router.Outcome{Abandoned: true})
	return d.Candidates == 2
}

// An engine that shuts down finishes its streams and refuses new requests.
func TestBreaker_OldStreamsDontCloseIt(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(2)})
	stream := pick(t, p, only("e0", start))
	at := start.Add(time.Second)
	for range 5 {
		pick(t, p, only("e0", at)).ReleaseAt(at, refused)
	}
	stream.ReleaseAt(at, router.Outcome{StatusCode: 200})
	if isCandidate(t, p, at) {
		t.Error("a stream from before closed the breaker")
	}
	// With nobody else it is asked all the same, and what it answers now counts.
	d := pick(t, p, only("e0", at))
	d.ReleaseAt(at, router.Outcome{StatusCode: 200})
	if !isCandidate(t, p, at) {
		t.Error("a request that was sent since and answered well did not close the breaker")
	}
}

// Two picks that found the endpoint ready for its probe: one of them is the
// probe, the other goes elsewhere.
func TestBreaker_PicksAtOneMomentProbeOnce(t *testing.T) {
	at := start.Add(time.Second)
	var p *router.Pool
	var inner *router.Decision
	nested := false
	first := func(info *balancer.PickInfo) (balancer.Choice, error) {
		if !nested && info.Seq >= 5 {
			nested = true
			inner = pick(t, p, router.Request{At: at})
		}
		for i := range info.Candidates {
			if info.Candidates[i].ID == "e0" {
				return balancer.Choice{Index: i}, nil
			}
		}
		return balancer.Choice{}, nil
	}
	p = broken(t, router.Config{Policy: policyFunc(first)})
	outer := pick(t, p, router.Request{At: at})
	if inner.Endpoint.ID != "e0" || outer.Endpoint.ID != "e1" {
		t.Errorf("picked %s and %s, want the probe on e0 and the other on e1", inner.Endpoint.ID, outer.Endpoint.ID)
	}
	if err := p.CheckInvariants(map[string]int{"e0": 1, "e1": 1}); err != nil {
		t.Error(err)
	}
	// The probe is given up: the next one is another.
	inner.ReleaseAt(at, router.Outcome{Abandoned: true})
	if d := pick(t, p, router.Request{At: at}); d.Endpoint.ID != "e0" {
		t.Errorf("after an abandoned probe: picked %s, want another probe of e0", d.Endpoint.ID)
	}
}

// Nor if the number in flight is again what it was.
func TestBreaker_PicksAtOneMomentProbeOnceEvenIfNobodySeesIt(t *testing.T) {
	at := start.Add(time.Second)
	var p *router.Pool
	var stream *router.Decision
	nested := false
	p = newPool(t, router.Config{Endpoints: fleet(2), Policy: policyFunc(func(info *balancer.PickInfo) (balancer.Choice, error) {
		if len(info.Candidates) == 2 && info.Seq == 6 && !nested {
			nested = true
			pick(t, p, only("e0", at)) // the probe
			stream.ReleaseAt(at, router.Outcome{})
		}
		return prefer("e0").Choose(info)
	})})
	stream = pick(t, p, only("e0", start))
	for range 5 {
		pick(t, p, only("e0", start.Add(1))).ReleaseAt(start.Add(1), refused)
	}
	at = at.Add(1)
	if d := pick(t, p, router.Request{At: at}); !nested || d.Endpoint.ID != "e1" {
		t.Errorf("picked %s beside the probe: %v", d.Endpoint.ID, nested)
	}
	require.NoError(t, p.CheckInvariants(map[string]int{"e0": 1, "e1": 1}))
}

// A pick must not go to an endpoint whose breaker opens between the choice and
// the reservation.
func TestBreaker_OpensWhileAPickIsUnderWay(t *testing.T) {
	var p *router.Pool
	opened := false
	p = newPool(t, router.Config{Endpoints: fleet(2), Policy: policyFunc(func(info *balancer.PickInfo) (balancer.Choice, error) {
		if len(info.Candidates) == 2 && !opened {
			opened = true
			for range 5 {
				pick(t, p, only("e0", start)).ReleaseAt(start, refused)
			}
		}
		for i := range info.Candidates {
			if info.Candidates[i].ID == "e0" {
				return balancer.Choice{Index: i}, nil
			}
		}
		return balancer.Choice{}, nil
	})})
	if d := pick(t, p, router.Request{}); d.Endpoint.ID != "e1" {
		t.Errorf("picked %s, whose breaker is open", d.Endpoint.ID)
	}
}

func TestBreaker_ProbeThatFailsDoublesTheCooling(t *testing.T) {
	p := broken(t, router.Config{Breaker: router.Breaker{Cooling: time.Second, MaxCooling: 3 * time.Second}})
	at := start
	for _, cooling := range []time.Duration{1, 2, 3, 3} {
		at = at.Add(cooling*time.Second - 1)
		if isCandidate(t, p, at) {
			t.Errorf("a candidate before %d s of cooling are over", cooling)
		}
		at = at.Add(1)
		pick(t, p, only("e0", at)).ReleaseAt(at, refused)
	}
	at = at.Add(3 * time.Second)
	pick(t, p, only("e0", at)).ReleaseAt(at, router.Outcome{StatusCode: 404}) // says nothing: another probe
	pick(t, p, only("e0", at)).ReleaseAt(at, router.Outcome{})
	for range 4 { // closed, and the count begins anew
		pick(t, p, only("e0", at)).ReleaseAt(at, refused)
	}
	if !isCandidate(t, p, at) {
		t.Error("four failures after a good probe opened the breaker again")
	}
}

func TestBreaker_CountsAndCoolsAnew(t *testing.T) {
	p := broken(t, router.Config{})
	at := start.Add(time.Second)
	pick(t, p, only("e0", at)).ReleaseAt(at, refused) // two seconds from here
	// Requests that were on their way fail too; that says nothing new.
	at = start.Add(2 * time.Second)
	late := pick(t, p, only("e0", at))
	for range 9 {
		pick(t, p, only("e0", at)).ReleaseAt(at, refused)
	}
	at = start.Add(3 * time.Second)
	if !isCandidate(t, p, at) {
		t.Error("failures during the cooling prolonged it")
	}
	pick(t, p, only("e0", at)).ReleaseAt(at, router.Outcome{})
	late.ReleaseAt(at, router.Outcome{})
	for range 5 {
		pick(t, p, only("e0", at)).ReleaseAt(at, refused)
	}
	if isCandidate(t, p, at.Add(time.Second-1)) || !isCandidate(t, p, at.Add(time.Second)) {
		t.Error("opened anew, it did not cool for the first cooling")
	}
}

func TestBreaker_WhatCountsAsAFailureInARow(t *testing.T) {
	for _, c := range []struct {
		name    string
		breaker router.Breaker
		between router.Outcome // after four of five failures
		open    bool
	}{
		{"success", router.Breaker{}, router.Outcome{StatusCode: 200}, false},
		{"client's error", router.Breaker{}, router.Outcome{StatusCode: 404}, true},
		{"client left", router.Breaker{}, router.Outcome{Abandoned: true, Err: errors.New("canceled")}, true},
		{"busy", router.Breaker{}, router.Outcome{StatusCode: 503, RetryAfter: 1}, true},
		{"500", router.Breaker{}, router.Outcome{StatusCode: 500}, true},
		{"never", router.Breaker{Failures: -1}, refused, false},
	} {
		p := newPool(t, router.Config{Endpoints: fleet(2), Breaker: c.breaker})
		at := start
		end := func(o router.Outcome) {
			at = at.Add(2 * time.Second) // it may have asked to be left alone
			pick(t, p, only("e0", at)).ReleaseAt(at, o)
		}
		for range 4 {
			end(refused)
		}
		end(c.between)
		end(refused)
		if open := p.StatsAt(at)[0].Cooling; open != c.open {
			t.Errorf("%s between failures: open %v, want %v", c.name, open, c.open)
		}
	}
}

// A probe that can't be sent because the endpoint drains is given up, or there
// would never be another.
func TestBreaker_ProbeOfAnEndpointThatCloses(t *testing.T) {
	at := start.Add(time.Second)
	var p *router.Pool
	drained := false
	p = broken(t, router.Config{Policy: policyFunc(func(info *balancer.PickInfo) (balancer.Choice, error) {
		for i := range info.Candidates {
			if info.Candidates[i].ID != "e0" {
				continue
			}
			if len(info.Candidates) == 2 && !drained {
				drained = true
				require.NoError(t, p.SetEndpointsAt(at, []router.Endpoint{{ID: "e0"}, {ID: "e1", Weight: 1}}))
			}
			return balancer.Choice{Index: i}, nil
		}
		return balancer.Choice{}, nil
	})})
	if d := pick(t, p, router.Request{At: at}); !drained || d.Endpoint.ID != "e1" {
		t.Fatalf("picked %s, which drains: %v", d.Endpoint.ID, drained)
	}
	require.NoError(t, p.SetEndpointsAt(at, fleet(2)))
	if !isCandidate(t, p, at) {
		t.Error("back in the fleet, it is never probed")
	}
}

func TestBreaker_ProbeCountsWhateverTheClock(t *testing.T) {
	p := broken(t, router.Config{})
	before := start.Add(-time.Hour)
	pick(t, p, only("e0", before)).ReleaseAt(before, router.Outcome{})
	if p.StatsAt(start)[0].Cooling {
		t.Error("a probe that ended well did not close the breaker after the clock was set back")
	}
}

// Times that are set back must not keep an endpoint out of the choice.
func TestBreaker_ClockSetBack(t *testing.T) {
	p := broken(t, router.Config{})
	before := start.Add(-time.Hour)
	if !isCandidate(t, p, before) {
		t.Error("an hour of cooling is left after the clock was set back")
	}
	pick(t, p, only("e1", start)).ReleaseAt(start, router.Outcome{StatusCode: 429, RetryAfter: 30 * time.Second})
	if d := pick(t, p, only("e1", before)); d.Endpoint.ID != "e1" {
		t.Errorf("picked %v", d)
	}
	if p.StatsAt(before)[1].Busy || !p.StatsAt(start)[1].Busy {
		t.Error("busy for more than it asked for, or not at all")
	}
}

func TestBreaker_CoolingForEver(t *testing.T) {
	p := broken(t, router.Config{Breaker: router.Breaker{Cooling: math.MaxInt64}})
	if isCandidate(t, p, start.Add(1000*time.Hour)) {
		t.Error("the longest cooling there is was over")
	}
}

// A newcomer keeps the full share it once had.
func TestSlowStart_ClockSetBack(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1), Bound: balancer.Bound{Factor: -1}})
	if err := p.SetEndpointsAt(start, fleet(2)); err != nil {
		t.Fatal(err)
	}
	limit := func(at time.Time) int {
		d := pick(t, p, router.Request{At: at, Exclude: []string{"e0"}})
		d.ReleaseAt(at, router.Outcome{})
		return d.Limit
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {15 * time.Second, 1}, {time.Minute, math.MaxInt}, {-time.Hour, math.MaxInt}, {time.Second, math.MaxInt}} {
		if got := limit(start.Add(c.after)); got != c.want {
			t.Errorf("limit %v after it joined = %d, want %d", c.after, got, c.want)
		}
	}
}

// Nor must a clock that was set back at once keep it at the beginning.
func TestSlowStart_OffOrLongAgo(t *testing.T) {
	for _, c := range []struct {
		name  string
		ramp  time.Duration
		after time.Duration
		want  int
	}{
		{"default", 0, 0, 1},
		{"none", -1, 0, math.MaxInt},
		{"none, later", -1, time.Hour, math.MaxInt},
		{"clock set back", 0, -time.Hour, math.MaxInt},
		{"clocks that differ a little", 0, -time.Second, 1},
	} {
		p := newPool(t, router.Config{Endpoints: fleet(1), Bound: balancer.Bound{Factor: -1}, SlowStart: c.ramp})
		require.NoError(t, p.SetEndpointsAt(start, fleet(2)))
		if got := pick(t, p, router.Request{At: start.Add(c.after), Exclude: []string{"e0"}}).Limit; got != c.want {
			t.Errorf("%s: limit = %d, want %d", c.name, got, c.want)
		}
	}
}

// Where the fleet is at its hard cap, room comes with the next release, however
// long one endpoint wants to be left alone.
func TestSaturated_HintAtTheHardCap(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(2), MaxInFlight: 1})
	pick(t, p, only("e1", start)).ReleaseAt(start, router.Outcome{StatusCode: 429, RetryAfter: 25 * time.Second})
	pick(t, p, only("e0", start))
	var full *router.SaturatedError
	if _, err := p.Pick(router.Request{At: start}); !errors.As(err, &full) || full.RetryAfter != time.Second {
		t.Errorf("Pick = %v, want saturated for a second", err)
	}
	if got, want := full.Error(), "router: saturated, retry after 1s"; got != want {
		t.Errorf("Error() = %s, want %s", got, want)
	}
}
