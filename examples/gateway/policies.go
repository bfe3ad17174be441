package main

import (
	"fmt"
	"strings"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// policy is a routing policy under its name on the command line.
type policy struct {
	name   string
	choose balancer.Policy
	// blind policies look at no prompt, so theirs need not be hashed. They run
	// as they are, without the bound on requests in flight that a pool adds.
	blind bool
}

func allPolicies() []policy {
	return []policy{
		{"round_robin", balancer.RoundRobin{}, true},
		{"least_load", balancer.LeastLoad{}, true},
		{"power_of_two", balancer.PowerOfTwo{}, true},
		{"bounded_load", balancer.BoundedLoad{}, false},
		{"affinity", balancer.Affinity{}, false},
	}
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
	if p.blind {
		c.Bound.Factor = -1
	}
	return c
}

// hasher returns what makes the signatures, nil if nobody would look at them.
func (p policy) hasher() *tokenprefix.Hasher {
	if p.blind {
		return nil
	}
	return new(tokenprefix.Hasher)
}
