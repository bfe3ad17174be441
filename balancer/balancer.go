// Package balancer turns candidates and their loads into one choice. A policy
// is a pure function of a [PickInfo]: no clock, no lock, no random source of
// its own, so that the same inputs give the same decision everywhere and a
// policy can be tested with a table.
//
// [Affinity] is the policy to use. The others are here to compare with, and for
// traffic without prefixes. examples/policytest shows a policy of one's own and
// its tests.
package balancer

import (
	"errors"

	"github.com/warmroute/warmroute/loadstats"
)

// ErrNoCandidates is returned by a policy that was given nothing to choose
// from.
var ErrNoCandidates = errors.New("balancer: no candidates")

// Candidate is an endpoint that may serve the request.
type Candidate struct {
	// ID names the endpoint.
	ID string
	// Ordinal is the endpoint's position among all endpoints of the pool,
	// sorted by ID: the same for every request while the membership lasts.
	Ordinal int
	// Weight is the endpoint's capacity relative to the others, above zero.
	Weight int
	// CachedTokens is how much of the prompt's beginning the endpoint is
	// believed to hold in its KV cache.
	CachedTokens int
	// Load is what is known about the endpoint now.
	Load loadstats.Load
}

// PickInfo is everything a policy may look at. It is valid only during the call
// of Choose: a policy must not keep it, nor its Candidates, and must not change
// either.
type PickInfo struct {
	// Candidates are the endpoints allowed to take the request, in home order:
	// the first is where a prompt that nobody has cached belongs. Beyond the
	// first 16 the order is only a rotation.
	Candidates []Candidate

	// PromptTokens is the size of the prompt, zero if unknown.
	PromptTokens int
	// MaxOutputTokens is the most the request may generate, zero if unknown.
	MaxOutputTokens int
	// Keyed says that the request has a prefix or an explicit key, so that the
	// home order means something. Requests without go by load.
	Keyed bool

	// Continues says that the deepest match ends inside this conversation's
	// own history, as opposed to a prefix that others branch off too.
	Continues bool
	// Branches is the recent number of other requests that left the deepest
	// match towards prompts of their own; it halves every minute.
	Branches float64
	// AllBranches is the same count over every prefix.
	AllBranches float64

	// Seq is the number of this pick in its pool, from zero.
	Seq uint64
	// Random is a pseudo-random number, a function of the pool's seed and Seq.
	Random uint64
}

// Deepest returns the longest match of any candidate, in tokens.
func (p *PickInfo) Deepest() int {
	deepest := 0
	for i := range p.Candidates {
		deepest = max(deepest, p.Candidates[i].CachedTokens)
	}
	return deepest
}

// Reason says why a candidate was chosen.
type Reason uint8

// The reasons.
const (
	// Balanced: by load or by turn alone, no prefix was looked at.
	Balanced Reason = iota
	// Warm: no candidate holds more of the prompt.
	Warm
	// Cold: nobody holds anything of the prompt; its home took it.
	Cold
	// Spillover: another candidate holds more, or is the home, but was too
	// loaded.
	Spillover
	// Duplicate: the same prompt is in flight there already.
	Duplicate
)

var reasonNames = [...]string{"balanced", "warm", "cold", "spillover", "duplicate"}

// String returns the reason in lower case.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}

// MarshalText makes reasons readable in JSON and logs.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Cost explains a choice: its terms, in tokens of prefill work. Total is what
// was compared; a policy without costs leaves all of it zero.
type Cost struct {
	Total     float64 `json:"total"`
	Backlog   float64 `json:"backlog"`   // prefill that waits there already
	Own       float64 `json:"own"`       // prefill that is new everywhere
	Recompute float64 `json:"recompute"` // prefill that another candidate could save, with its price
	InFlight  float64 `json:"in_flight"` // what shares the engine: requests in flight, and those of other gateways
	Memory    float64 `json:"memory"`    // cache that is not there
}

// Ranked is a candidate with its cost.
type Ranked struct {
	Index int // into PickInfo.Candidates
	Cost  Cost
}

// Choice is the answer of a policy.
type Choice struct {
	// Index of the chosen candidate.
	Index int
	// Reason for it.
	Reason Reason
	// Cost of it, if the policy computes costs.
	Cost Cost
	// Others are the best of the rest, cheapest first; NumOthers of them are
	// set.
	Others    [2]Ranked
	NumOthers int
}

// Policy chooses one of the candidates. Implementations must be safe for
// concurrent use and must return an index within range, or an error. A pool asks
// about every request but those whose prompt is in flight already, and corrects a
// Reason of Warm or Cold where the better place was not among the candidates.
type Policy interface {
	Choose(*PickInfo) (Choice, error)
}

// warmth tells the reason for choosing a candidate by what it holds, where the
// deepest match is known.
func warmth(p *PickInfo, index, deepest int) Reason {
	switch {
	case !p.Keyed:
		return Balanced
	case deepest > 0 && p.Candidates[index].CachedTokens == deepest:
		return Warm
	case deepest == 0 && index == 0:
		return Cold
	default:
		return Spillover
	}
}
