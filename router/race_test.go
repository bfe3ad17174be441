//go:build race

package router_test

// raceDetector says that everything takes ten times as long, and that sync.Pool
// drops things at random, so that allocations can't be counted.
const raceDetector = true
