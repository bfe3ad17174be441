package router

import (
	"time"

	"github.com/warmroute/warmroute/loadstats"
)

// EndpointStats is the state of one endpoint at one moment.
type EndpointStats struct {
	Endpoint Endpoint
	// Left says that it is not a member any more and only finishes what it has.
	Left bool
	// Cooling says that the breaker is open: it takes nothing but a probe when its
	// time is over. Busy says that it asked to be left alone for now.
	Cooling, Busy bool
	// Picks counts the requests sent to it by this pool since it joined.
	Picks int64
	// TTFT is the recent mean time to first token, zero if unknown.
	TTFT time.Duration
	// Load is what the policy sees.
	Load loadstats.Load
}

// Stats returns the state of every endpoint: members sorted by ID, then those
// that left and still have requests in flight.
func (p *Pool) Stats() []EndpointStats { return p.StatsAt(time.Now()) }

// StatsAt is Stats at a given time.
func (p *Pool) StatsAt(now time.Time) []EndpointStats {
	p.dropOldRemote(now)
	p.leavingMu.Lock()
	defer p.leavingMu.Unlock()
	snap := p.members.Load()
	stats := make([]EndpointStats, 0, len(snap.members))
	add := func(e entry, left bool) {
		nano := now.UnixNano()
		s := EndpointStats{
			Endpoint: e.endpoint, Left: left,
			Cooling: e.circuit.until.Load() != 0, Busy: e.busy(nano),
			Picks: e.picks.Load(), TTFT: e.ledger.TTFT(now),
		}
		e.read(&s.Load, now, p.config.ReportMaxAge)
		stats = append(stats, s)
	}
	for _, e := range snap.members {
		add(e, false)
	}
	for _, e := range p.leaving {
		add(e, true)
	}
	return stats
}
