package loadstats_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/loadstats"
)

// engines is a Reporter whose answers take a given time. It counts the
// questions that are open at once.
type engines struct {
	takes time.Duration
	fail  func(endpoint string) error

	mu    sync.Mutex
	open  map[string]int
	most  map[string]int
	asked map[string][]time.Time
}

func (e *engines) Report(ctx context.Context, endpoint string) (loadstats.Report, error) {
	e.count(endpoint, 1)
	defer e.count(endpoint, -1)
	select {
	case <-ctx.Done():
		return loadstats.Report{}, ctx.Err()
	case <-time.After(e.takes):
	}
	if e.fail != nil {
		if err := e.fail(endpoint); err != nil {
			return loadstats.Report{}, err
		}
	}
	return loadstats.Report{Waiting: loadstats.Known(7)}, nil
}

func (e *engines) count(endpoint string, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == nil {
		e.open, e.most, e.asked = map[string]int{}, map[string]int{}, map[string][]time.Time{}
	}
	e.open[endpoint] += n
	e.most[endpoint] = max(e.most[endpoint], e.open[endpoint])
	if n > 0 {
		e.asked[endpoint] = append(e.asked[endpoint], time.Now())
	}
}

func (e *engines) times(endpoint string) []time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.asked[endpoint])
}

// openAtOnce returns the most questions that were ever open for the endpoint.
func (e *engines) openAtOnce(endpoint string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.most[endpoint]
}

// members is a membership that the test changes.
type members struct {
	mu  sync.Mutex
	ids []string
}

func (m *members) set(ids ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ids = ids
}

func (m *members) list() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.ids)
}

// run starts the poller and returns a function that stops it and waits.
func run(t *testing.T, p *loadstats.Poller) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestPoller_PutsReportsIntoTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table loadstats.Table
		e := &engines{takes: 10 * time.Millisecond}
		m := &members{ids: []string{"a", "b", "a"}}
		p := &loadstats.Poller{Reporter: e, Table: &table, Endpoints: m.list}
		stop := run(t, p)
		time.Sleep(time.Second + 20*time.Millisecond)
		synctest.Wait()
		for _, endpoint := range []string{"a", "b"} {
			r, ok := table.Latest(endpoint)
			if !ok || r.Waiting != loadstats.Known(7) || !r.FreshAt(time.Now(), time.Second+20*time.Millisecond) {
				t.Errorf("Latest(%s) = %+v, %v, want a fresh report", endpoint, r, ok)
			}
			if !slices.Contains(e.times(endpoint), r.At) {
				t.Errorf("report of %s is from %v, asked at %v", endpoint, r.At, e.times(endpoint))
			}
			if s, ok := p.Status(endpoint); !ok || s.Reports < 1 || s.Failures != 0 || s.LastError != nil {
				t.Errorf("Status(%s) = %+v, %v", endpoint, s, ok)
			}
		}
		if e.openAtOnce("a") != 1 {
			t.Errorf("%d questions open at once for an endpoint named twice, want 1", e.openAtOnce("a"))
		}
		if e.times("a")[0].Equal(e.times("b")[0]) {
			t.Error("both endpoints were asked at the same moment")
		}
		stop()
	})
}

func TestPoller_KeepsTheIntervalGiveOrTakeATenth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engines{}
		p := &loadstats.Poller{
			Reporter: e, Table: new(loadstats.Table), Endpoints: func() []string { return []string{"a"} },
			Interval: 100 * time.Millisecond,
		}
		stop := run(t, p)
		time.Sleep(time.Minute)
		stop()
		times, gaps := e.times("a"), make(map[time.Duration]bool)
		for i := range len(times) - 1 {
			gap := times[i+1].Sub(times[i])
			gaps[gap] = true
			if gap < 90*time.Millisecond || gap > 110*time.Millisecond {
				t.Fatalf("gap of %v, want 100 ms ± 10 %%", gap)
			}
		}
		if n := len(times); n < 560 || n > 640 {
			t.Errorf("asked %d times in a minute, want about 600", n)
		}
		if len(gaps) < 100 {
			t.Errorf("only %d different gaps: no jitter", len(gaps))
		}
	})
}

func TestPoller_SeedMovesTheMoments(t *testing.T) {
	first := func(seed uint64) (at time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			e, began := &engines{}, time.Now()
			p := &loadstats.Poller{
				Reporter: e, Table: new(loadstats.Table), Seed: seed,
				Endpoints: func() []string { return []string{"a"} },
			}
			stop := run(t, p)
			time.Sleep(time.Second)
			stop()
			at = e.times("a")[0].Sub(began)
		})
		return at
	}
	if a, b := first(1), first(1); a != b {
		t.Errorf("seed 1 asked first after %v, then after %v", a, b)
	}
	if a, b := first(1), first(2); a == b {
		t.Errorf("seeds 1 and 2 both asked first after %v", a)
	}
}

// A scrape that takes half a minute: never two at once, and the endpoint keeps
// its place in the table.
func TestPoller_SlowEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table loadstats.Table
		old := loadstats.Report{At: time.Now(), Waiting: loadstats.Known(1)}
		table.Report("a", old)
		e := &engines{takes: 30 * time.Second}
		p := &loadstats.Poller{
			Reporter: e, Table: &table, Endpoints: func() []string { return []string{"a"} },
			Timeout: 2 * time.Second,
		}
		stop := run(t, p)
		time.Sleep(time.Minute)
		synctest.Wait()
		s, ok := p.Status("a")
		if !ok || s.Reports != 0 || s.Failures < 15 || !errors.Is(s.LastError, context.DeadlineExceeded) {
			t.Errorf("Status(a) = %+v, %v, want timeouts only", s, ok)
		}
		if age := time.Since(s.LastErrorAt); age < 0 || age > 4*time.Second {
			t.Errorf("last error %v ago", age)
		}
		stop()
		if e.openAtOnce("a") != 1 {
			t.Errorf("%d questions open at once, want 1", e.openAtOnce("a"))
		}
		if got, _ := table.Latest("a"); got != old {
			t.Errorf("Latest(a) = %+v, want the old report %+v", got, old)
		}
	})
}

func TestPoller_FailuresOfOneLeaveTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table loadstats.Table
		e := &engines{fail: func(endpoint string) error {
			if endpoint == "bad" {
				return fmt.Errorf("acme: %w", loadstats.ErrNoReading)
			}
			return nil
		}}
		p := &loadstats.Poller{Reporter: e, Table: &table, Endpoints: func() []string { return []string{"good", "bad"} }}
		stop := run(t, p)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s, _ := p.Status("bad"); s.Failures < 8 || !errors.Is(s.LastError, loadstats.ErrNoReading) {
			t.Errorf("Status(bad) = %+v", s)
		}
		if s, _ := p.Status("good"); s.Reports < 8 || s.Failures != 0 {
			t.Errorf("Status(good) = %+v", s)
		}
		stop()
		if r, ok := table.Latest("bad"); ok {
			t.Errorf("Latest(bad) = %+v, want no report", r)
		}
	})
}

func TestPoller_FollowsMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table loadstats.Table
		e, m := &engines{}, &members{}
		p := &loadstats.Poller{Reporter: e, Table: &table, Endpoints: m.list}
		stop := run(t, p)
		for range 3 { // come, leave, come back
			m.set("a", "b")
			time.Sleep(4 * time.Second)
			synctest.Wait()
			if _, ok := p.Status("b"); !ok {
				t.Fatal("b is a member and is not polled")
			}
			m.set("a")
			time.Sleep(time.Second + time.Millisecond)
			synctest.Wait()
			if _, ok := p.Status("b"); ok {
				t.Fatal("b left and is still polled")
			}
			asked := len(e.times("b"))
			time.Sleep(4 * time.Second)
			synctest.Wait()
			if got := len(e.times("b")); got != asked {
				t.Fatalf("b left and was asked %d times", got-asked)
			}
		}
		if e.openAtOnce("a") != 1 || len(e.times("a")) < 20 {
			t.Errorf("a was asked %d times, %d at once", len(e.times("a")), e.openAtOnce("a"))
		}
		stop()
	})
}

func TestPoller_LongestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engines{takes: time.Second}
		ids := strings.Split("abcdefgh", "")
		stop := run(t, &loadstats.Poller{
			Reporter: e, Table: new(loadstats.Table), Endpoints: func() []string { return ids }, Interval: math.MaxInt64,
		})
		const years = 365 * 24 * time.Hour
		time.Sleep(200 * years)
		for _, id := range ids {
			if n := len(e.times(id)); n < 1 || n > 2 {
				t.Errorf("%s was asked %d times in two centuries, want once or twice", id, n)
			}
		}
		stop()
	})
}

// An answer that comes after its endpoint left is not written any more, and Run
// waits for it.
func TestPoller_LateAnswerIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table loadstats.Table
		var open atomic.Int32
		stubborn := reporterFunc(func(context.Context, string) (loadstats.Report, error) {
			open.Add(1)
			defer open.Add(-1)
			time.Sleep(3 * time.Second)
			return loadstats.Report{Waiting: loadstats.Known(1)}, nil
		})
		m := &members{ids: []string{"a"}}
		stop := run(t, &loadstats.Poller{Reporter: stubborn, Table: &table, Endpoints: m.list})
		time.Sleep(1500 * time.Millisecond)
		m.set()
		time.Sleep(time.Second)
		if open.Load() != 1 {
			t.Error("no question is open, so that Run has nothing to wait for")
		}
		stop()
		if open.Load() != 0 {
			t.Error("Run returned before the last answer")
		}
		if r, ok := table.Latest("a"); ok {
			t.Errorf("Latest(a) = %+v, want nothing", r)
		}
	})
}

type reporterFunc func(context.Context, string) (loadstats.Report, error)

func (f reporterFunc) Report(ctx context.Context, endpoint string) (loadstats.Report, error) {
	return f(ctx, endpoint)
}

func TestPoller_RunRefusesAndRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, table := &engines{}, new(loadstats.Table)
		endpoints := func() []string { return []string{"a"} }
		for want, p := range map[string]*loadstats.Poller{
			"Reporter is nil":         {Table: table, Endpoints: endpoints},
			"Table is nil":            {Reporter: e, Endpoints: endpoints},
			"Endpoints is nil":        {Reporter: e, Table: table},
			"Interval -1ns is negati": {Reporter: e, Table: table, Endpoints: endpoints, Interval: -1},
			"Timeout -1s is negative": {Reporter: e, Table: table, Endpoints: endpoints, Timeout: -time.Second},
		} {
			if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Run = %v, want %q", err, want)
			}
		}
		p := &loadstats.Poller{Reporter: e, Table: table, Endpoints: endpoints}
		for range 2 {
			stop := run(t, p)
			time.Sleep(2 * time.Second)
			if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "already running") {
				t.Errorf("second Run = %v, want an error", err)
			}
			stop()
		}
		if e.open["a"] != 0 || e.openAtOnce("a") != 1 {
			t.Errorf("%d questions left open, %d at once", e.open["a"], e.openAtOnce("a"))
		}
	})
}
