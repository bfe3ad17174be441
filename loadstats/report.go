package loadstats

import (
	"context"
	"errors"
	"time"
)

// ErrNoReading says that a source answered but told nothing this package reads:
// an engine with its statistics switched off, a report with no metrics in it,
// an empty page. The last report stays in force until it is too old.
var ErrNoReading = errors.New("loadstats: no reading")

// Report is what an engine said about itself at one moment. Every reading may
// be unknown, and is, unless the engine gave a number that makes sense. The
// zero Report knows nothing.
//
// A Report is a value. Once it was handed to a [Table] it is shared, and nobody
// may change what it points to.
type Report struct {
	// At is when the reading was made, by the clock of the gateway: the moment
	// the engine was asked, or the moment its answer came unasked. Clocks of
	// other machines have no place here. The zero time is never fresh.
	At time.Time

	// Running counts the requests that the engine is computing, Waiting those
	// it has accepted and not begun. Where one endpoint stands for several
	// engines (data parallel ranks), both are sums.
	Running, Waiting Count

	// KVCacheUsage is the share of the KV cache in use; of several engines
	// behind the endpoint, that of the fullest. Not every engine counts idle
	// cached blocks as free, so it says how much memory is short, never how
	// warm the cache is.
	KVCacheUsage Fraction
	// KVCacheTokens is the capacity of the KV cache in tokens, the sum over the
	// engines behind the endpoint.
	KVCacheTokens Count

	// Adapters is what the engine said about LoRA adapters, nil if nothing.
	Adapters *Adapters
}

// Adapters tells which LoRA adapters an engine has in its batch.
type Adapters struct {
	Running []string // of requests being computed
	Waiting []string // of requests waiting
	Max     Count    // how many different ones fit into one batch
}

// Known reports whether r has any reading at all.
func (r *Report) Known() bool {
	return r != nil && (r.Running.known || r.Waiting.known || r.KVCacheUsage.known ||
		r.KVCacheTokens.known || r.Adapters != nil)
}

// FreshAt reports whether r may still be believed at now: it is at most maxAge
// old. A report from further in the future than maxAge was stamped by a wrong
// clock and is not believed either. A nil report, one without a time, and every
// report if maxAge is not positive, are stale.
//
// Let maxAge be a small multiple of the interval between reports. If it is
// shorter than the interval, every report is stale most of the time.
func (r *Report) FreshAt(now time.Time, maxAge time.Duration) bool {
	if r == nil || r.At.IsZero() || maxAge <= 0 {
		return false
	}
	age := now.Sub(r.At)
	return age <= maxAge && age >= -maxAge
}

// Reporter asks an engine for its report. Implementations are safe for
// concurrent use, honour the context, and return an error (matching
// [ErrNoReading] where the engine answered without telling anything) rather
// than a report that knows nothing.
type Reporter interface {
	Report(ctx context.Context, endpoint string) (Report, error)
}
