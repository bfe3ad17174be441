package main

import (
	"fmt"
	"time"

	"github.com/warmroute/warmroute/router/routertest"
)

// aftermath is what followed a change of the fleet.
type aftermath struct {
	change routertest.Change
	titles []string
	rows   [][]string
}

func (a *aftermath) title() string {
	return fmt.Sprintf("After the %v of e%d at %v", a.change.Kind, a.change.Endpoint, a.change.At)
}

// before is the time whose figures those after a change are compared with.
const before = time.Minute

// backWithin is how near to the hit rate before a change counts as recovered, in
// points.
const backWithin = 2

// aftermaths describes the changes that gateways are told of.
func aftermaths(changes []routertest.Change, results []result) []aftermath {
	var all []aftermath
	for _, c := range changes {
		a := aftermath{change: c, titles: []string{"policy", "hit % before", "worst 10 s", "s until within 2", "TTFT before", "worst 10 s", "moved", "displaced", "lost"}}
		if c.Kind == routertest.Join {
			a.titles = append(a.titles, "share of even, 0-30 s", "30-60 s", "60-120 s", "peak in flight", "of others")
		}
		for _, r := range results {
			row := append([]string{r.policy.name}, recovery(c, r.all)...)
			if c.Kind == routertest.Join {
				row = append(row, newcomer(c, r.all)...)
			}
			a.rows = append(a.rows, row)
		}
		all = append(all, a)
	}
	return all
}

// sum adds up the samples of some results between two times.
type sum struct {
	requests, hits, ttft, moved, displaced, lost, sent, newcomer float64

	serving map[int]bool // endpoints that were sent something
}

func sumUp(results []*routertest.Result, from, to time.Duration, endpoint int) sum {
	s := sum{serving: make(map[int]bool)}
	for _, r := range results {
		for _, one := range r.Series {
			if one.At <= from || one.At > to {
				continue
			}
			n := float64(one.Requests)
			s.requests += n
			s.hits += n * 100 * one.HitRate
			s.ttft += n * one.TTFT.Seconds() * 1000
			s.moved += float64(one.Moved)
			s.displaced += float64(one.Displaced)
			s.lost += float64(one.Lost)
			for i, e := range one.Endpoints {
				s.sent += float64(e.Sent)
				if e.Sent > 0 {
					s.serving[i] = true
				}
				if i == endpoint {
					s.newcomer += float64(e.Sent)
				}
			}
		}
	}
	return s
}

func (s sum) hit() float64  { return s.hits / max(1, s.requests) }
func (s sum) mean() float64 { return s.ttft / max(1, s.requests) }

// recovery compares the time after a change with the one before. Moved and
// displaced are those of the minute after, lost also those that were sent in the
// minute before, for each seed.
func recovery(c routertest.Change, results []*routertest.Result) []string {
	was := sumUp(results, c.At-before, c.At, -1)
	after := sumUp(results, c.At, c.At+before, -1)
	worstHit, worstTTFT := was.hit(), 0.0
	back := "never"
	const step = 10 * time.Second
	end := results[0].Series[len(results[0].Series)-1].At
	for at := c.At; at+step <= end; at += step {
		s := sumUp(results, at, at+step, -1)
		if s.requests == 0 {
			continue
		}
		if at < c.At+before {
			worstHit, worstTTFT = min(worstHit, s.hit()), max(worstTTFT, s.mean())
		}
		if back == "never" && s.hit() >= was.hit()-backWithin {
			back = fmt.Sprintf("%.0f", (at - c.At + step).Seconds())
		}
	}
	seeds := float64(len(results))
	return []string{
		fmt.Sprintf("%.1f", was.hit()), fmt.Sprintf("%.1f", worstHit), back,
		thousands(fmt.Sprintf("%.0f", was.mean())), thousands(fmt.Sprintf("%.0f", worstTTFT)),
		fmt.Sprintf("%.1f", after.moved/seeds), fmt.Sprintf("%.1f", after.displaced/seeds), fmt.Sprintf("%.1f", (was.lost+after.lost)/seeds),
	}
}

// newcomer says how an endpoint that joined was received: its share of the
// requests relative to an even one among those that get any.
func newcomer(c routertest.Change, results []*routertest.Result) []string {
	var cells []string
	for _, span := range [][2]time.Duration{{0, 30 * time.Second}, {30 * time.Second, 60 * time.Second}, {60 * time.Second, 120 * time.Second}} {
		s := sumUp(results, c.At+span[0], c.At+span[1], c.Endpoint)
		cells = append(cells, fmt.Sprintf("%.2f", s.newcomer*float64(len(s.serving))/max(1, s.sent)))
	}
	var own, others float64
	for _, r := range results {
		for i, e := range r.Endpoints {
			if i == c.Endpoint {
				own += float64(e.PeakInFlight) / float64(len(results))
			} else {
				others += float64(e.PeakInFlight) / float64(len(results)*(len(r.Endpoints)-1))
			}
		}
	}
	return append(cells, fmt.Sprintf("%.0f", own), fmt.Sprintf("%.0f", others))
}
