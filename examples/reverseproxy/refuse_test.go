package reverseproxy_test

import (
	"bytes"
	"errors"
	"log"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// failingPicks is a router that has a way to fail of its own.
type failingPicks struct{ err error }

func (f failingPicks) Pick(router.Request) (*router.Decision, error) { return nil, f.err }

// What is wrong with the router or its handler is told to the operator, once for
// each request that fails from it, and not to the client.
func TestHandler_RoutingFailedIsLogged(t *testing.T) {
	for _, c := range []struct {
		name   string
		says   string // in the log; "": nothing is logged
		code   string // in the answer
		change func(*router.Config, *reverseproxy.Handler)
		router router.Router
	}{
		{"blocks of another size", "BlockTokens 16", "routing_failed", func(_ *router.Config, h *reverseproxy.Handler) {
			h.Hasher = &tokenprefix.Hasher{BlockTokens: 16}
		}, nil},
		{"a router's own error", "the moon is full", "routing_failed", nil, failingPicks{errors.New("the moon is full")}},
		{"no URL", `endpoint "e1" has no URL`, "routing_failed", func(c *router.Config, _ *reverseproxy.Handler) {
			c.Endpoints = []router.Endpoint{{ID: "e1", Weight: 1}}
		}, nil},
		{"no endpoints", "", "no_endpoints", nil, failingPicks{router.ErrNoEndpoints}},
		{"saturated", "", "saturated", nil, failingPicks{&router.SaturatedError{}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var change []func(*router.Config, *reverseproxy.Handler)
			if c.change != nil {
				change = append(change, c.change)
			}
			g := start(t, []string{deadEngine(t)}, change...)
			if c.router != nil {
				g.handler.Router = c.router
			}
			var logged bytes.Buffer
			g.server.Config.ErrorLog = log.New(&logged, "", 0)
			a := g.post(chat("x", 9000))
			if a.StatusCode != 503 || !strings.Contains(a.body, `"`+c.code+`"`) || c.says != "" && strings.Contains(a.body, c.says) {
				t.Errorf("answer = %d %s, want 503 with %s and no more", a.StatusCode, a.body, c.code)
			}
			lines := strings.Count(logged.String(), "\n")
			if c.says == "" && lines != 0 || c.says != "" && (lines != 1 || !strings.Contains(logged.String(), c.says)) {
				t.Errorf("logged %q, want a line that says %q, nothing if that is empty", logged.String(), c.says)
			}
		})
	}
}

// An endpoint that no request can be sent to is at fault, not the client: the
// router hears of it, as of any other that can't be reached.
func TestHandler_EndpointWithoutURLFails(t *testing.T) {
	g := start(t, nil, func(c *router.Config, _ *reverseproxy.Handler) {
		c.Endpoints = []router.Endpoint{{ID: "e1", Weight: 1}}
	})
	g.server.Config.ErrorLog = log.New(new(bytes.Buffer), "", 0)
	g.post(chat("x", 100))
	if o := g.outcome(); o.Err == nil || o.Abandoned {
		t.Errorf("outcome = %+v, want an error", o)
	}
}
