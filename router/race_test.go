//go:build race

package router_test

// raceDetector says that sync.Pool drops things at random, as it does under the
// race detector, so that allocations can't be counted.
const raceDetector = true
