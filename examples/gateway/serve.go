package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
)

// dialTimeout is how long an endpoint may take to accept a connection when the
// gateway starts.
const dialTimeout = 3 * time.Second

// serve runs the gateway until ctx is done, then waits for the streams that are
// still open.
func serve(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	endpoints := o.endpoints
	kv := 0 // learned
	if len(endpoints) == 0 {
		engines, err := startFleet(o.engines, o.speed)
		if err != nil {
			return err
		}
		defer engines.close()
		if endpoints, err = engines.endpoints(); err != nil {
			return err
		}
		kv = kvTokens
	} else if err := reach(ctx, endpoints); err != nil {
		return err
	}
	config := o.policy.config(router.Config{Endpoints: endpoints, KVCacheTokens: kv, Seed: o.seed})
	if o.verbose {
		log := slog.New(slog.NewTextHandler(stderr, nil))
		config.Hooks.Decided = func(d *router.Decision) { log.Info("decided", "decision", d) }
		config.Hooks.Released = func(d *router.Decision, out router.Outcome) {
			log.Info("released", "endpoint", d.Endpoint.ID, "status", out.StatusCode, "abandoned", out.Abandoned,
				"prompt_tokens", out.PromptTokens, "cached_tokens", out.CachedTokens, "error", out.Err)
		}
	}
	pool, err := router.New(config)
	if err != nil {
		return err
	}
	transport := reverseproxy.NewTransport()
	defer transport.CloseIdleConnections()
	listener, err := net.Listen("tcp", o.addr)
	if err != nil {
		return fmt.Errorf("-addr %s: %w", o.addr, err)
	}
	server := &http.Server{
		Handler:           &reverseproxy.Handler{Router: pool, Hasher: o.policy.hasher(), Transport: transport, Responses: new(reverseproxy.ResponseTable)},
		ReadHeaderTimeout: 10 * time.Second,
	}
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
	if u.Scheme == "https" {
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return net.JoinHostPort(u.Hostname(), "80")
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
	fmt.Fprintf(w, "Try:\n  curl -N http://%s/v1/chat/completions -H 'Content-Type: application/json' \\\n"+
		"    -d '{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello!\"}],\"max_tokens\":20,\"stream\":true}'\n", addr, name)
}
