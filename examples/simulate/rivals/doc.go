// Package rivals holds the routing rules of other projects, re-implemented for
// simulation from their public descriptions and sources, with their default
// constants. Each file names its source, and where a default had to be
// interpreted. They are here to compare with, not to be used.
//
// All of them see prompts in blocks of 16 tokens. A character counts as a quarter
// of a token.
package rivals

import (
	"cmp"
	"slices"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/router/routertest"
)

// Rival is a way to route.
type Rival struct {
	Name string
	// About says in a line what it does.
	About string
	// Router makes the router of a gateway.
	Router func(*routertest.Gateway) (router.Router, error)
	// Scrapes says that it needs the reports of the engines.
	Scrapes bool
	// SessionKeys says that it needs the names of conversations.
	SessionKeys bool
}

// All returns all rivals, sorted by name.
func All() []Rival {
	all := []Rival{
		{Name: "round_robin", About: "one after the other", Router: policy(balancer.RoundRobin{})},
		{Name: "least_request", About: "fewest requests in flight", Router: policy(balancer.LeastLoad{})},
		{Name: "power_of_two", About: "the less loaded of two at random", Router: policy(balancer.PowerOfTwo{})},
		{Name: "hash_mod", About: "hash of the first 512 tokens modulo N, at most 120 in flight", Router: rule(func() chooser { return hashMod{} })},
		{Name: "session_hash", About: "consistent hashing of the conversation's name", Router: rule(func() chooser { return &sessionHash{} }), SessionKeys: true},
		{Name: "kubeai_chwbl", About: "consistent hashing with bounded loads of 100 characters", Router: rule(func() chooser { return &chwbl{} })},
		{Name: "smg_cache_aware", About: "deepest tree match above 0.3, shortest queue when imbalanced by 64 and 1.5", Router: rule(func() chooser { return &cacheAware{threshold: 0.3, absolute: 64, relative: 1.5} })},
		{Name: "smg_library", About: "smg_cache_aware with the library's 0.5, 32 and 1.1", Router: rule(func() chooser { return &cacheAware{threshold: 0.5, absolute: 32, relative: 1.1} })},
		{Name: "gie", About: "scores of prefix 3, queue 2, KV usage 2; first 4,096 tokens", Router: scorers(gie{blocks: 256}), Scrapes: true},
		{Name: "gie_uncapped", About: "gie for whole prompts", Router: scorers(gie{}), Scrapes: true},
		{Name: "llmd_precise", About: "gie with the engines' own caches for the prefix", Router: scorers(gie{exact: true}), Scrapes: true},
		{Name: "dynamo_approx", About: "prefill blocks to compute plus blocks in use, 120 s of belief", Router: rule(func() chooser { return &dynamo{} })},
		{Name: "dynamo_events", About: "dynamo_approx with the engines' own caches for the prefix", Router: exact(func(g *routertest.Gateway) chooser { return &dynamo{gateway: g} })},
		{Name: "preble_e2", About: "exploit what is mostly cached, else explore the least cost", Router: rule(func() chooser { return newPreble() })},
		{Name: "lmetric", About: "tokens of the prompt that are not cached, times requests", Router: rule(func() chooser { return &lmetric{} })},
		{Name: "lmetric_queued", About: "lmetric with the tokens that wait there", Router: rule(func() chooser { return &lmetric{queued: true} })},
		{Name: "ray_prefix", About: "deepest tree match above 0.1, whatever the load", Router: rule(func() chooser { return &rayPrefix{} })},
	}
	slices.SortFunc(all, func(a, b Rival) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// policy is a policy of the library, without the pool's own bound.
func policy(p balancer.Policy) func(*routertest.Gateway) (router.Router, error) {
	return func(g *routertest.Gateway) (router.Router, error) {
		c := g.Config()
		c.Policy, c.Bound.Factor = p, -1
		return router.New(c)
	}
}

func rule(make func() chooser) func(*routertest.Gateway) (router.Router, error) {
	return exact(func(*routertest.Gateway) chooser { return make() })
}

func exact(make func(*routertest.Gateway) chooser) func(*routertest.Gateway) (router.Router, error) {
	return func(g *routertest.Gateway) (router.Router, error) { return newFleet(g, make(g)), nil }
}

func scorers(s gie) func(*routertest.Gateway) (router.Router, error) {
	return exact(func(g *routertest.Gateway) chooser {
		one := s
		one.gateway = g
		return &one
	})
}
