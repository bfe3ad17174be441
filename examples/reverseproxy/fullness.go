package reverseproxy

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/router"
)

// fullness remembers that the router had no room, so that what comes next can be
// refused before its body is read. It forgets as soon as something is released,
// and after a second in any case: endpoints may join.
type fullness struct {
	releases atomic.Uint64
	latest   atomic.Pointer[refusal]
}

type refusal struct {
	releases uint64 // that there had been when the router was asked
	until    time.Time
}

const maxRefusal = time.Second

// since returns how long the router should be left alone, zero if it may have
// room.
func (f *fullness) since(now time.Time) time.Duration {
	r := f.latest.Load()
	if r == nil || r.releases != f.releases.Load() {
		return 0
	}
	return max(0, r.until.Sub(now))
}

// moment is what note has to know about the time before the router was asked.
func (f *fullness) moment() uint64 { return f.releases.Load() }

// note takes note of a refusal.
func (f *fullness) note(moment uint64, now time.Time, err error) {
	if saturated, ok := errors.AsType[*router.SaturatedError](err); ok {
		f.latest.Store(&refusal{moment, now.Add(min(saturated.RetryAfter, maxRefusal))})
	}
}

// clear says that there is room again.
func (f *fullness) clear() { f.releases.Add(1) }
