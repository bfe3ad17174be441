package loadstats_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/warmroute/warmroute/loadstats"
)

func TestTable_ZeroValueKnowsNobody(t *testing.T) {
	var table loadstats.Table
	if r, ok := table.Latest("a"); ok || r != (loadstats.Report{}) {
		t.Errorf("Latest(a) = %+v, %v, want nothing", r, ok)
	}
	table.Forget("a")
	if r := table.Cell("a").Latest(); r != nil {
		t.Errorf("Cell(a).Latest() = %+v, want nil", r)
	}
	if _, ok := table.Latest("a"); ok {
		t.Error("Latest(a) has a report after Cell(a) made an empty place")
	}
}

func TestTable_NewestWins(t *testing.T) {
	var table loadstats.Table
	cell := table.Cell("a")
	newer := loadstats.Report{At: start.Add(time.Second), Waiting: loadstats.Known(2)}
	table.Report("a", newer)
	held := cell.Latest()
	table.Report("a", loadstats.Report{At: start, Waiting: loadstats.Known(9)})
	if got := cell.Latest(); got != held || *got != newer {
		t.Errorf("after an older report: %+v, want the same %+v", got, newer)
	}
	same := loadstats.Report{At: newer.At, Waiting: loadstats.Known(3)}
	table.Report("a", same)
	if got, ok := table.Latest("a"); !ok || got != same {
		t.Errorf("after a report of the same time: %+v, want %+v", got, same)
	}
	table.Report("a", loadstats.Report{Waiting: loadstats.Known(7)})
	if got, _ := table.Latest("a"); got != same {
		t.Errorf("after a report without a time: %+v, want %+v", got, same)
	}
	if _, ok := table.Latest("b"); ok {
		t.Error("Latest(b) has a report that was made for a")
	}
}

func TestTable_NothingIsMixedButCapacity(t *testing.T) {
	var table loadstats.Table
	table.Report("a", loadstats.Report{
		At: start, Running: loadstats.Known(4), KVCacheUsage: loadstats.Ratio(0.5),
		KVCacheTokens: loadstats.Known(400_000), Adapters: &loadstats.Adapters{},
	})
	table.Report("a", loadstats.Report{At: start.Add(1), Waiting: loadstats.Known(2)})
	want := loadstats.Report{At: start.Add(1), Waiting: loadstats.Known(2), KVCacheTokens: loadstats.Known(400_000)}
	if got, _ := table.Latest("a"); got != want {
		t.Errorf("Latest(a) = %+v, want %+v", got, want)
	}
	table.Report("a", loadstats.Report{At: start.Add(2), KVCacheTokens: loadstats.Known(7)})
	if got, _ := table.Latest("a"); got.KVCacheTokens != loadstats.Known(7) {
		t.Errorf("capacity = %v, want the newly reported 7", got.KVCacheTokens)
	}
}

func TestTable_ForgottenEndpointComesBackNew(t *testing.T) {
	var table loadstats.Table
	old := table.Cell("a")
	table.Report("a", loadstats.Report{At: start, KVCacheTokens: loadstats.Known(1)})
	table.Forget("a")
	if _, ok := table.Latest("a"); ok || old.Latest() != nil {
		t.Error("a forgotten endpoint still has a report")
	}
	back := loadstats.Report{At: start.Add(-time.Hour), Waiting: loadstats.Known(1)}
	table.Report("a", back)
	if got, _ := table.Latest("a"); got != back {
		t.Errorf("Latest(a) = %+v, want %+v: neither age nor capacity of the old one count", got, back)
	}
	if r := old.Latest(); r != nil {
		t.Errorf("the old cell shows the new endpoint's report %+v", r)
	}
}

func TestTable_ConcurrentReportsLeaveTheNewest(t *testing.T) {
	var table loadstats.Table
	const endpoints, writers, reports = 4, 4, 500
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range reports {
				// Each writer goes up and down in time.
				at := start.Add(time.Duration((i*7919+w)%reports) * time.Millisecond)
				for e := range endpoints {
					table.Report(fmt.Sprint(e), loadstats.Report{At: at, Waiting: loadstats.Known(at.Sub(start).Milliseconds())})
				}
			}
		})
	}
	for e := range endpoints {
		wg.Go(func() {
			cell := table.Cell(fmt.Sprint(e))
			var last time.Time
			for range 5000 {
				r := cell.Latest()
				if r == nil {
					continue
				}
				if r.At.Before(last) {
					t.Errorf("endpoint %d went back from %v to %v", e, last, r.At)
					return
				}
				last = r.At
			}
		})
	}
	wg.Wait()
	for e := range endpoints {
		r, ok := table.Latest(fmt.Sprint(e))
		if want := loadstats.Known(reports - 1); !ok || r.Waiting != want {
			t.Errorf("endpoint %d: %+v, want the report of the last millisecond", e, r)
		}
	}
}

func TestTable_ReadsDoNotAllocate(t *testing.T) {
	var table loadstats.Table
	table.Report("a", loadstats.Report{At: start, Waiting: loadstats.Known(1)})
	cell := table.Cell("a")
	allocs := testing.AllocsPerRun(100, func() {
		if r, ok := table.Latest("a"); !ok || !r.FreshAt(start, time.Second) || cell.Latest() == nil || table.Cell("a") != cell {
			t.Fatal("the report is gone")
		}
	})
	if allocs != 0 {
		t.Errorf("reads allocate %v times, want 0", allocs)
	}
}

func BenchmarkTable(b *testing.B) {
	const n = 1024
	var table loadstats.Table
	names := make([]string, n)
	cells := make([]*loadstats.Cell, n)
	for i := range names {
		names[i] = fmt.Sprintf("http://10.0.%d.%d:8000", i/256, i%256)
		table.Report(names[i], loadstats.Report{At: start, Waiting: loadstats.Known(int64(i))})
		cells[i] = table.Cell(names[i])
	}
	b.Run(fmt.Sprintf("Load/endpoints=%d", n), func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if _, ok := table.Latest(names[i]); !ok {
				b.Fatal("no report")
			}
			i = (i + 1) % n
		}
	})
	b.Run(fmt.Sprintf("Cell/endpoints=%d", n), func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if !cells[i].Latest().FreshAt(start, time.Second) {
				b.Fatal("stale")
			}
			i = (i + 1) % n
		}
	})
	b.Run("Load/parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			i := 0
			for pb.Next() {
				table.Latest(names[i])
				i = (i + 1) % n
			}
		})
	})
	b.Run("Report", func(b *testing.B) {
		b.ReportAllocs()
		at, i := start, 0
		for b.Loop() {
			at = at.Add(1)
			table.Report(names[i], loadstats.Report{At: at, Waiting: loadstats.Known(3)})
			i = (i + 1) % n
		}
	})
}
