package workload

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// SwarmConfig describes a swarm of agents. The zero value of a field is its
// default.
type SwarmConfig struct {
	Seed     uint64
	Tenants  int // 0 means 8
	Personas int // of each tenant; 0 means 8

	Static Range // tokens of a persona's system prompt and tools; zero means 24,000 to 32,000
	Turns  Range // of a session; zero means 5 to 20
	User   Range // tokens that a turn adds; zero means 200 to 2,000
	Answer Range // tokens generated; zero means 60 to 200
	Think  Range // milliseconds between an answer and the next turn; zero means 200 to 1,000
}

// Swarm is a population of agents in a closed loop: each stream sends a turn,
// waits for the answer, thinks, and sends the next one; after its last turn a
// session is followed by one of another persona. Personas are drawn by Zipf's
// law with exponent 1, and no two share a prefix. A Swarm is immutable.
type Swarm struct {
	config     SwarmConfig
	personas   []Segment // by rank, the most popular first
	cumulative []uint64  // weights of the personas up to and with each
}

// NewSwarm returns the swarm that c describes.
func NewSwarm(c SwarmConfig) (*Swarm, error) {
	if c.Tenants < 0 || c.Personas < 0 || c.Tenants > 1<<15 || c.Personas > 1<<15 {
		return nil, fmt.Errorf("workload: %d tenants with %d personas each: want 0 to 32,768 of either", c.Tenants, c.Personas)
	}
	if c.Tenants == 0 {
		c.Tenants = 8
	}
	if c.Personas == 0 {
		c.Personas = 8
	}
	c.Static = c.Static.orDefault(24_000, 32_000)
	c.Turns = c.Turns.orDefault(5, 20)
	c.User = c.User.orDefault(200, 2_000)
	c.Answer = c.Answer.orDefault(60, 200)
	c.Think = c.Think.orDefault(200, 1_000)
	for _, f := range []struct {
		name  string
		value Range
	}{
		{"Static", c.Static}, {"Turns", c.Turns}, {"User", c.User}, {"Answer", c.Answer}, {"Think", c.Think},
	} {
		if err := f.value.validate(f.name); err != nil {
			return nil, err
		}
	}

	w := &Swarm{config: c}
	src := newSource(c.Seed, math.MaxUint64) // no stream has this number
	total := uint64(0)
	for rank := range c.Tenants * c.Personas {
		w.personas = append(w.personas, Segment{identity(c.Seed, uint64(System), uint64(rank)), src.in(c.Static), System})
		total += 1 << 32 / uint64(rank+1)
		w.cumulative = append(w.cumulative, total)
	}
	return w, nil
}

// Stream is one agent of a Swarm. It is not safe for concurrent use.
type Stream struct {
	swarm    *Swarm
	number   uint32
	greedy   bool
	src      *source
	sessions int
	conversation
}

// Stream returns stream number i from its beginning. What it sends depends on
// the seed and on i alone, not on other streams nor on time.
func (w *Swarm) Stream(i uint32) *Stream {
	return &Stream{swarm: w, number: i, src: newSource(w.config.Seed, uint64(i))}
}

// GreedyTenant is the tenant of the streams that Greedy returns, and GreedyTokens
// the size of their prompts.
const (
	GreedyTenant = "greedy"
	GreedyTokens = 28_000
)

// Greedy returns stream number i of a tenant apart: each of its requests is a
// conversation of its own, whose prompt nobody has seen before.
func (w *Swarm) Greedy(i uint32) *Stream {
	return &Stream{swarm: w, number: i, greedy: true, src: newSource(w.config.Seed, 1<<32|uint64(i))}
}

// Next returns the next turn and how long the agent thinks before it sends
// it: after the answer to the turn before, or after the start of the stream.
func (s *Stream) Next() (think time.Duration, r Request) {
	if s.over() {
		s.open()
	}
	c := &s.swarm.config
	think = time.Duration(s.src.in(c.Think)) * time.Millisecond
	if s.greedy {
		return think, s.next(GreedyTokens, s.src.in(c.Answer))
	}
	return think, s.next(s.src.in(c.User), s.src.in(c.Answer))
}

// open starts the next session.
func (s *Stream) open() {
	w := s.swarm
	if s.greedy {
		s.conversation = conversation{
			tenant:  GreedyTenant,
			session: fmt.Sprintf("greedy-%d-%d", s.number, s.sessions),
			id:      identity(w.config.Seed, uint64(User), 1<<32|uint64(s.number), uint64(s.sessions)),
			turns:   1,
		}
		s.sessions++
		return
	}
	pick := s.src.below(w.cumulative[len(w.cumulative)-1])
	rank, _ := slices.BinarySearch(w.cumulative, pick+1)
	s.conversation = conversation{
		tenant:   "tenant-" + strconv.Itoa(rank%w.config.Tenants),
		session:  fmt.Sprintf("stream-%d-%d", s.number, s.sessions),
		id:       identity(w.config.Seed, uint64(User), uint64(s.number), uint64(s.sessions)),
		segments: []Segment{w.personas[rank]},
		turns:    s.src.in(w.config.Turns),
	}
	s.sessions++
}
