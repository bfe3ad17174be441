package main

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/warmroute/warmroute/router/routertest"
)

const plotWidth = 780.0

// plotted is a policy in the plots. What is over time is of the first seed.
type plotted struct {
	result
	class string // of its colour
}

// answered is 1 if any request was.
func (p *plotted) answered() int { return min(1, int(math.Ceil(p.row.Requests))) }

// rangePlot shows each policy's times to the first token side by side: median,
// mean, and the span to the 99th percentile.
func rangePlot(all []plotted) template.HTML {
	const left, right, row, top = 150, 120, 24, 8
	lowest, highest := math.Inf(1), 0.0
	for _, p := range all {
		lowest, highest = min(lowest, p.row.TTFTP50), max(highest, p.row.TTFTP99)
	}
	lowest, highest = max(1, lowest*0.8), max(10, highest*1.1)
	height := top + row*float64(len(all)) + 34
	s := newSVG(plotWidth, height, "time to the first token of each policy")
	x := logarithmic(lowest, highest, left, plotWidth-left-right)
	for _, t := range decades(lowest, highest) {
		s.line("grid", x.at(t), top, x.at(t), height-30)
		s.text("tick", "middle", x.at(t), height-14, duration(t))
	}
	for i, p := range all {
		y := top + row*(float64(i)+0.5)
		r := &p.row
		s.text("name "+p.class, "end", left-12, y+4, r.Policy)
		s.line("span "+p.class, x.at(max(1, r.TTFTP50)), y, x.at(max(1, r.TTFTP99)), y)
		s.line("end "+p.class, x.at(max(1, r.TTFTP99)), y-5, x.at(max(1, r.TTFTP99)), y+5)
		s.circle("median "+p.class, x.at(max(1, r.TTFTP50)), y, 4.5, "median "+duration(r.TTFTP50))
		s.circle("mean "+p.class, x.at(max(1, r.TTFTMean)), y, 5, "mean "+duration(r.TTFTMean))
		s.text("value", "end", plotWidth-62, y+4, duration(r.TTFTMean))
		s.text("value", "end", plotWidth-4, y+4, fmt.Sprintf("%.1f %%", 100*r.HitRate))
	}
	return s.done()
}

// curve is a line of a plot.
type curve struct {
	name, class string
	xs, ys      []float64
}

// linePlot draws curves over an x axis with marks at given places.
func linePlot(title string, x, y scale, xTicks, yTicks []float64, xLabel, yLabel func(float64) string, curves []curve, marks []mark) template.HTML {
	const height, bottom, left = 300.0, 30.0, 56.0
	s := newSVG(plotWidth, height, title)
	x.low, x.len = left, plotWidth-left-12
	y.low, y.len = height-bottom, -(height - bottom - 12)
	for _, t := range yTicks {
		s.line("grid", left, y.at(t), plotWidth-12, y.at(t))
		s.text("tick", "end", left-8, y.at(t)+4, yLabel(t))
	}
	for _, t := range xTicks {
		s.text("tick", "middle", x.at(t), height-10, xLabel(t))
	}
	for i, m := range marks {
		s.line("mark", x.at(m.at), 12, x.at(m.at), height-bottom)
		s.text("tick", "start", x.at(m.at)+4, 20+12*float64(i%3), m.label)
	}
	// The first is drawn last, above the others.
	for _, c := range slices.Backward(curves) {
		xs, ys := make([]float64, len(c.xs)), make([]float64, len(c.xs))
		for i := range c.xs {
			xs[i], ys[i] = x.at(c.xs[i]), math.NaN()
			if !math.IsNaN(c.ys[i]) {
				ys[i] = y.at(c.ys[i])
			}
		}
		s.path("curve "+c.class, c.name, xs, ys)
	}
	return s.done()
}

// mark is something that happened.
type mark struct {
	at    float64
	label string
}

// cdfPlot shows the distribution of the time to the first token.
func cdfPlot(some []plotted) template.HTML {
	lowest, highest := math.Inf(1), 0.0
	var curves []curve
	for _, p := range some {
		times := p.all[0].TTFTs
		if len(times) == 0 {
			continue
		}
		c := curve{name: p.policy.name, class: p.class}
		for share := 0; share <= 1000; share += 5 {
			v := max(1, float64(times[(len(times)-1)*share/1000])/float64(time.Millisecond))
			c.xs, c.ys = append(c.xs, v), append(c.ys, float64(share)/10)
		}
		lowest, highest = min(lowest, c.xs[0]), max(highest, c.xs[len(c.xs)-1])
		curves = append(curves, c)
	}
	if len(curves) == 0 {
		return ""
	}
	highest = max(highest, lowest*10)
	return linePlot("distribution of the time to the first token", logarithmic(lowest, highest, 0, 0), linear(0, 100, 0, 0),
		decades(lowest, highest), steps(100, 5), duration, percent, curves, nil)
}

func percent(v float64) string { return fmt.Sprintf("%.0f %%", v) }

func seconds(v float64) string { return fmt.Sprintf("%.0f s", v) }

// interval is a part of a series that is plotted as one.
type interval struct {
	at      float64 // its end, in seconds
	hit     float64 // NaN without requests
	waiting float64 // requests per endpoint that engines have not begun
	loads   []float64
}

// thin joins samples until there are at most n.
func thin(series []routertest.Sample, n int) []interval {
	every := (len(series) + n - 1) / n
	var out []interval
	for group := range slices.Chunk(series, max(1, every)) {
		v := interval{at: group[len(group)-1].At.Seconds(), hit: math.NaN()}
		requests, hits := 0, 0.0
		for _, s := range group {
			requests += s.Requests
			hits += s.HitRate * float64(s.Requests)
			for i, e := range s.Endpoints {
				for len(v.loads) <= i {
					v.loads = append(v.loads, 0)
				}
				v.loads[i] += float64(e.InFlight) / float64(len(group))
				v.waiting += float64(e.Waiting) / float64(len(group)*len(s.Endpoints))
			}
		}
		if requests > 0 {
			v.hit = 100 * hits / float64(requests)
		}
		out = append(out, v)
	}
	return out
}

const plotIntervals = 80

// timePlot draws something over time. The scale is made for its values.
func timePlot(title string, some []plotted, marks []mark, of func(interval) float64, y func(sorted []float64) (scale, []float64), label func(float64) string) template.HTML {
	end := 0.0
	var curves []curve
	var values []float64
	for _, p := range some {
		c := curve{name: p.policy.name, class: p.class}
		for _, v := range thin(p.all[0].Series, plotIntervals) {
			c.xs, c.ys = append(c.xs, v.at), append(c.ys, of(v))
			end = max(end, v.at)
			if !math.IsNaN(of(v)) {
				values = append(values, of(v))
			}
		}
		curves = append(curves, c)
	}
	if len(values) == 0 {
		return ""
	}
	slices.Sort(values)
	scale, ticks := y(values)
	return linePlot(title, linear(0, max(1, end), 0, 0), scale, steps(end, 8), ticks, seconds, label, curves, marks)
}

func hitPlot(some []plotted, marks []mark) template.HTML {
	return timePlot("hit rate over time", some, marks, func(v interval) float64 { return v.hit },
		func(sorted []float64) (scale, []float64) {
			// The axis leaves out the twentieth part of the values that is lowest,
			// such as those of caches that are still empty.
			top := min(100, 10*math.Floor(1+sorted[len(sorted)-1]/10))
			bottom := 10 * math.Floor(sorted[len(sorted)/20]/10)
			ticks := steps(top, 10)
			return linear(bottom, top, 0, 0), ticks[sort.SearchFloat64s(ticks, bottom):]
		}, percent)
}

func queuePlot(some []plotted, marks []mark) template.HTML {
	return timePlot("requests waiting over time", some, marks, func(v interval) float64 { return v.waiting },
		func(sorted []float64) (scale, []float64) {
			top := max(4, sorted[len(sorted)-1]*1.05)
			var ticks []float64
			for _, t := range []float64{0, 1, 4, 10, 25, 50, 100, 200, 400, 1000} {
				if t <= top {
					ticks = append(ticks, t)
				}
			}
			return rooted(top, 0, 0), ticks
		}, func(v float64) string { return fmt.Sprintf("%.0f", v) })
}

// heatPlot shows the requests in flight on each endpoint over time, the darker the
// more, on the same scale for all policies.
func heatPlot(p plotted, most float64) template.HTML {
	const left, cellHeight, top = 30.0, 9.0, 2.0
	series := thin(p.all[0].Series, plotIntervals)
	n := 0
	for _, v := range series {
		n = max(n, len(v.loads))
	}
	const width = 380.0
	s := newSVG(width, top+cellHeight*float64(n)+2, "requests in flight on each endpoint, "+p.policy.name)
	w := (width - left) / float64(max(1, len(series)))
	for e := range n {
		if n <= 16 || e%4 == 0 {
			s.text("small", "end", left-5, top+cellHeight*float64(e)+8, fmt.Sprintf("e%d", e))
		}
		for i, v := range series {
			if e < len(v.loads) && v.loads[e] > 0 {
				s.rect("heat", left+w*float64(i), top+cellHeight*float64(e), w+0.2, cellHeight-1, min(1, 0.05+0.95*math.Sqrt(v.loads[e]/most)))
			}
		}
	}
	return s.done()
}

// mostInFlight is the largest load of an interval.
func mostInFlight(some []plotted) float64 {
	most := 1.0
	for _, p := range some {
		for _, v := range thin(p.all[0].Series, plotIntervals) {
			for _, l := range v.loads {
				most = max(most, l)
			}
		}
	}
	return most
}
