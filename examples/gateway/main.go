// Command gateway is an LLM gateway that routes by prefix affinity, made from
// this module's packages: a pool of endpoints, and the handler of
// examples/reverseproxy in front of it.
//
//	go run ./examples/gateway                        eight embedded engines, on 127.0.0.1:8080
//	go run ./examples/gateway -endpoints http://h1:8000,http://h2:8000
//	go run ./examples/gateway -record FILE           and write down the traffic, without its content
//	go run ./examples/gateway -demo                  compare policies under a swarm of agents
//	go run ./examples/gateway -demo -trace FILE -speedup 1.5 -requests 3000
//
// The embedded engines compute nothing. They keep the time, the memory and the
// prefix cache of an engine, as routertest.Engine describes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C doesn't wait for streams.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program without its process. It returns the exit status: 2 for
// flags that make no sense, 1 for what went wrong later.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "gateway: %v\n", err)
		return 2
	}
	if o.demo {
		err = demo(ctx, o, stdout, stderr)
	} else {
		err = serve(ctx, o, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "gateway: %v\n", err)
		return 1
	}
	return 0
}
