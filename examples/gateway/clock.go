package main

import (
	"context"
	"time"
)

// clock is the time of a run in which everything happens some times faster than
// real: engines, agents and the router's memory alike.
type clock struct {
	start time.Time
	speed float64
}

func newClock(speed float64) clock { return clock{time.Now(), speed} }

// elapsed is the model time since the start.
func (c clock) elapsed() time.Duration {
	return time.Duration(float64(time.Since(c.start)) * c.speed)
}

// now is the model time as a time.
func (c clock) now() time.Time { return c.start.Add(c.elapsed()) }

// sleepUntil waits for a model time. It is false if ctx ends before.
func (c clock) sleepUntil(ctx context.Context, at time.Duration) bool {
	wait := time.NewTimer(time.Duration(float64(at-c.elapsed()) / c.speed))
	defer wait.Stop()
	select {
	case <-wait.C:
		return true
	case <-ctx.Done():
		return false
	}
}
