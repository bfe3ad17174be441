package router

import "sync/atomic"

// untold follows how many of an endpoint's answers end without a FirstToken, as
// those do that are not streamed. Their prefills seem to go on until the end, so
// that with many of them nobody can tell what is ahead of a request, and the queue
// must not wait for it: it would starve the endpoint.
type untold struct{ share atomic.Int32 } // of untoldUnit

const (
	untoldUnit = 1 << 16
	// untoldMemory is the number of answers after which an old one counts 1/e.
	untoldMemory = 32
	// maxUntold is the share from which on first tokens count as unknown. In the
	// simulation waiting for what is told pays up to about a third; at nine
	// tenths it starves endpoints (mean TTFT of the swarm of 100: 16 s, not 0.3 s).
	maxUntold = untoldUnit / 4
)

func (u *untold) add(answer int32) {
	for {
		old := u.share.Load()
		if next := old + (answer*untoldUnit-old)/untoldMemory; u.share.CompareAndSwap(old, next) {
			return
		}
	}
}

// many says that first tokens are not to be relied on.
func (u *untold) many() bool { return u.share.Load() > maxUntold }
