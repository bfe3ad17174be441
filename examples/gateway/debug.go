package main

import (
	"expvar"
	"io"
	"log/slog"
	"net"
	"net/http"

	"github.com/warmroute/warmroute/examples/reverseproxy/debugpage"
	"github.com/warmroute/warmroute/router"
)

// hooks tell the page about decisions, and the log if wanted.
func hooks(page *debugpage.Page, o *options, stderr io.Writer) router.Hooks {
	if !o.verbose {
		return router.Hooks{Decided: page.Decided, Released: page.Released}
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	return router.Hooks{
		Decided: func(d *router.Decision) {
			page.Decided(d)
			log.Info("decided", "decision", d)
		},
		Released: func(d *router.Decision, out router.Outcome) {
			page.Released(d, out)
			log.Info("released", "endpoint", d.Endpoint.ID, "status", out.StatusCode, "abandoned", out.Abandoned,
				"prompt_tokens", out.PromptTokens, "cached_tokens", out.CachedTokens, "error", out.Err)
		},
	}
}

// withDebug puts the page and expvar's variables beside the gateway, for clients
// on this machine only: they tell about everybody's traffic.
func withDebug(page *debugpage.Page, gateway http.Handler) http.Handler {
	vars := new(expvar.Map)
	vars.Set("cmdline", expvar.Get("cmdline"))
	vars.Set("memstats", expvar.Get("memstats"))
	vars.Set("router", expvar.Func(func() any { return page.Snapshot().Endpoints }))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !isLocal(r):
			gateway.ServeHTTP(w, r)
		case r.URL.Path == "/debug/router":
			page.ServeHTTP(w, r)
		case r.URL.Path == "/debug/vars":
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			io.WriteString(w, vars.String())
		default:
			gateway.ServeHTTP(w, r)
		}
	})
}

func isLocal(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && net.ParseIP(host).IsLoopback()
}
