package scrape

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/warmroute/warmroute/loadstats"
)

// collection gathers the samples of one page that a profile asks for.
type collection struct {
	byName   map[string][]*numbers // of the metrics by name
	byMetric map[*Metric]*numbers
	filtered int // samples of metrics asked for, without the labels asked for

	adapterNames *Adapters
	newest       float64             // value of the newest adapter sample
	adapters     *loadstats.Adapters // what that one says, nil if there is none
}

// numbers are the values of one metric, by engine.
type numbers struct {
	metric *Metric
	engine map[string]float64
}

func newCollection(p Profile) *collection {
	c := &collection{
		byName: make(map[string][]*numbers), byMetric: make(map[*Metric]*numbers),
		adapterNames: p.Adapters, newest: math.Inf(-1),
	}
	for _, metrics := range [][]Metric{p.Running, p.Waiting, p.KVCacheUsage, p.KVCacheTokens} {
		for i := range metrics {
			c.expect(&metrics[i])
		}
	}
	return c
}

func (c *collection) expect(m *Metric) {
	if m == nil {
		return
	}
	n := &numbers{metric: m}
	c.byName[m.Name] = append(c.byName[m.Name], n)
	c.byMetric[m] = n
	c.expect(m.Times)
	c.expect(m.Over)
	c.expect(m.Less)
}

func (c *collection) wanted(name []byte) bool {
	return c.byName[string(name)] != nil || c.adapterNames != nil && string(name) == c.adapterNames.Name
}

func (c *collection) add(s *sample) {
	for _, n := range c.byName[string(s.name)] {
		if !n.metric.matches(s) {
			c.filtered++
			continue
		}
		n.add(s)
	}
	if a := c.adapterNames; a != nil && string(s.name) == a.Name && s.value > c.newest {
		c.newest = s.value
		c.adapters = &loadstats.Adapters{
			Running: splitNames(s.label(a.Running)),
			Waiting: splitNames(s.label(a.Waiting)),
			Max:     labelCount(s.label(a.Max)),
		}
	}
}

func (m *Metric) matches(s *sample) bool {
	for name, value := range m.Labels {
		if string(s.label(name)) != value {
			return false
		}
	}
	return true
}

// add keeps the largest value of an engine, and drops those that no count and
// no share can have.
func (n *numbers) add(s *sample) {
	v := s.value
	for i, name := range n.metric.Product {
		f, err := strconv.ParseFloat(string(s.label(name)), 64)
		if err != nil {
			return
		}
		if i == 0 {
			v = 1
		}
		v *= f
	}
	if !(v >= 0 && v <= math.MaxFloat64) {
		return
	}
	var scratch [64]byte
	key := scratch[:0]
	for _, name := range n.metric.Engines {
		value := s.label(name)
		key = strconv.AppendInt(key, int64(len(value)), 10)
		key = append(key, ':')
		key = append(key, value...)
	}
	if old, ok := n.engine[string(key)]; ok && old >= v {
		return
	}
	if n.engine == nil {
		n.engine = make(map[string]float64)
	}
	n.engine[string(key)] = v
}

// numbers returns the values of a metric by engine, combined with those of its
// second metric.
func (c *collection) numbers(m *Metric) map[string]float64 {
	engines := c.byMetric[m].engine
	engines = c.combine(engines, m.Times, func(a, b float64) float64 { return a * b })
	engines = c.combine(engines, m.Over, func(a, b float64) float64 { return a / b })
	engines = c.combine(engines, m.Less, func(a, b float64) float64 { return a - b })
	return engines
}

func (c *collection) combine(engines map[string]float64, second *Metric, f func(a, b float64) float64) map[string]float64 {
	if second == nil {
		return engines
	}
	out := make(map[string]float64, len(engines))
	for engine, b := range c.numbers(second) {
		if a, ok := engines[engine]; ok {
			if v := f(a, b); v >= 0 && v <= math.MaxFloat64 {
				out[engine] = v
			}
		}
	}
	return out
}

func splitNames(list []byte) []string {
	var names []string
	for name := range bytes.SplitSeq(list, []byte(",")) {
		if name := strings.TrimSpace(string(name)); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func labelCount(value []byte) loadstats.Count {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return loadstats.Count{}
	}
	return loadstats.Known(n)
}
