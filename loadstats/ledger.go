package loadstats

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

const (
	// defaultPrefillRate is assumed until a first token was timed: 10 tokens
	// per millisecond, the order of a 70B model on four datacenter GPUs.
	// Simulation shows no difference between this and the learned rate of the
	// engine model, so it only has to be of the right order.
	defaultPrefillRate = 10_000.0
	// rateMinTokens is the smallest prefill that says something about the
	// rate; the first token of a smaller one is dominated by fixed costs.
	rateMinTokens = 512
	// rateMemoryTokens is the amount of timed prefill after which an old rate
	// has lost half its weight.
	rateMemoryTokens = 50_000.0
	// progressCap bounds the estimated progress of a prefill that has not
	// answered yet: the last tenth is believed only when the token comes.
	progressCap = 0.9
	// longestPrefill bounds what a prefill is expected to take, in seconds, in
	// case of a rate that makes no sense.
	longestPrefill = 3600.0
	// failureMemory is the age at which the last failure is forgotten.
	failureMemory = 5 * DefaultHalfLife
)

// Ledger is the caller's own account of one endpoint: what was sent to it and
// not answered yet. It needs no report from the engine and can't drift: each
// Reserve or Add is undone by exactly one Release, and a FirstToken in between
// moves the request from prefill to decode. The tokens of a request are those of
// its prompt that are not cached, zero or more, and the same in all its calls.
//
// The zero value is an idle endpoint. A Ledger is safe for concurrent use and
// must not be copied. It is never reset; an endpoint that leaves and comes back
// gets a new one.
type Ledger struct {
	inFlight      atomic.Int64
	sent          atomic.Int64
	pending       atomic.Int64
	pendingTokens atomic.Int64
	headSince     atomic.Int64  // UnixNano at which the oldest pending prefill came to the front
	doneBy        atomic.Int64  // UnixNano by which the pending prefills should be over
	rate          atomic.Uint64 // of prefill in tokens per second, float64 bits; 0 = nothing timed

	lastFailure atomic.Int64 // UnixNano, 0 = never
	failures    Average
	ttft        Average
	reported    atomic.Pointer[baseline]
}

// baseline remembers how much had been sent when a report was first seen.
type baseline struct {
	report *Report
	sent   int64
}

// Reserve counts one request of the given uncached prompt tokens as sent at
// now, provided the endpoint still has seen requests in flight; otherwise
// nothing changes and the result is false. A caller that decided on a Load
// passes its InFlight: of two callers that decided on the same one, the second
// has to decide again, so that a burst can't pile up on a single endpoint and
// no bound is overshot.
func (l *Ledger) Reserve(now time.Time, seen, tokens int) bool {
	if !l.inFlight.CompareAndSwap(int64(seen), int64(seen)+1) {
		return false
	}
	l.book(now, tokens)
	return true
}

// Add is Reserve without a condition, for requests that somebody else decided.
func (l *Ledger) Add(now time.Time, tokens int) {
	l.inFlight.Add(1)
	l.book(now, tokens)
}

func (l *Ledger) book(now time.Time, tokens int) {
	l.sent.Add(1)
	l.pendingTokens.Add(int64(tokens))
	if l.pending.Add(1) == 1 {
		l.headSince.Store(now.UnixNano())
	}
	for {
		old := l.doneBy.Load()
		if l.doneBy.CompareAndSwap(old, max(old, now.UnixNano())+l.prefillTime(tokens)) {
			return
		}
	}
}

// prefillTime is how long so many tokens should take, in nanoseconds.
func (l *Ledger) prefillTime(tokens int) int64 {
	rate := l.PrefillRate()
	if rate == 0 {
		rate = defaultPrefillRate
	}
	return int64(min(float64(tokens)/rate, longestPrefill) * 1e9)
}

// FirstToken records that the prefill of a request reserved at sent with the
// given tokens is over.
func (l *Ledger) FirstToken(now, sent time.Time, tokens int) {
	began := max(l.headSince.Load(), sent.UnixNano())
	l.endPrefill(now, tokens)
	if d := now.Sub(sent); d >= 0 { // else the clock was set back
		l.ttft.Add(now, d.Seconds())
	}
	if d := now.UnixNano() - began; tokens >= rateMinTokens && d > 0 {
		l.learnRate(float64(tokens), float64(d)/1e9)
	}
	// What is behind begins now, if that is earlier than was thought.
	by := now.UnixNano() + l.prefillTime(int(l.pendingTokens.Load()))
	if old := l.doneBy.Load(); by < old {
		l.doneBy.CompareAndSwap(old, by)
	}
}

func (l *Ledger) endPrefill(now time.Time, tokens int) {
	l.pendingTokens.Add(-int64(tokens))
	if l.pending.Add(-1) == 0 {
		l.doneBy.Store(now.UnixNano())
	}
	l.headSince.Store(now.UnixNano())
}

// learnRate averages the time that a token takes, weighted by tokens.
func (l *Ledger) learnRate(tokens, seconds float64) {
	for {
		old := l.rate.Load()
		perToken := seconds / tokens
		if old != 0 {
			was := 1 / math.Float64frombits(old)
			perToken = was + float64((perToken-was)*(tokens/(tokens+rateMemoryTokens)))
		}
		if l.rate.CompareAndSwap(old, math.Float64bits(1/perToken)) {
			return
		}
	}
}

// Release records that a request of the given tokens has left the endpoint.
// prefilling says that no FirstToken was recorded for it.
func (l *Ledger) Release(now time.Time, tokens int, prefilling bool) {
	if prefilling {
		l.endPrefill(now, tokens)
	}
	l.inFlight.Add(-1)
}

// Outcome teaches the failure share of the endpoint: one request that ended
// well, or failed through the endpoint's fault.
func (l *Ledger) Outcome(now time.Time, failed bool) {
	if failed {
		l.failures.Add(now, 1)
		l.lastFailure.Store(now.UnixNano())
	} else if l.lastFailure.Load() != 0 {
		l.failures.Add(now, 0)
	}
}

// InFlight returns the number of requests reserved and not yet released.
func (l *Ledger) InFlight() int { return int(l.inFlight.Load()) }

// TTFT returns the recent mean time to first token, zero if none was seen.
func (l *Ledger) TTFT(now time.Time) time.Duration {
	mean, _ := l.ttft.Value(now)
	return time.Duration(mean * float64(time.Second))
}

// PrefillRate returns the learned speed of prefill in tokens per second, zero
// before anything was timed.
func (l *Ledger) PrefillRate() float64 { return math.Float64frombits(l.rate.Load()) }

// Read fills the fields of dst that the ledger knows about, as of now, and sets
// the report, which is believed up to the given age. Other fields of dst stay
// as they are.
func (l *Ledger) Read(dst *Load, now time.Time, report *Report, maxAge time.Duration) {
	dst.InFlight = int(l.inFlight.Load())
	dst.PendingPrefills = int(l.pending.Load())
	dst.PendingPrefillTokens = int(l.pendingTokens.Load())
	dst.PrefillRate = l.PrefillRate()
	dst.Backlog, dst.Overdue = 0, false
	if dst.PendingPrefills > 0 {
		nano := now.UnixNano()
		dst.Backlog = l.backlog(nano, dst.PendingPrefills, dst.PendingPrefillTokens, dst.PrefillRate)
		dst.Overdue = nano >= l.doneBy.Load()
	}
	dst.FailureShare = 0
	if last := l.lastFailure.Load(); last != 0 {
		dst.FailureShare = l.failureShare(now, last)
	}
	dst.Report, dst.Fresh, dst.SentSince = report, false, 0
	if report != nil && report.FreshAt(now, maxAge) {
		dst.Fresh = true
		dst.SentSince = int(l.sent.Load() - l.sentAt(report))
	}
}

// failureShare is the recent share of failures, the last of which was at the given
// time: one that lies ahead is from before the clock was set back.
func (l *Ledger) failureShare(now time.Time, last int64) float64 {
	if ago := now.UnixNano() - last; max(ago, -ago) >= int64(failureMemory) {
		return 0
	}
	share, evidence := l.failures.Value(now)
	return share * min(1, evidence)
}

// backlog takes off what the request at the front has done so far: at the
// learned rate since it came to the front, never more than most of one request.
func (l *Ledger) backlog(nano int64, pending, tokens int, rate float64) int {
	if pending <= 0 || tokens <= 0 {
		return 0
	}
	if rate == 0 {
		rate = defaultPrefillRate
	}
	elapsed := float64(nano-l.headSince.Load()) / 1e9
	done := min(progressCap*float64(tokens)/float64(pending), max(0, elapsed*rate))
	return tokens - int(done)
}

// sentAt returns how many requests had been sent when the report was first
// seen.
func (l *Ledger) sentAt(report *Report) int64 {
	for {
		b := l.reported.Load()
		if b != nil && b.report == report {
			return b.sent
		}
		next := &baseline{report, l.sent.Load()}
		if l.reported.CompareAndSwap(b, next) {
			return next.sent
		}
	}
}

// CheckInvariants returns what is wrong with the books of a ledger that nobody is
// using, or nil. It is for tests.
func (l *Ledger) CheckInvariants() error {
	flying, pending, tokens := l.inFlight.Load(), l.pending.Load(), l.pendingTokens.Load()
	if pending < 0 || flying < pending || tokens < 0 || pending == 0 && tokens != 0 {
		return fmt.Errorf("loadstats: %d in flight, %d of them prefilling %d tokens", flying, pending, tokens)
	}
	return nil
}
