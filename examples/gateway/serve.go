package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/warmroute/warmroute/router"
)

// serve runs the gateway until ctx is done, then waits for the streams that are
// still open.
func serve(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	endpoints := o.endpoints
	if len(endpoints) == 0 {
		engines := startFleet(o.engines, o.speed)
		defer engines.close()
		if endpoints, err = engines.endpoints(); err != nil {
			return err
		}
	} else if err := reach(ctx, endpoints); err != nil {
		return err
	}
	g, err := newGateway(o, endpoints, stderr)
	if err != nil {
		return err
	}
	defer g.transport.CloseIdleConnections()
	listener, err := net.Listen("tcp", o.addr)
	if err != nil {
		return fmt.Errorf("-addr %s: %w", o.addr, err)
	}

	polling, stopPolling := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() { g.poller.Run(polling) })
	defer background.Wait()
	defer stopPolling()

	handler := http.Handler(g.handler)
	if o.record != "" {
		var stop func() error
		if handler, stop, err = g.recordTo(o.record); err != nil {
			listener.Close()
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	server := &http.Server{Handler: withDebug(g.page, handler), ReadHeaderTimeout: 10 * time.Second}
	welcome(stdout, listener.Addr(), o, endpoints)
	return serveUntil(ctx, server, listener, stderr)
}

// serveUntil serves until ctx is done and every request has been answered.
func serveUntil(ctx context.Context, server *http.Server, listener net.Listener, stderr io.Writer) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	fmt.Fprintln(stderr, "gateway: waiting for open streams; interrupt again to cut them")
	err := server.Shutdown(context.WithoutCancel(ctx))
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		return served
	}
	return err
}

// dialTimeout is how long an endpoint may take to accept a connection when the
// gateway starts.
const dialTimeout = 3 * time.Second

// reach makes sure that there is somebody at every endpoint.
func reach(ctx context.Context, endpoints []router.Endpoint) error {
	dialer := net.Dialer{Timeout: dialTimeout}
	for _, e := range endpoints {
		c, err := dialer.DialContext(ctx, "tcp", hostPort(e.URL))
		if err != nil {
			return fmt.Errorf("endpoint %s: %w", e.ID, err)
		}
		c.Close()
	}
	return nil
}

func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), u.Scheme) // http and https are names of ports
}

func welcome(w io.Writer, addr net.Addr, o *options, endpoints []router.Endpoint) {
	fmt.Fprintf(w, "Serving on http://%s by %s, with these endpoints:\n", addr, o.policy.name)
	for _, e := range endpoints {
		fmt.Fprintf(w, "  %s\n", e.ID)
	}
	name := model
	if len(o.endpoints) > 0 {
		name = "YOUR-MODEL"
	}
	fmt.Fprintf(w, "Decisions are shown at http://%s/debug/router. Try:\n"+
		"  curl -N http://%s/v1/chat/completions -H 'Content-Type: application/json' \\\n"+
		"    -d '{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello!\"}],\"max_tokens\":20,\"stream\":true}'\n",
		addr, addr, name)
}
