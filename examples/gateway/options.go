package main

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/warmroute/warmroute/router"
)

// options are the flags, checked.
type options struct {
	addr      string
	engines   int
	endpoints []router.Endpoint // none: embedded engines
	policy    policy
	speed     float64
	record    string
	verbose   bool

	demo     bool
	policies []policy
	json     bool
	trace    string
	speedup  float64
	requests int
	streams  int
	seed     uint64
}

const (
	maxEngines  = 1024
	maxStreams  = 10_000
	maxSpeed    = 1000
	maxRequests = 10_000_000
)

// Default speeds. The embedded engines serve in real time. A comparison runs as
// much faster as two cores allow without a trace of it in the results.
const (
	swarmSpeed = 8
	traceSpeed = 16
)

// parseOptions reads the flags. Errors name the flag and its value; the usage is
// printed to stderr only when it is asked for.
func parseOptions(args []string, stderr io.Writer) (*options, error) {
	var o options
	var endpoints, name, names string
	f := flag.NewFlagSet("gateway", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.addr, "addr", "127.0.0.1:8080", "`address` to serve on")
	f.IntVar(&o.engines, "engines", 8, "number of embedded engines")
	f.StringVar(&endpoints, "endpoints", "", "comma-separated `URLs` of real engines, in place of embedded ones")
	f.StringVar(&name, "policy", "affinity", "routing `policy`: "+strings.Join(policyNames(), ", "))
	f.StringVar(&o.record, "record", "", "new `file` to write the traffic to, as an anonymous trace for -demo -trace and for examples/simulate")
	f.BoolVar(&o.verbose, "v", false, "log every decision")
	f.Float64Var(&o.speed, "speed", 0, "how many times faster than real the embedded engines run (default 1; with -demo 8, with -trace 16)")
	f.BoolVar(&o.demo, "demo", false, "compare policies under load and exit")
	f.StringVar(&names, "policies", "round_robin,least_load,affinity", "policies that -demo compares")
	f.BoolVar(&o.json, "json", false, "print the results of -demo as one JSON object per policy")
	f.StringVar(&o.trace, "trace", "", "`file` that -demo replays instead of the swarm, in Mooncake's JSONL format, plain or gzipped")
	f.Float64Var(&o.speedup, "speedup", 1, "how many times faster than recorded the trace arrives")
	f.IntVar(&o.requests, "requests", 0, "number of requests that -demo sends and counts (default: as many as fit, or the whole trace)")
	f.IntVar(&o.streams, "streams", 100, "number of agents in the swarm of -demo")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the swarm of -demo and of the pools")

	if err := f.Parse(args); err != nil {
		if err == flag.ErrHelp {
			f.SetOutput(stderr)
			f.Usage()
		}
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("argument %q: want flags only", f.Arg(0))
	}
	set := map[string]bool{}
	f.Visit(func(f *flag.Flag) { set[f.Name] = true })
	for _, c := range []struct {
		names    []string
		sensible bool
		why      string
	}{
		{[]string{"policies", "json", "trace", "speedup", "requests", "streams"}, o.demo, "needs -demo"},
		{[]string{"addr", "endpoints", "policy", "record", "v"}, !o.demo, "is not for -demo"},
		{[]string{"engines", "speed"}, endpoints == "", "is for embedded engines, not -endpoints"},
		{[]string{"speedup"}, o.trace != "", "needs -trace"},
		{[]string{"streams"}, o.trace == "", "is for the swarm, not -trace"},
	} {
		for _, name := range c.names {
			if set[name] && !c.sensible {
				return nil, fmt.Errorf("-%s %s: %s", name, f.Lookup(name).Value, c.why)
			}
		}
	}

	var err error
	if endpoints != "" {
		if o.endpoints, err = router.ParseEndpoints(strings.Split(endpoints, ",")...); err != nil {
			return nil, fmt.Errorf("-endpoints: %w", err)
		}
		if _, err := router.New(router.Config{Endpoints: o.endpoints}); err != nil {
			return nil, fmt.Errorf("-endpoints: %w", err)
		}
	}
	if o.policy, err = findPolicy(name); err != nil {
		return nil, fmt.Errorf("-policy: %w", err)
	}
	if o.record != "" && !o.policy.prompts {
		return nil, fmt.Errorf("-record %s: %s does not look at prompts", o.record, name)
	}
	for _, name := range strings.Split(names, ",") {
		p, err := findPolicy(name)
		if err != nil {
			return nil, fmt.Errorf("-policies: %w", err)
		}
		o.policies = append(o.policies, p)
	}
	if o.speed == 0 && !set["speed"] {
		o.speed = o.defaultSpeed()
	}
	return &o, o.check()
}

func (o *options) defaultSpeed() float64 {
	switch {
	case o.trace != "":
		return traceSpeed
	case o.demo:
		return swarmSpeed
	}
	return 1
}

// check compares numbers with their ranges.
func (o *options) check() error {
	for _, n := range []struct {
		flag            string
		value, min, max float64
	}{
		{"engines", float64(o.engines), 1, maxEngines},
		{"speed", o.speed, 0.001, maxSpeed},
		{"speedup", o.speedup, 0.001, maxSpeed},
		{"requests", float64(o.requests), 0, maxRequests},
		{"streams", float64(o.streams), 1, maxStreams},
	} {
		if !(n.value >= n.min && n.value <= n.max) {
			return fmt.Errorf("-%s %v: want %v to %v", n.flag, n.value, n.min, n.max)
		}
	}
	return nil
}
