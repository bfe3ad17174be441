package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/router/routertest"
)

// options are the flags.
type options struct {
	trace   string
	speedup float64
	limit   int
	swarm   int
	greedy  int
	fair    bool
	chat    float64
	warmUp  time.Duration
	until   time.Duration
	seed    uint64
	seeds   int

	endpoints int
	kvTokens  int
	changes   []routertest.Change

	gateways routertest.Gateways
	clients  routertest.Clients
	reports  time.Duration
	scrape   time.Duration
	faults   string

	policies []policy
	list     bool
	format   string
	html     string
	quiet    bool
}

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("simulate", flag.ContinueOnError)
	f.SetOutput(io.Discard) // the caller tells of errors
	f.StringVar(&o.trace, "trace", "", "replay the trace in this `file`: Mooncake's JSONL, plain or gzipped")
	f.Float64Var(&o.speedup, "speedup", 1, "divide all times of the trace")
	f.IntVar(&o.limit, "limit", 0, "cut the trace to the first so many `requests`; 0: all")
	f.IntVar(&o.swarm, "swarm", 0, "a swarm of so many `agents` in a closed loop")
	f.IntVar(&o.greedy, "greedy", 0, "with -swarm, so many further `agents` of one tenant that send new prompts only; figures are the others'")
	f.Float64Var(&o.chat, "chat", 0, "chat with so many `requests` per second on average")
	f.DurationVar(&o.warmUp, "warmup", 0, "`time` in which requests are not counted (default 2m for a swarm, else 0)")
	f.DurationVar(&o.until, "duration", 0, "`time` that a swarm or chat lasts (default 400s)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of swarm or chat and of the simulation")
	f.IntVar(&o.seeds, "seeds", 1, "take the mean of so many seeds")

	f.IntVar(&o.endpoints, "endpoints", 8, "number of engines")
	f.IntVar(&o.kvTokens, "kv-tokens", 400_000, "size of each engine's KV cache in `tokens`")
	change := func(name, usage string, kind routertest.ChangeKind) {
		f.Func(name, usage, func(text string) error { return o.addChange(kind, text) })
	}
	change("crash", "an engine crashes: `time:endpoint`, such as 240s:3; may be repeated, as may the following", routertest.Crash)
	change("restart", "an engine restarts with an empty cache, and nobody is told: `time:endpoint`", routertest.Restart)
	change("join", "a new engine joins: `time`, or time:endpoint for one that crashed", routertest.Join)
	change("drain", "an endpoint takes no new requests: `time:endpoint`", routertest.Drain)
	change("slow", "an engine becomes slower: `time:endpoint:speed`, such as 240s:3:0.5", routertest.Slow)

	f.IntVar(&o.gateways.Count, "gateways", 1, "number of gateways")
	f.BoolVar(&o.gateways.Sticky, "sticky", false, "conversations stay at their gateway")
	f.DurationVar(&o.gateways.AnnounceDelay, "announce", 0, "gateways that can tell each other what they decide, with this `delay`; 0: they don't")
	f.DurationVar(&o.gateways.Discovery, "discovery", 0, "`time` until gateways know of a crash, join or drain")
	f.DurationVar(&o.gateways.Latency, "latency", 0, "`time` from gateway to engine, and back")
	f.DurationVar(&o.clients.Timeout, "timeout", 0, "`time` without a first token after which clients send a request again; 0: never")
	f.IntVar(&o.clients.Duplicates, "duplicates", 3, "`times` that they do so")
	f.BoolVar(&o.clients.Cancel, "cancel", false, "what clients gave up is taken back from the engine")
	f.StringVar(&o.faults, "faults", "", aboutFaults)
	f.DurationVar(&o.reports, "reports", 0, "`interval` of the engines' reports to policies that do not live by them; 0: none, "+
		"but affinity and its variants get them as -scrape says when several gateways share nothing")
	f.DurationVar(&o.scrape, "scrape", 50*time.Millisecond, "`interval` of the reports to policies that live by them")

	f.BoolVar(&o.fair, "fair", false, "acquire lets tenants take turns")
	names := f.String("policies", "all", "`names` of policies, separated by commas; all, or ablation for variants of affinity")
	f.BoolVar(&o.list, "list", false, "list the policies and exit")
	f.StringVar(&o.format, "format", "table", "table, csv, json or markdown")
	f.StringVar(&o.html, "html", "", "also write a page with plots to this `file`")
	f.BoolVar(&o.quiet, "quiet", false, "no progress")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(stderr)
			f.Usage()
		}
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("argument %q is not a flag", f.Arg(0))
	}
	var err error
	if o.policies, err = findPolicies(*names); err != nil {
		return nil, fmt.Errorf("-policies: %w", err)
	}
	return o, o.check()
}

func (o *options) check() error {
	if o.list {
		return nil
	}
	loads := 0
	for _, given := range []bool{o.trace != "", o.swarm != 0, o.chat != 0} {
		if given {
			loads++
		}
	}
	switch {
	case loads != 1:
		return errors.New("want one of -trace, -swarm and -chat")
	case o.trace == "" && o.speedup != 1:
		return fmt.Errorf("-speedup %v needs -trace", o.speedup)
	case !(o.speedup >= 1e-6 && o.speedup <= 1e6):
		return fmt.Errorf("-speedup %v: want 1e-6 to 1e6", o.speedup)
	case o.trace == "" && o.limit != 0:
		return fmt.Errorf("-limit %d needs -trace", o.limit)
	case o.limit < 0:
		return fmt.Errorf("-limit %d: want at least 0", o.limit)
	case o.greedy != 0 && o.swarm == 0:
		return fmt.Errorf("-greedy %d needs -swarm", o.greedy)
	case o.trace != "" && o.seeds > 1:
		return errors.New("-seeds makes no sense with -trace, which is always the same")
	case o.trace != "" && o.until != 0:
		return fmt.Errorf("-duration %v makes no sense with -trace, which ends when it ends", o.until)
	case o.until < 0:
		return fmt.Errorf("-duration %v: want at least 0", o.until)
	case o.warmUp < 0:
		return fmt.Errorf("-warmup %v: want at least 0", o.warmUp)
	case o.seeds < 1:
		return fmt.Errorf("-seeds %d: want at least 1", o.seeds)
	case o.endpoints < 1 || o.endpoints > 4096:
		return fmt.Errorf("-endpoints %d: want 1 to 4,096", o.endpoints)
	case o.gateways.Count < 1 || o.gateways.Count > 1024:
		return fmt.Errorf("-gateways %d: want 1 to 1,024", o.gateways.Count)
	case o.kvTokens < 1:
		return fmt.Errorf("-kv-tokens %d: want at least 1", o.kvTokens)
	case o.scrape <= 0:
		return fmt.Errorf("-scrape %v: want a time above zero", o.scrape)
	case o.faults != "" && faults[o.faults] == nil:
		return fmt.Errorf("-faults %q is none of %s", o.faults, faultNames())
	case formats[o.format] == nil:
		return fmt.Errorf("-format %q is none of %s", o.format, strings.Join(slices.Sorted(maps.Keys(formats)), ", "))
	}
	slices.SortStableFunc(o.changes, func(a, b routertest.Change) int { return cmp.Compare(a.At, b.At) })
	next := o.endpoints
	for i := range o.changes {
		if c := &o.changes[i]; c.Kind == routertest.Join && c.Endpoint < 0 {
			c.Endpoint = next
			next++
		}
	}
	return nil
}

// addChange parses time:endpoint:speed, as far as the kind has them.
func (o *options) addChange(kind routertest.ChangeKind, text string) error {
	c := routertest.Change{Kind: kind, Endpoint: -1}
	parts := strings.Split(text, ":")
	want := 2
	switch {
	case kind == routertest.Join && len(parts) == 1:
		want = 1
	case kind == routertest.Slow:
		want = 3
	}
	if len(parts) != want {
		return fmt.Errorf("want %d parts with a colon between them", want)
	}
	var err error
	if c.At, err = time.ParseDuration(parts[0]); err != nil {
		return err
	}
	if len(parts) > 1 {
		if c.Endpoint, err = strconv.Atoi(parts[1]); err != nil || c.Endpoint < 0 {
			return fmt.Errorf("endpoint %q is not a number", parts[1])
		}
	}
	if len(parts) > 2 {
		if c.Speed, err = strconv.ParseFloat(parts[2], 64); err != nil {
			return fmt.Errorf("speed %q is not a number", parts[2])
		}
	}
	o.changes = append(o.changes, c)
	return nil
}
