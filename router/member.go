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
//
// What each pick reads of each member comes first and next to each other: it
// fits into little more than two cache lines, which is most of the cost of a pick in a
// large pool. What every request changes besides follows at once.
type member struct {
	slot   prefixindex.Slot
	report *loadstats.Cell // nil without reports
	// joined is the UnixNano from which it comes up to its full share; 0: it has
	// it.
	joined atomic.Int64
	// busyUntil is the end of the time it asked to be left alone, UnixNano.
	busyUntil atomic.Int64
	circuit   circuit
	ledger    loadstats.Ledger

	// picks counts the requests that went to it.
	picks  atomic.Int64
	untold untold
	// closed says that it takes no new requests, because it left or drains: a
	// pick that raced with that must choose again.
	closed atomic.Bool

	id       string
	capacity capacity
}

// read fills in what is known about the member now.
func (m *member) read(l *loadstats.Load, now time.Time, maxAge time.Duration) {
	var report *loadstats.Report
	if m.report != nil {
		report = m.report.Latest()
	}
	m.ledger.Read(l, now, report, maxAge)
	capacity, held, used := m.slot.Size()
	l.CapacityTokens, l.CachedTokens, l.PinnedTokens = capacity*BlockTokens, held*BlockTokens, used*BlockTokens
}

// ramp is the share of its bound that a member which joined late may use yet.
// Once it had all it keeps it, even if the clock is set back.
func (m *member) ramp(now int64, slowStart time.Duration) float64 {
	joined := m.joined.Load()
	if joined == 0 {
		return 1
	}
	share := float64(now-joined) / float64(slowStart)
	if !(share < 1) || share < -1 || slowStart < 0 {
		m.joined.Store(0)
		return 1
	}
	return max(minRamp, share)
}

// busy says that it asked to be left alone and the time is not over. More than
// the longest such time can only be left if the clock was set back.
func (m *member) busy(now int64) bool {
	left := m.busyUntil.Load() - now
	return left > 0 && left <= int64(maxBackPressure)
}

// minRamp is the share with which an endpoint starts.
const minRamp = 0.1
