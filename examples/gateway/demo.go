package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
)

// demo runs the same load under one policy after the other, each with engines
// and a pool of its own, and reports.
func demo(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	l, err := newLoad(o)
	if err != nil {
		return err
	}
	var results []result
	for _, p := range o.policies {
		r, err := runPolicy(ctx, o, p, l, newProgress(stderr, p.name))
		if err != nil {
			return fmt.Errorf("policy %s: %w", p.name, err)
		}
		if o.json {
			if err := writeJSON(stdout, &r); err != nil {
				return err
			}
		}
		if r.Lost > 0 {
			fmt.Fprintf(stderr, "gateway: policy %s lost %d of %d requests; the first: %v\n", p.name, r.Lost, r.Lost+r.Requests, r.firstError)
		}
		results = append(results, r)
	}
	if o.json {
		return nil
	}
	return writeTable(stdout, o, results)
}

var errInterrupted = errors.New("interrupted")

// runPolicy sends the load through a gateway with the policy.
func runPolicy(ctx context.Context, o *options, p policy, l load, shown *progress) (result, error) {
	engines := startFleet(o.engines, o.speed)
	defer engines.close()
	endpoints, err := engines.endpoints()
	if err != nil {
		return result{}, err
	}
	pool, err := router.New(p.config(router.Config{Endpoints: endpoints, KVCacheTokens: kvTokens, Seed: o.seed}))
	if err != nil {
		return result{}, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return result{}, err
	}
	clock := newClock(o.speed)
	transport := reverseproxy.NewTransport()
	defer transport.CloseIdleConnections()
	server := &http.Server{Handler: &reverseproxy.Handler{Router: pool, Queue: p.queue(pool), Hasher: p.hasher(), Transport: transport, Now: clock.now}}
	go server.Serve(listener)
	defer server.Close()
	c := newClient("http://"+listener.Addr().String(), clock)
	defer c.close()

	m := &measurement{from: l.warmUp()}
	stop := shown.follow(clock, l, m)
	defer stop()
	warm := make(chan []time.Duration, 1)
	timer := time.AfterFunc(time.Duration(float64(l.warmUp())/o.speed), func() { warm <- engines.busy() })
	defer timer.Stop()
	until := l.send(ctx, c, m)
	if ctx.Err() != nil {
		return result{}, errInterrupted
	}
	busy := engines.busy()
	for i, before := range <-warm {
		busy[i] -= before
	}
	return m.result(p.name, until, busy), nil
}
