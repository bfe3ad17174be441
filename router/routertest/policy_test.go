package routertest_test

import (
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router/routertest"
)

func TestPolicy_AcceptsOurs(t *testing.T) {
	for name, p := range map[string]balancer.Policy{
		"affinity": balancer.Affinity{}, "bounded_load": balancer.BoundedLoad{}, "least_load": balancer.LeastLoad{},
		"power_of_two": balancer.PowerOfTwo{}, "round_robin": balancer.RoundRobin{},
	} {
		t.Run(name, func(t *testing.T) { routertest.TestPolicy(t, p) })
	}
}

// policyFunc makes a policy of a function that gets at least one candidate.
type policyFunc func(*balancer.PickInfo) balancer.Choice

func (f policyFunc) Choose(p *balancer.PickInfo) (balancer.Choice, error) {
	if len(p.Candidates) == 0 {
		return balancer.Choice{}, balancer.ErrNoCandidates
	}
	return f(p), nil
}

// careless does not look whether there are candidates.
type careless struct{}

func (careless) Choose(p *balancer.PickInfo) (balancer.Choice, error) {
	return balancer.Choice{Index: max(0, len(p.Candidates)-1)}, nil
}

// strict refuses what it does not know.
type strict struct{}

func (strict) Choose(p *balancer.PickInfo) (balancer.Choice, error) {
	if len(p.Candidates) == 0 {
		return balancer.Choice{}, balancer.ErrNoCandidates
	}
	for i := range p.Candidates {
		if p.Candidates[i].Load.Report == nil {
			return balancer.Choice{}, errors.New("no report")
		}
	}
	return balancer.Choice{}, nil
}

func TestPolicy_FindsWhatPoliciesDoWrong(t *testing.T) {
	var turn atomic.Uint64
	var last *balancer.PickInfo
	for _, c := range []struct {
		name   string
		policy balancer.Policy
		broken string // the law
	}{
		{"no look whether there are candidates", careless{}, "no candidates"},
		{"errors for unknown loads", strict{}, "any candidates"},
		{"an index one off", policyFunc(func(p *balancer.PickInfo) balancer.Choice { return balancer.Choice{Index: 1} }), "one candidate"},
		{"an index far off", policyFunc(func(p *balancer.PickInfo) balancer.Choice {
			return balancer.Choice{Index: len(p.Candidates) / 30 * 100}
		}), "any candidates"},
		{"a cost that is NaN", policyFunc(func(p *balancer.PickInfo) balancer.Choice {
			return balancer.Choice{Cost: balancer.Cost{Memory: math.NaN()}}
		}), "one candidate"},
		{"its choice among the others", policyFunc(func(p *balancer.PickInfo) balancer.Choice {
			return balancer.Choice{NumOthers: min(1, len(p.Candidates)-1)}
		}), "any candidates"},
		{"others that are not there", policyFunc(func(p *balancer.PickInfo) balancer.Choice {
			return balancer.Choice{NumOthers: 1, Others: [2]balancer.Ranked{{Index: 1}}}
		}), "one candidate"},
		{"an order of its own", policyFunc(func(p *balancer.PickInfo) balancer.Choice {
			slices.SortFunc(p.Candidates, func(a, b balancer.Candidate) int { return a.Load.InFlight - b.Load.InFlight })
			return balancer.Choice{}
		}), "input unchanged"},
		{"reports that it repairs", policyFunc(func(p *balancer.PickInfo) balancer.Choice {
			for i := range p.Candidates {
				if r := p.Candidates[i].Load.Report; r != nil {
					r.Waiting = r.Running
				}
			}
			return balancer.Choice{}
		}), "input unchanged"},
		{"room for a hundred candidates", policyFunc(func(p *balancer.PickInfo) balancer.Choice {
			if len(p.Candidates) > 100 {
				return balancer.Choice{Index: -1}
			}
			return balancer.Choice{}
		}), "many candidates"},
		{"a turn of its own", policyFunc(func(p *balancer.PickInfo) balancer.Choice {
			return balancer.Choice{Index: int(turn.Add(1) % uint64(len(p.Candidates)))}
		}), "no memory"},
		{"a turn that all goroutines take", policyFunc(func(p *balancer.PickInfo) balancer.Choice {
			return balancer.Choice{Index: int(turn.Add(1) % uint64(len(p.Candidates)))}
		}), "many goroutines"},
		{"its input kept", policyFunc(func(p *balancer.PickInfo) balancer.Choice {
			n := 0
			if last != nil && last != p {
				n = len(last.Candidates)
			}
			last = p
			return balancer.Choice{Index: n % len(p.Candidates)}
		}), "no memory"},
	} {
		if routertest.Obeys(c.policy, c.broken) {
			t.Errorf("a policy with %s obeys the law %q", c.name, c.broken)
		}
	}
}
