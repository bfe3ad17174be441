package routertest

import (
	"math"
	"time"

	"github.com/warmroute/warmroute/router"
)

// tally is what is counted while a simulation runs.
type tally struct {
	timeouts, losses, overLimit int

	last map[string]int // engine of the last attempt, by conversation

	sampled time.Duration // end of the interval under way
	series  []Sample
	sums    []sums // of the series
}

// sums are of the requests that were sent in an interval.
type sums struct {
	prompt, cached int
	ttft           time.Duration
}

// movement says how an attempt relates to the last one of its conversation.
type movement uint8

const (
	firstTurn movement = iota
	stayed
	moved
	displaced
)

// abandoned is the outcome of what nobody waits for any more.
var abandoned = router.Outcome{Abandoned: true}

// picked counts a decision.
func (c *cluster) picked(a *attempt) {
	t, e, d := &c.tally, c.engines[a.engine], a.decision
	e.requests++
	e.sent++
	e.inFlight++
	e.peak = max(e.peak, e.inFlight)
	if d.Limit > 0 && d.Limit != math.MaxInt && (d.InFlight >= d.Limit || len(c.gateways) == 1 && e.inFlight > d.Limit) {
		t.overLimit++
	}
	session := a.call.request.Session
	if session == "" {
		return
	}
	if last, ok := t.last[session]; ok && a.call.attempts == 1 && a.tried == nil {
		switch was := c.engines[last]; {
		case last == a.engine:
			a.call.moved = stayed
		case was.model == nil || was.endpoint.Weight == 0:
			a.call.moved = displaced
		default:
			a.call.moved = moved
		}
	}
	if t.last == nil {
		t.last = make(map[string]int)
	}
	t.last[session] = a.engine
}

func (c *cluster) counts(k *call) bool { return k.sent >= c.scenario.Workload.warmUp }

// timedOut counts an attempt that its client gave up.
func (c *cluster) timedOut(k *call) {
	k.timeouts++
	if c.counts(k) {
		c.tally.timeouts++
	}
}

// lost counts a request without an answer.
func (c *cluster) lost(k *call) {
	k.lost = true
	if c.counts(k) {
		c.tally.losses++
	}
}

// sample ends an interval.
func (c *cluster) sample() {
	t := &c.tally
	s := Sample{At: t.sampled}
	for _, e := range c.engines {
		es := EndpointSample{Sent: e.sent, InFlight: e.inFlight}
		if e.model != nil {
			stats := e.model.Stats()
			es.Running, es.Waiting = stats.Running-stats.Unbegun, stats.Waiting+stats.Unbegun
		}
		e.sent = 0
		s.Endpoints = append(s.Endpoints, es)
	}
	t.series = append(t.series, s)
	t.sums = append(t.sums, sums{})
	t.sampled += c.scenario.Interval
}

// addToSeries adds a request to the interval in which it was sent.
func (c *cluster) addToSeries(k *call) {
	i := int(k.sent / c.scenario.Interval)
	if i >= len(c.tally.series) {
		return // at the very end of a closed loop
	}
	s, sum := &c.tally.series[i], &c.tally.sums[i]
	s.Timeouts += k.timeouts
	if k.lost {
		s.Lost++
	}
	if k.end == 0 {
		return
	}
	s.Requests++
	sum.prompt += k.prompt
	sum.cached += k.cached
	sum.ttft += k.first - k.sent
	switch k.moved {
	case moved:
		s.Moved++
	case displaced:
		s.Displaced++
	}
}

func (s *sums) finish(to *Sample) {
	if to.Requests > 0 {
		to.HitRate = float64(s.cached) / float64(s.prompt)
		to.TTFT = s.ttft / time.Duration(to.Requests)
	}
}
