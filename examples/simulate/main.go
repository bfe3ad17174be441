// Command simulate says what routing policies would do to traffic, in virtual
// time: a trace of your own in Mooncake's format, a swarm of agents, or chat.
//
//	go run ./examples/simulate -swarm 100
//	go run ./examples/simulate -trace FILE -speedup 1.7 -policies affinity,gie,smg_cache_aware
//	go run ./examples/simulate -trace FILE -speedup 3.4 -endpoints 16 -html report.html
//	go run ./examples/simulate -swarm 80 -crash 240s:3 -policies affinity,round_robin,kubeai_chwbl
//	go run ./examples/simulate -swarm 100 -gateways 4 -announce 100ms
//	go run ./examples/simulate -swarm 100 -timeout 5s -duplicates 3
//	go run ./examples/simulate -swarm 100 -reports 500ms -faults mixed
//	go run ./examples/simulate -swarm 150 -policies ablation -seeds 3
//	go run ./examples/simulate -swarm 60 -greedy 100 -policies affinity,acquire -fair
//	go run ./examples/simulate -list
//
// The engines are those of routertest.Simulate: about a 70B model on four H100
// each. The same flags print the same bytes on every machine. SIMULATION.md and
// LATE_BINDING.md show the results that the project's claims rest on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program without its process. It returns the exit status: 2 for flags
// that make no sense, 1 for what went wrong later.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "simulate: %v\n", err)
		return 2
	}
	if o.list {
		err = listPolicies(stdout)
	} else {
		err = o.simulate(ctx, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "simulate: %v\n", err)
		return 1
	}
	return 0
}

// simulate compares the policies and writes what was asked for.
func (o *options) simulate(ctx context.Context, stdout, stderr io.Writer) error {
	results, err := o.compare(ctx, newProgress(stderr, o.quiet))
	if err != nil {
		return err
	}
	if o.html != "" {
		if err := writePage(o.html, o.describe(), o.changes, results); err != nil {
			return err
		}
	}
	return formats[o.format](stdout, results, o.changes)
}
