package rivals

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// hashMod is what people try first: the hash of the first 512 tokens modulo the
// number of engines, and only where that one has 120 requests in flight, the least
// loaded. Shorter prompts are hashed whole.
type hashMod struct{}

const (
	hashModTokens = 512
	hashModLimit  = 120
)

func (hashMod) choose(f *fleet, r *request, candidates []*engine) (*engine, int) {
	n := min(hashModTokens/blockTokens, len(r.blocks))
	if n == 0 {
		return f.anyOf(shortest(candidates)), 0
	}
	e := candidates[r.blocks[n-1]%uint64(len(candidates))]
	if e.inFlight >= hashModLimit {
		e = f.anyOf(shortest(candidates))
	}
	return e, 0
}

// hashRing is consistent hashing with virtual nodes.
type hashRing struct {
	names  []string // of the engines it was made for
	points []point
}

type point struct {
	hash   uint64
	engine int // position among the engines
}

// order returns the candidates as they follow the key on the ring.
func (h *hashRing) order(candidates []*engine, points int, key uint64) []*engine {
	names := make([]string, len(candidates))
	for i, e := range candidates {
		names[i] = e.endpoint.ID
	}
	if !slices.Equal(names, h.names) {
		h.names, h.points = names, nil
		for i, name := range names {
			for k := range points {
				h.points = append(h.points, point{xxhash.Sum64String(name + strconv.Itoa(k)), i})
			}
		}
		slices.SortFunc(h.points, func(a, b point) int { return cmp.Compare(a.hash, b.hash) })
	}
	start, _ := slices.BinarySearchFunc(h.points, key, func(p point, key uint64) int { return cmp.Compare(p.hash, key) })
	order := make([]*engine, 0, len(candidates))
	for k := range h.points {
		e := candidates[h.points[(start+k)%len(h.points)].engine]
		if !slices.Contains(order, e) {
			if order = append(order, e); len(order) == len(candidates) {
				break
			}
		}
	}
	return order
}

// sessionHash is session affinity as gateways have it: consistent hashing of a
// name that the client gives to its conversation, on a ring with 160 virtual nodes
// for each engine, as in the router of the vLLM project
// (https://github.com/vllm-project/router, policy consistent_hash).
type sessionHash struct{ ring hashRing }

func (s *sessionHash) choose(_ *fleet, r *request, candidates []*engine) (*engine, int) {
	return s.ring.order(candidates, 160, xxhash.Sum64String(r.Key))[0], 0
}

// chwbl is KubeAI's consistent hashing with bounded loads
// (https://github.com/kubeai-project/kubeai, internal/loadbalancer): the hash of
// the first 100 characters of the first user message, a ring with 256 virtual
// nodes for each engine, and the first engine on it whose load with the request is
// at most 1.25 times the mean with it; if there is none, the first one.
//
// A hundred characters are 25 tokens. Here the key is the prompt up to the second
// block of the user's part, which is the same for the same first message of the
// same application.
type chwbl struct{ ring hashRing }

const (
	chwblPoints = 256
	chwblFactor = 1.25
	chwblBlocks = 2
)

func (c *chwbl) choose(f *fleet, r *request, candidates []*engine) (*engine, int) {
	n := min(r.Prefix.SystemBlocks+chwblBlocks, len(r.blocks))
	key := r.Prefix.Tail
	if n > 0 {
		key = r.blocks[n-1]
	}
	total := 0
	for _, e := range candidates {
		total += e.inFlight
	}
	limit := float64(total+1) / float64(len(candidates)) * chwblFactor
	order := c.ring.order(candidates, chwblPoints, key)
	for _, e := range order {
		if total == 0 || float64(e.inFlight+1) <= limit {
			return e, 0
		}
	}
	return order[0], 0
}
