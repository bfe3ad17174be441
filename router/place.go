package router

import (
	"time"

	"github.com/warmroute/warmroute/balancer"
)

// The rules of the queue: in which order held requests are looked at, and when
// one may be sent. Where one is sent is the policy's matter. What each constant is
// worth was measured with routertest.Simulate; examples/simulate/LATE_BINDING.md has
// the figures, here are means of TTFT in ms for Mooncake's conversation trace at 1.8
// times its speed (4,637 as it is) and requests per second of a swarm of 200
// agents, which is more than the engines have memory for (12.8).
const (
	// overtaking is for how many times its own prefill time a request may be
	// overtaken, and maxOvertaking bounds that. First come first served: 21,482 and
	// 5.9, as bad as no queue. Without the bound the mean is 2,354, but somebody
	// waits for 136 s, not 48.
	overtaking    = 15
	maxOvertaking = 30 * time.Second
	// stepTokens is what an endpoint may have before it, together with the
	// request, for the request to be sent: an engine's budget of tokens for one
	// iteration. What fits into it is computed at once. How much it is hardly
	// matters: 4,738 and 12.6 with 0, 4,737 and 12.5 with 8,192. Without it, so that
	// requests wait for memory only, 4,598 and 10.3, and at 1.7 times the trace's
	// speed the mean is 1,926, not 1,777.
	stepTokens = 2048
	// memoryShare is the share of the KV cache that may be in use for the
	// request to be sent: beyond it the engine would queue the request, and
	// everything behind it, for memory. Without it 5,355 and 8.7; with 0.85
	// prompts wait for memory that is there: 8,134 and 13.6.
	memoryShare = 0.95
	// assumedRate is the speed of prefill, in tokens per second, of an endpoint
	// of which none was measured yet.
	assumedRate = 10_000
)

// Hold is what a request waited for in the queue.
type Hold uint8

// What requests wait for.
const (
	// NotHeld: it was sent when it came.
	NotHeld Hold = iota
	// HeldForPrefill: its endpoint had other prompts to compute first.
	HeldForPrefill
	// HeldForMemory: its endpoint's KV cache was in use.
	HeldForMemory
	// HeldForRoom: every endpoint was at its limit or had asked to be left alone.
	HeldForRoom
)

var holdNames = [...]string{"not held", "prefill", "memory", "room"}

// String returns what it waited for, in a word.
func (h Hold) String() string {
	if int(h) < len(holdNames) {
		return holdNames[h]
	}
	return "unknown"
}

// MarshalText makes it readable in JSON and logs.
func (h Hold) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// allowance is for how long others that come later may go before a request of
// which so many tokens are cached nowhere. Short ones go before long ones, which
// is what brings the mean down, and the bound keeps long ones from starving.
func allowance(own int, rate float64) time.Duration {
	seconds := min(float64(overtaking*float64(own))/rate, maxOvertaking.Seconds())
	return time.Duration(seconds * float64(time.Second))
}

// holdFor says what a request has to wait for at a candidate whose load includes
// what was planned for it, if it has to. An endpoint with nothing to do takes
// anything. What is not known holds nothing up: an unknown cache size, the end of
// prefills that are not told, prefills that should be over but are not told to be.
func holdFor(c *balancer.Candidate, m *member, planned, uncached int) Hold {
	l := &c.Load
	ahead := l.Backlog
	if l.Overdue || l.PrefillRate == 0 || m.untold.many() {
		ahead = planned
	}
	switch {
	case ahead > 0 && ahead+uncached > stepTokens:
		return HeldForPrefill
	case m.capacity.known.Load() && l.InFlight > 0 && float64(l.PinnedTokens+uncached) > memoryShare*float64(l.CapacityTokens):
		return HeldForMemory
	}
	return NotHeld
}

// plan is what requests that were left waiting in a pass will bring to their
// endpoints. Later ones are placed with it in view, and don't take the place of one
// that needs much: without it the mean is less (3,178), and somebody waits for 137 s.
type plan struct {
	members []*member
	tokens  []int
}

func (p *plan) reset() { p.members, p.tokens = p.members[:0], p.tokens[:0] }

func (p *plan) add(m *member, tokens int) {
	p.members, p.tokens = append(p.members, m), append(p.tokens, tokens)
}

// apply adds the plan to the loads of the candidates.
func (p *plan) apply(s *scratch) {
	for i, m := range p.members {
		for k, e := range s.entries {
			if e.member == m {
				s.info.Candidates[k].Load.Backlog += p.tokens[i]
				break
			}
		}
	}
}

// of is what is planned for a member.
func (p *plan) of(m *member) int {
	sum := 0
	for i, other := range p.members {
		if other == m {
			sum += p.tokens[i]
		}
	}
	return sum
}
