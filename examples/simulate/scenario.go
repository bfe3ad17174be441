package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/warmroute/warmroute/router/routertest"
)

// workload makes the traffic for a seed.
func (o *options) workload(seed uint64) (routertest.Workload, error) {
	switch {
	case o.trace != "":
		return routertest.Trace(o.trace, routertest.TraceConfig{Speedup: o.speedup, Limit: o.limit, WarmUp: o.warmUp})
	case o.swarm != 0:
		return routertest.Swarm(routertest.SwarmConfig{Seed: seed, Streams: o.swarm, Greedy: o.greedy, WarmUp: o.warmUp, Duration: o.until})
	default:
		return routertest.Chat(routertest.ChatConfig{Seed: seed, Rate: o.chat, WarmUp: o.warmUp, Duration: o.until})
	}
}

// scenario is what all policies are put into. Each changes it for itself.
func (o *options) scenario(w routertest.Workload, seed uint64) routertest.Scenario {
	s := routertest.Scenario{
		Workload: w,
		Engines:  make([]routertest.EngineSpec, o.endpoints),
		Changes:  o.changes,
		Gateways: o.gateways,
		Clients:  o.clients,
		Reports:  routertest.Reports{Every: o.reports},
		Seed:     seed,
	}
	for i := range s.Engines {
		s.Engines[i].KVCacheTokens = o.kvTokens
	}
	if o.faults != "" {
		faults[o.faults](&s.Reports)
	}
	return s
}

// describe is the scenario in words.
func (o *options) describe() string {
	var b strings.Builder
	switch {
	case o.trace != "":
		fmt.Fprintf(&b, "%s at %v times its speed", filepath.Base(o.trace), o.speedup)
		if o.limit > 0 {
			fmt.Fprintf(&b, ", the first %d requests", o.limit)
		}
	case o.swarm != 0:
		fmt.Fprintf(&b, "%d agents in a closed loop", o.swarm)
		if o.greedy > 0 {
			fmt.Fprintf(&b, " beside %d of a greedy tenant", o.greedy)
		}
	default:
		fmt.Fprintf(&b, "chat with %v requests per second", o.chat)
	}
	fmt.Fprintf(&b, ", %d engines of %s KV tokens", o.endpoints, thousands(strconv.Itoa(o.kvTokens)))
	if o.seeds > 1 {
		fmt.Fprintf(&b, ", mean of %d seeds", o.seeds)
	}
	if n := o.gateways.Count; n > 1 {
		fmt.Fprintf(&b, ", %d gateways", n)
		if o.gateways.Sticky {
			b.WriteString(" (sticky)")
		}
		if d := o.gateways.AnnounceDelay; d > 0 {
			fmt.Fprintf(&b, " that announce with a delay of %v", d)
		} else {
			b.WriteString(" that share nothing")
		}
	}
	if o.reports > 0 {
		fmt.Fprintf(&b, ", reports each %v", o.reports)
	}
	if o.faults != "" {
		fmt.Fprintf(&b, ", faulty reports: %s", o.faults)
	}
	if t := o.clients.Timeout; t > 0 {
		fmt.Fprintf(&b, ", clients that send again after %v, up to %d times", t, o.clients.Duplicates)
	}
	for _, c := range o.changes {
		fmt.Fprintf(&b, ", %v of e%d after %v", c.Kind, c.Endpoint, c.At)
	}
	return b.String()
}
