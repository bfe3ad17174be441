package routertest

import (
	"testing"
	"time"
)

// HitRateAtLeast fails the test if less than the given share of the prompt tokens,
// 0 to 1, was cached.
func (r *Result) HitRateAtLeast(t testing.TB, share float64) {
	t.Helper()
	if !(r.HitRate >= share) || r.Requests == 0 {
		t.Errorf("hit rate of %d requests = %.4f, want at least %.4f", r.Requests, r.HitRate, share)
	}
}

// P99AtMost fails the test if more than one request in a hundred waited longer for
// its first token.
func (r *Result) P99AtMost(t testing.TB, limit time.Duration) {
	t.Helper()
	if r.TTFT.P99 > limit || r.Requests == 0 {
		t.Errorf("99th percentile of the TTFT of %d requests = %v, want at most %v", r.Requests, r.TTFT.P99, limit)
	}
}

// MovedAtMost fails the test if more than the given share of the later turns of
// conversations, 0 to 1, left an endpoint that could have taken them.
func (r *Result) MovedAtMost(t testing.TB, share float64) {
	t.Helper()
	if got := float64(r.Moved) / float64(max(1, r.LaterTurns)); got > share || r.LaterTurns == 0 {
		t.Errorf("moved %d of %d later turns = %.4f, want at most %.4f", r.Moved, r.LaterTurns, got, share)
	}
}

// BoundHeld fails the test if an endpoint got a request above the limit that its
// router gave for it.
func (r *Result) BoundHeld(t testing.TB) {
	t.Helper()
	if r.OverLimit > 0 {
		t.Errorf("decisions above Decision.Limit = %d, want 0", r.OverLimit)
	}
}

// NoLeak fails the test if a router still counts anything as in flight or pinned
// after the last release.
func (r *Result) NoLeak(t testing.TB) {
	t.Helper()
	if r.Leaked != 0 || r.LeakedTokens != 0 {
		t.Errorf("in flight after the last release: %d requests, %d tokens pinned, want none", r.Leaked, r.LeakedTokens)
	}
}
