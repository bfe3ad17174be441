package main

import (
	"fmt"
	"strings"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// policy is a routing policy under its name on the command line.
type policy struct {
	name   string
	choose balancer.Policy
	// prompts says that the policy looks at prompts, so that they are hashed.
	prompts bool
	// bounded says that the pool bounds requests in flight on top of it. Others
	// run bare, as they are to be compared with.
	bounded bool
	// queued says that requests may wait in the pool for their endpoint.
	queued bool
}

func allPolicies() []policy {
	return []policy{
		{"round_robin", balancer.RoundRobin{}, false, false, false},
		{"least_load", balancer.LeastLoad{}, false, false, false},
		{"power_of_two", balancer.PowerOfTwo{}, false, false, false},
		{"prefix_hash", prefixHash{}, true, false, false},
		{"bounded_load", balancer.BoundedLoad{}, true, false, false},
		{"affinity", balancer.Affinity{}, true, true, false},
		{"acquire", balancer.Affinity{}, true, true, true},
	}
}

// prefixHash is what people try first: the beginning of the prompt is hashed to
// an endpoint, and only one with 120 requests is passed over for the next. The
// beginning is the system prompt, or the first block where there is none.
type prefixHash struct{}

const prefixHashLimit = 120

// Choose takes the first endpoint in home order below the limit.
func (prefixHash) Choose(p *balancer.PickInfo) (balancer.Choice, error) {
	if !p.Keyed {
		return balancer.LeastLoad{}.Choose(p)
	}
	for i := range p.Candidates {
		if p.Candidates[i].Load.InFlight < prefixHashLimit {
			return balancer.Choice{Index: i}, nil
		}
	}
	return balancer.LeastLoad{}.Choose(p)
}

func policyNames() []string {
	var names []string
	for _, p := range allPolicies() {
		names = append(names, p.name)
	}
	return names
}

func findPolicy(name string) (policy, error) {
	for _, p := range allPolicies() {
		if p.name == name {
			return p, nil
		}
	}
	return policy{}, fmt.Errorf("%q is none of %s", name, strings.Join(policyNames(), ", "))
}

// config completes the configuration of a pool for the policy.
func (p policy) config(c router.Config) router.Config {
	c.Policy = p.choose
	if !p.bounded {
		c.Bound.Factor = -1
	}
	return c
}

// hasher returns what makes the signatures, nil if nobody would look at them.
func (p policy) hasher() *tokenprefix.Hasher {
	if !p.prompts {
		return nil
	}
	return new(tokenprefix.Hasher)
}

// queue returns where requests wait, nil if they don't.
func (p policy) queue(pool *router.Pool) reverseproxy.Queue {
	if !p.queued {
		return nil
	}
	return pool
}
