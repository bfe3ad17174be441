//go:build race

package ring_test

// raceDetector says that everything takes ten times as long.
const raceDetector = true
