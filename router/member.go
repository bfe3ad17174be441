package router

import (
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router/internal/prefixindex"
)

// member is one generation of an endpoint: it lives from the SetEndpoints that
// brings it to the last release after the one that takes it away. Decisions
// point to the generation, not to the name.
type member struct {
	id       string
	slot     prefixindex.Slot
	joined   int64 // UnixNano from which it comes up to its full share; 0: always had it
	ledger   loadstats.Ledger
	circuit  circuit
	report   *loadstats.Cell // nil without reports
	capacity capacity
	// closed says that it takes no new requests, because it left or drains: a
	// pick that raced with that must choose again.
	closed atomic.Bool
	// busyUntil is the end of the time it asked to be left alone, UnixNano.
	busyUntil atomic.Int64
	// picks counts the requests that went to it.
	picks atomic.Int64
}

// read fills in what is known about the member now.
func (m *member) read(l *loadstats.Load, match *prefixindex.Match, now time.Time, maxAge time.Duration) {
	var report *loadstats.Report
	if m.report != nil {
		report = m.report.Latest()
	}
	m.ledger.Read(l, now, report, maxAge)
	u := match.Usage(m.slot)
	l.CapacityTokens = int(u.Capacity) * BlockTokens
	l.PinnedTokens = int(u.Pinned+u.Own) * BlockTokens
	l.CachedTokens = int(u.Blocks) * BlockTokens
}

// ramp is the share of its bound that a member which joined late may use yet.
func (m *member) ramp(now int64, slowStart time.Duration) float64 {
	if m.joined == 0 || slowStart <= 0 {
		return 1
	}
	share := float64(now-m.joined) / float64(slowStart)
	return min(1, max(minRamp, share))
}

// minRamp is the share with which an endpoint starts.
const minRamp = 0.1
