package workload

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// ChatConfig describes chat traffic. The zero value of a field other than Rate
// is its default.
type ChatConfig struct {
	Seed uint64
	Rate float64 // requests per second, more than 0
	Open int     // conversations going on at a time; 0 means 100
	Apps int     // applications, each with a system prompt of its own; 0 means 4

	Static Range // tokens of a system prompt; zero means 200 to 2,000
	Turns  Range // of a conversation; zero means 1 to 12
	User   Range // tokens of a message; zero means 10 to 500
	Answer Range // tokens generated; zero means 50 to 600
}

// Chat is open-loop traffic: requests arrive by a Poisson process whether or
// not earlier ones were answered. Each is the next turn of a conversation
// drawn from those that are open; one that is over makes room for another.
// Chat is not safe for concurrent use.
type Chat struct {
	config ChatConfig
	mean   time.Duration // between arrivals
	src    *source
	apps   []Segment
	open   []conversation
	opened int
	at     time.Duration
}

// NewChat returns the traffic that c describes, from its beginning.
func NewChat(c ChatConfig) (*Chat, error) {
	// Between one request in ten days and one a microsecond, the mean gap is exact enough in nanoseconds.
	if !(c.Rate >= 1e-6 && c.Rate <= 1e6) {
		return nil, fmt.Errorf("workload: Rate %v requests per second is outside 1e-6 to 1e6", c.Rate)
	}
	if c.Open < 0 || c.Apps < 0 {
		return nil, fmt.Errorf("workload: Open %d or Apps %d is negative", c.Open, c.Apps)
	}
	if c.Open == 0 {
		c.Open = 100
	}
	if c.Apps == 0 {
		c.Apps = 4
	}
	c.Static = c.Static.orDefault(200, 2_000)
	c.Turns = c.Turns.orDefault(1, 12)
	c.User = c.User.orDefault(10, 500)
	c.Answer = c.Answer.orDefault(50, 600)
	for _, f := range []struct {
		name  string
		value Range
	}{
		{"Static", c.Static}, {"Turns", c.Turns}, {"User", c.User}, {"Answer", c.Answer},
	} {
		if err := f.value.validate(f.name); err != nil {
			return nil, err
		}
	}

	w := &Chat{
		config: c,
		mean:   time.Duration(math.Round(1e9 / c.Rate)),
		src:    newSource(c.Seed, 0),
		open:   make([]conversation, c.Open),
	}
	for app := range c.Apps {
		w.apps = append(w.apps, Segment{identity(c.Seed, uint64(System), uint64(app)), w.src.in(c.Static), System})
	}
	return w, nil
}

// Next returns the next request. There is always one.
func (w *Chat) Next() Arrival {
	w.at += w.src.exponential(w.mean)
	c := &w.open[w.src.below(uint64(len(w.open)))]
	if c.over() {
		app := w.src.below(uint64(len(w.apps)))
		*c = conversation{
			tenant:   "app-" + strconv.FormatUint(app, 10),
			session:  "chat-" + strconv.Itoa(w.opened),
			id:       identity(w.config.Seed, uint64(User), uint64(w.opened)),
			segments: []Segment{w.apps[app]},
			turns:    w.src.in(w.config.Turns),
		}
		w.opened++
	}
	return Arrival{w.at, c.next(w.src.in(w.config.User), w.src.in(w.config.Answer))}
}
