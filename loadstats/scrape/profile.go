package scrape

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/warmroute/warmroute/loadstats"
)

// Profile says where on a page the readings of a [loadstats.Report] are. It is
// data, and can be read from a configuration file; profiles of common engines
// are in this package, to be used as they are or changed.
//
// Each reading has a list of metrics: the first that is on the page with a
// value that makes sense is taken, so that a metric may change its name from one
// release of an engine to the next. A reading with an empty list is unknown.
type Profile struct {
	Running       []Metric  `json:",omitempty"`
	Waiting       []Metric  `json:",omitempty"`
	KVCacheUsage  []Metric  `json:",omitempty"` // a share, 0 to 1
	KVCacheTokens []Metric  `json:",omitempty"` // the capacity, in tokens
	Adapters      *Adapters `json:",omitempty"` // nil if the engine tells nothing of LoRA adapters
}

// Metric is one number on a page, made of all samples of one name.
type Metric struct {
	// Name of the metric, whole. On a page in JSON, the path to the number,
	// with dots.
	Name string
	// Labels that a sample must have to count, with their values. As ever in
	// Prometheus, a label that is absent and one that is empty are the same.
	Labels map[string]string `json:",omitempty"`
	// Engines names the labels that tell apart the engines behind one page, for
	// example data parallel ranks. Counts of different engines are added; of
	// shares the largest is taken. Samples that differ in any other label show
	// the same requests once more (tensor or context parallel ranks, processes
	// of the server), and of them the largest counts.
	Engines []string `json:",omitempty"`
	// Product, if set, names labels of an information metric: the number is not
	// its value but the product of these labels.
	Product []string `json:",omitempty"`
	// Times, Over and Less make the number a product, quotient or difference
	// with a second metric, engine by engine. An engine that has only one of
	// them has no number.
	Times *Metric `json:",omitempty"`
	Over  *Metric `json:",omitempty"`
	Less  *Metric `json:",omitempty"`
}

// Adapters names the information metric that lists LoRA adapters in labels,
// separated by commas. Of several samples the one with the highest value, a
// clock reading, is the newest and counts.
type Adapters struct {
	Name                  string
	Running, Waiting, Max string // names of labels
}

// With returns a profile whose metrics count only samples with the label. It
// picks one engine out of a page that shows many, as that of a gateway. It
// leaves p as it is.
func (p Profile) With(label, value string) Profile {
	p.Running = withLabel(p.Running, label, value)
	p.Waiting = withLabel(p.Waiting, label, value)
	p.KVCacheUsage = withLabel(p.KVCacheUsage, label, value)
	p.KVCacheTokens = withLabel(p.KVCacheTokens, label, value)
	return p
}

func withLabel(metrics []Metric, label, value string) []Metric {
	out := slices.Clone(metrics)
	for i := range out {
		out[i] = out[i].with(label, value)
	}
	return out
}

func (m Metric) with(label, value string) Metric {
	m.Labels = maps.Clone(m.Labels)
	if m.Labels == nil {
		m.Labels = make(map[string]string, 1)
	}
	m.Labels[label] = value
	for _, second := range []**Metric{&m.Times, &m.Over, &m.Less} {
		if *second != nil {
			changed := (*second).with(label, value)
			*second = &changed
		}
	}
	return m
}

// Parse reads a page that was asked for at the given time. The page may be
// reused afterwards.
//
// The error matches [loadstats.ErrNoReading] if the page is one, but tells
// nothing that the profile knows; it is another error if this is no metrics page
// (a login form, an error message) or a metric asked for is damaged. The report
// is then empty.
func (p Profile) Parse(at time.Time, page []byte) (loadstats.Report, error) {
	c := newCollection(p)
	if err := readPage(page, c.wanted, c.add); err != nil {
		return loadstats.Report{}, err
	}
	r := loadstats.Report{
		At:            at,
		Running:       count(p.Running, c),
		Waiting:       count(p.Waiting, c),
		KVCacheUsage:  share(p.KVCacheUsage, c),
		KVCacheTokens: capacity(p.KVCacheTokens, c),
		Adapters:      c.adapters,
	}
	if !r.Known() {
		if c.filtered > 0 {
			return loadstats.Report{}, fmt.Errorf("%w on page: none of %d samples has the labels asked for", loadstats.ErrNoReading, c.filtered)
		}
		return loadstats.Report{}, fmt.Errorf("%w on page", loadstats.ErrNoReading)
	}
	return r, nil
}

// count returns the first metric that is known, summed over engines.
func count(metrics []Metric, c *collection) loadstats.Count {
	for i := range metrics {
		engines := c.numbers(&metrics[i])
		if len(engines) == 0 {
			continue
		}
		sum := 0.0
		for _, v := range engines {
			sum += v
		}
		if n := loadstats.Rounded(sum); n != (loadstats.Count{}) {
			return n
		}
	}
	return loadstats.Count{}
}

// capacity is a count that can't be zero: an engine that has not measured its
// memory yet says zero.
func capacity(metrics []Metric, c *collection) loadstats.Count {
	n := count(metrics, c)
	if n == loadstats.Known(0) {
		return loadstats.Count{}
	}
	return n
}

// share returns the first metric that is known, that of the fullest engine.
func share(metrics []Metric, c *collection) loadstats.Fraction {
	for i := range metrics {
		var fullest loadstats.Fraction
		for _, v := range c.numbers(&metrics[i]) {
			f := loadstats.Ratio(v)
			if got, ok := f.Get(); ok {
				if most, known := fullest.Get(); !known || got > most {
					fullest = f
				}
			}
		}
		if fullest != (loadstats.Fraction{}) {
			return fullest
		}
	}
	return loadstats.Fraction{}
}
