package loadstats_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/warmroute/warmroute/loadstats"
)

var epoch = time.Unix(1_000_000, 0)

func read(l *loadstats.Ledger, at time.Time) loadstats.Load {
	var load loadstats.Load
	l.Read(&load, at, nil, 0)
	return load
}

func TestLedger_LifeOfARequest(t *testing.T) {
	var l loadstats.Ledger
	if got := read(&l, epoch); got != (loadstats.Load{}) {
		t.Errorf("idle: %+v", got)
	}
	if !l.Reserve(epoch, 0, 20_000) {
		t.Fatal("Reserve on the state seen failed")
	}
	if got := read(&l, epoch); got.InFlight != 1 || got.PendingPrefills != 1 || got.PendingPrefillTokens != 20_000 || got.Backlog != 20_000 {
		t.Errorf("sent: %+v", got)
	}
	l.FirstToken(epoch.Add(2*time.Second), epoch, 20_000)
	got := read(&l, epoch.Add(2*time.Second))
	if got.InFlight != 1 || got.PendingPrefills != 0 || got.Backlog != 0 || got.PrefillRate != 10_000 {
		t.Errorf("first token after 2 s: %+v, want a rate of 10,000 tokens/s", got)
	}
	if ttft := l.TTFT(epoch.Add(2 * time.Second)); ttft != 2*time.Second {
		t.Errorf("TTFT = %v", ttft)
	}
	l.Release(epoch.Add(3*time.Second), 20_000, false)
	if got := read(&l, epoch); got.InFlight != 0 || got.PendingPrefillTokens != 0 {
		t.Errorf("released: %+v", got)
	}
	if err := l.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

// Of two who decided on the same state the second must decide again.
func TestLedger_ReserveOnAStateThatHasChanged(t *testing.T) {
	var l loadstats.Ledger
	if !l.Reserve(epoch, 0, 5) || l.Reserve(epoch, 0, 5) || l.Reserve(epoch, 2, 5) {
		t.Error("Reserve must succeed for the state that is and fail for others")
	}
	if got := read(&l, epoch); got.InFlight != 1 || got.PendingPrefillTokens != 5 {
		t.Errorf("after failed reservations: %+v", got)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				for !l.Reserve(epoch, l.InFlight(), 7) {
				}
			}
		})
	}
	wg.Wait()
	if got := read(&l, epoch); got.InFlight != 801 || got.PendingPrefillTokens != 5+800*7 {
		t.Errorf("after 800 reservations at once: %+v", got)
	}
}

// The backlog shrinks while the request at the front is computed, but the last
// tenth of one request is believed only when its token comes.
func TestLedger_BacklogProgress(t *testing.T) {
	var l loadstats.Ledger
	l.Add(epoch, 10_000)
	l.Add(epoch.Add(time.Second), 10_000)
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{-time.Hour, 20_000}, {0, 20_000}, {500 * time.Millisecond, 15_000}, {time.Hour, 11_000}} {
		if got := read(&l, epoch.Add(c.after)).Backlog; got != c.want {
			t.Errorf("after %v: backlog %d, want %d", c.after, got, c.want)
		}
	}
	l.FirstToken(epoch.Add(2*time.Second), epoch, 10_000) // 5,000 tokens a second
	if got := read(&l, epoch.Add(3*time.Second)).Backlog; got != 5_000 {
		t.Errorf("a second into the second one: backlog %d, want 5,000", got)
	}
}

// Prefills are overdue when all of them should be over and none has been told to
// be; a first token says when those behind it began.
func TestLedger_Overdue(t *testing.T) {
	var l loadstats.Ledger
	overdue := func(after time.Duration, want bool) {
		t.Helper()
		if got := read(&l, epoch.Add(after)).Overdue; got != want {
			t.Errorf("after %v: Overdue = %v, want %v", after, got, want)
		}
	}
	overdue(time.Hour, false) // nothing is pending
	l.Add(epoch, 10_000)
	l.Add(epoch, 10_000) // at 10,000 a second
	overdue(2*time.Second-1, false)
	overdue(2*time.Second, true)
	l.FirstToken(epoch.Add(500*time.Millisecond), epoch, 10_000) // 20,000 a second
	overdue(time.Second-1, false)
	overdue(time.Second, true)
	l.Add(epoch.Add(3*time.Second), 2_000)
	overdue(3100*time.Millisecond-1, false)
	overdue(3100*time.Millisecond, true)
	l.Release(epoch.Add(4*time.Second), 10_000, true)
	overdue(time.Hour, true)
	l.Release(epoch.Add(4*time.Second), 2_000, true)
	overdue(time.Hour, false)
}

func TestLedger_SmallPrefillsDontTeachTheRate(t *testing.T) {
	var l loadstats.Ledger
	l.Add(epoch, 10)
	l.FirstToken(epoch.Add(time.Second), epoch, 10)
	if got := l.PrefillRate(); got != 0 {
		t.Errorf("rate = %v after 10 tokens, want unknown", got)
	}
	for range 30 { // the average is of time, weighted by tokens
		l.Add(epoch, 50_000)
		l.FirstToken(epoch.Add(5*time.Second), epoch, 50_000)
	}
	if got := l.PrefillRate(); math.Abs(got-10_000) > 1 {
		t.Errorf("rate = %v, want 10,000", got)
	}
}

func TestLedger_RandomLivesEndAtZero(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var l loadstats.Ledger
	type request struct {
		sent   time.Time
		tokens int
		first  bool
	}
	var live []request
	now := epoch
	for range 20_000 {
		now = now.Add(time.Duration(rng.IntN(2000)-500) * time.Millisecond) // clocks step back, too
		switch k := rng.IntN(3); {
		case k == 0 || len(live) == 0:
			r := request{now, rng.IntN(30_000), false}
			l.Add(now, r.tokens)
			live = append(live, r)
		case k == 1:
			if r := &live[rng.IntN(len(live))]; !r.first {
				r.first = true
				l.FirstToken(now, r.sent, r.tokens)
			}
		default:
			i := rng.IntN(len(live))
			l.Release(now, live[i].tokens, !live[i].first)
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
		}
		got := read(&l, now)
		if got.InFlight != len(live) || got.Backlog < 0 || got.Backlog > got.PendingPrefillTokens || math.IsNaN(got.PrefillRate) || got.PrefillRate < 0 {
			t.Fatalf("%d live: %+v", len(live), got)
		}
		if err := l.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range live {
		l.Release(now, r.tokens, !r.first)
	}
	if got := read(&l, now); got.InFlight != 0 || got.PendingPrefills != 0 || got.PendingPrefillTokens != 0 {
		t.Errorf("at the end: %+v", got)
	}
}

func TestLedger_FailureShareFades(t *testing.T) {
	var l loadstats.Ledger
	l.Outcome(epoch, false) // remembered only once something failed
	for range 9 {
		l.Outcome(epoch, true)
	}
	l.Outcome(epoch, false)
	if got := read(&l, epoch).FailureShare; math.Abs(got-0.9) > 1e-9 {
		t.Errorf("share = %v, want 0.9", got)
	}
	if got := read(&l, epoch.Add(2*time.Minute)).FailureShare; got <= 0 || got >= 0.9 {
		t.Errorf("share after two minutes = %v, want less", got)
	}
	if got := read(&l, epoch.Add(time.Hour)).FailureShare; got != 0 {
		t.Errorf("share after an hour = %v, want 0", got)
	}
}

func TestLoad_Requests(t *testing.T) {
	fresh := &loadstats.Report{At: epoch, Running: loadstats.Known(4), Waiting: loadstats.Known(3)}
	for _, c := range []struct {
		name string
		load loadstats.Load
		want int
	}{
		{"no report", loadstats.Load{InFlight: 2}, 2},
		{"others' requests", loadstats.Load{InFlight: 2, Report: fresh, Fresh: true}, 7},
		{"sent since the report", loadstats.Load{InFlight: 2, SentSince: 5, Report: fresh, Fresh: true}, 12},
		{"more of our own", loadstats.Load{InFlight: 20, Report: fresh, Fresh: true}, 20},
		{"stale", loadstats.Load{InFlight: 2, Report: fresh}, 2},
		{"silent", loadstats.Load{InFlight: 2, SentSince: 5, Report: &loadstats.Report{At: epoch}, Fresh: true}, 2},
		{"running only", loadstats.Load{Report: &loadstats.Report{Running: loadstats.Known(3)}, Fresh: true}, 3},
		{"absurd", loadstats.Load{Report: &loadstats.Report{Running: loadstats.Known(1 << 60), Waiting: loadstats.Known(1 << 60)}, Fresh: true}, 1 << 24},
	} {
		if got := c.load.Requests(); got != c.want {
			t.Errorf("%s: Requests() = %d, want %d", c.name, got, c.want)
		}
	}
}

// What was sent before a report was first seen is in it; what came after is not.
func TestLedger_SentSince(t *testing.T) {
	var l loadstats.Ledger
	l.Add(epoch, 0)
	l.Add(epoch, 0)
	r := &loadstats.Report{At: epoch, Running: loadstats.Known(2)}
	var load loadstats.Load
	l.Read(&load, epoch, r, time.Second)
	if !load.Fresh || load.SentSince != 0 {
		t.Errorf("first look: %+v", load)
	}
	l.Add(epoch, 0)
	l.Read(&load, epoch, r, time.Second)
	if load.SentSince != 1 || load.Requests() != 3 {
		t.Errorf("after one more: sent since %d, requests %d, want 1 and 3", load.SentSince, load.Requests())
	}
	l.Read(&load, epoch.Add(2*time.Second), r, time.Second)
	if load.Fresh || load.SentSince != 0 || load.Requests() != 3 {
		t.Errorf("stale: %+v", load)
	}
}

func TestLedger_DoesNotAllocate(t *testing.T) {
	var l loadstats.Ledger
	r := &loadstats.Report{At: epoch}
	var load loadstats.Load
	life := func() { // only a new report takes memory
		l.Read(&load, epoch, r, time.Second)
		if !l.Reserve(epoch, load.InFlight, 1000) {
			t.Error("Reserve failed")
		}
		l.FirstToken(epoch.Add(time.Second), epoch, 1000)
		l.Release(epoch, 1000, false)
		l.Outcome(epoch, true)
	}
	life()
	if n := testing.AllocsPerRun(100, life); n != 0 {
		t.Errorf("the life of a request allocates %v times", n)
	}
}

func TestLedger_ClockSetBack(t *testing.T) {
	var l loadstats.Ledger
	l.Add(epoch, 1000)
	l.FirstToken(epoch.Add(-time.Hour), epoch, 1000)
	if got := l.TTFT(epoch); got != 0 {
		t.Errorf("TTFT of a first token before the request = %v, want unknown", got)
	}
	if got := l.PrefillRate(); got != 0 {
		t.Errorf("rate = %v, want unknown", got)
	}
	for range 10 {
		l.Outcome(epoch, true)
	}
	if got := read(&l, epoch.Add(-time.Hour)).FailureShare; got != 0 {
		t.Errorf("failure share an hour before the failures = %v, want 0", got)
	}
}

// A request that waited behind another one was not being computed meanwhile.
func TestLedger_RateIsFromTheFrontOfTheQueue(t *testing.T) {
	var l loadstats.Ledger
	l.Add(epoch, 10_000)
	l.Add(epoch, 10_000)
	l.FirstToken(epoch.Add(2*time.Second), epoch, 10_000)
	l.FirstToken(epoch.Add(4*time.Second), epoch, 10_000)
	if got := l.PrefillRate(); math.Abs(got-5_000) > 1e-6 {
		t.Errorf("rate = %v, want 5,000", got)
	}
}

// One odd prefill moves the rate by its share of 50,000 tokens.
func TestLedger_RateIsAnAverage(t *testing.T) {
	var l loadstats.Ledger
	l.Add(epoch, 10_000)
	l.FirstToken(epoch.Add(time.Second), epoch, 10_000)
	at := epoch.Add(time.Minute)
	l.Add(at, 50_000)
	l.FirstToken(at.Add(10*time.Second), at, 50_000)
	// Half-way between 0.1 and 0.2 ms a token.
	if got, want := l.PrefillRate(), 1/0.00015; math.Abs(got-want) > 1e-6 {
		t.Errorf("rate = %v, want %v", got, want)
	}
}

// What is left of an old failure is a small share, not the whole.
func TestLedger_OldEvidenceWeighsLess(t *testing.T) {
	var l loadstats.Ledger
	l.Outcome(epoch, true)
	for _, c := range []struct {
		after time.Duration
		want  float64
	}{{0, 1}, {loadstats.DefaultHalfLife, 0.5}, {2 * loadstats.DefaultHalfLife, 0.25}} {
		if got := read(&l, epoch.Add(c.after)).FailureShare; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v after the only request failed: share %v, want %v", c.after, got, c.want)
		}
	}
}
