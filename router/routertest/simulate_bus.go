package routertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
)

// bus carries announcements between gateways. All take the same time, so they
// arrive in the order in which they were sent.
type bus struct {
	queue []announcement
	err   error // of an event that could not be encoded
}

type announcement struct {
	at   time.Duration // when it arrives
	from int
	data []byte
}

func (c *cluster) announce(from int, e *router.Event) {
	data, err := e.AppendBinary(nil)
	if err != nil {
		c.bus.err = errors.Join(c.bus.err, err)
		return
	}
	c.bus.queue = append(c.bus.queue, announcement{c.now + c.scenario.Gateways.AnnounceDelay, from, data})
}

// deliverAnnouncements hands over what arrives up to a time.
func (c *cluster) deliverAnnouncements(to time.Duration) error {
	for len(c.bus.queue) > 0 && c.bus.queue[0].at <= to {
		a := c.bus.queue[0]
		c.bus.queue = c.bus.queue[1:]
		var e router.Event
		if err := e.UnmarshalBinary(a.data); err != nil {
			return err
		}
		for _, g := range c.gateways {
			if g.Number == a.from {
				continue
			}
			r, ok := g.router.(interface {
				ApplyAt(time.Time, *router.Event) error
			})
			if !ok {
				return fmt.Errorf("routertest: gateway %d was told of an event and has no method ApplyAt", g.Number)
			}
			if err := r.ApplyAt(simulationStart.Add(a.at), &e); err != nil {
				return err
			}
		}
	}
	return c.bus.err
}

// reporting makes the engines' reports. They are made at fixed times, from the
// state of the engine then, and arrive later.
type reporting struct {
	table   *loadstats.Table // nil: there are none
	next    time.Duration    // when engines report next
	arrives []lateReport
}

type lateReport struct {
	at       time.Duration
	endpoint string
	report   loadstats.Report
}

// deliverReports makes the reports due up to a time, and hands over those that
// arrive.
func (c *cluster) deliverReports(to time.Duration) error {
	r := &c.reports
	if r.table == nil {
		return nil
	}
	how := &c.scenario.Reports
	for ; r.next <= to; r.next += how.Every {
		for _, e := range c.engines {
			if e.model == nil {
				continue
			}
			report := e.report(simulationStart.Add(r.next))
			if how.Alter != nil && !how.Alter(e.endpoint.ID, &report) {
				continue
			}
			r.arrives = append(r.arrives, lateReport{r.next + how.Late, e.endpoint.ID, report})
		}
	}
	for len(r.arrives) > 0 && r.arrives[0].at <= to {
		r.table.Report(r.arrives[0].endpoint, r.arrives[0].report)
		r.arrives = r.arrives[1:]
	}
	return nil
}

func (e *simEngine) report(at time.Time) loadstats.Report {
	s := e.model.Stats()
	return loadstats.Report{
		At:            at,
		Running:       loadstats.Known(int64(s.Running - s.Unbegun)),
		Waiting:       loadstats.Known(int64(s.Waiting + s.Unbegun)),
		KVCacheUsage:  loadstats.Ratio(s.KVUsage),
		KVCacheTokens: loadstats.Known(int64(s.KVTokens)),
	}
}
