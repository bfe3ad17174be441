package loadstats

// Load is what is known about one endpoint at one moment: the caller's own
// account, which is exact and never old, and the engine's last report, which
// may be missing. It is a value; the Report it points to is shared and must
// not be changed.
type Load struct {
	// InFlight counts requests picked for the endpoint and not yet released, also
	// those of other gateways that this one was told of.
	InFlight int
	// SentSince counts requests sent since Report was first seen: the engine
	// can't have counted them.
	SentSince int

	// PendingPrefills and PendingPrefillTokens are the requests sent that have
	// no first token yet, and their tokens believed absent from the cache.
	PendingPrefills      int
	PendingPrefillTokens int
	// Backlog is PendingPrefillTokens less what the endpoint has presumably
	// computed since its oldest pending request came to the front, in tokens.
	Backlog int
	// Overdue says that the pending prefills should all be over by now, at the
	// measured rate, and no first token has said so: it is not told, as for
	// answers that are not streamed, or the endpoint is slower than it was.
	Overdue bool

	// PinnedTokens is the cache that requests in flight hold, prefixes that
	// several of them share counted once. CachedTokens is everything believed
	// to be cached, pinned or idle. Both in tokens.
	PinnedTokens int
	CachedTokens int
	// CapacityTokens is the size of the KV cache in tokens, zero if unknown.
	CapacityTokens int
	// PrefillRate is the measured speed of prefill in tokens per second, zero
	// if nothing was measured yet.
	PrefillRate float64
	// FailureShare is the share of recent requests that failed at the
	// endpoint, 0 to 1.
	FailureShare float64

	// Report is the engine's last report, nil if there is none. Fresh says
	// that it is young enough to be believed.
	Report *Report
	Fresh  bool
}

// Requests is the effective number of requests on the endpoint: the caller's
// own, or, where other gateways send to the same endpoint, what the engine
// reported plus what was sent since, whichever is more. A report that is
// stale, or silent about its requests, changes nothing.
func (l *Load) Requests() int {
	if l.Report == nil || !l.Fresh {
		return l.InFlight
	}
	running, ok1 := l.Report.Running.Get()
	waiting, ok2 := l.Report.Waiting.Get()
	if !ok1 && !ok2 {
		return l.InFlight
	}
	reported := min(min(running, manyRequests)+min(waiting, manyRequests), manyRequests)
	return max(l.InFlight, int(reported)+l.SentSince)
}

// manyRequests is more than any endpoint can have, so that absurd reports don't
// overflow.
const manyRequests = 1 << 24
