package router

import "sync/atomic"

const (
	// retryShare is the part of a retry that each first attempt pays for: 10 %
	// extra load at most.
	retryShare = 0.1
	// retryBurst is the number of retries that may come at once, and those that
	// a new pool allows before it has seen traffic.
	retryBurst = 10
	// retryUnit is the resolution of the budget.
	retryUnit = 1000
)

// retryBudget bounds the share of retries in the traffic of a pool, so that an
// overload is not multiplied by those who try again.
type retryBudget struct{ spent atomic.Int64 }

// earn counts a first attempt.
func (b *retryBudget) earn() {
	for {
		s := b.spent.Load()
		if s == 0 || b.spent.CompareAndSwap(s, max(0, s-int64(retryShare*retryUnit))) {
			return
		}
	}
}

// take counts a retry, and says whether the budget allows it.
func (b *retryBudget) take() bool {
	for {
		s := b.spent.Load()
		if s+retryUnit > retryBurst*retryUnit {
			return false
		}
		if b.spent.CompareAndSwap(s, s+retryUnit) {
			return true
		}
	}
}
