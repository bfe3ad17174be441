// Package policytest shows how a gateway's CI tests its routing policy: see
// policy_test.go. It holds a policy of the kind that users write.
package policytest

import "github.com/warmroute/warmroute/balancer"

// Overnight routes by affinity, but requests for long answers, which nobody waits
// for, go by load.
type Overnight struct{ balancer.Affinity }

// longAnswer is the number of output tokens from which on an answer is long.
const longAnswer = 4096

// Choose asks the policy for the kind of request.
func (o Overnight) Choose(p *balancer.PickInfo) (balancer.Choice, error) {
	if p.MaxOutputTokens > longAnswer {
		return balancer.LeastLoad{}.Choose(p)
	}
	return o.Affinity.Choose(p)
}
