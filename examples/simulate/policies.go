package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/warmroute/warmroute/examples/simulate/rivals"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/router/routertest"
)

// policy is a way to route under its name on the command line.
type policy struct {
	name, about string
	// set puts it into a scenario.
	set func(*options, *routertest.Scenario)
}

// affinity is this project's default.
func affinity() policy {
	return policy{"affinity", "this project's default: the least cost in tokens of prefill work", func(o *options, s *routertest.Scenario) {
		if s.Gateways.Count > 1 && o.reports == 0 && s.Gateways.AnnounceDelay == 0 {
			s.Reports.Every = o.scrape // gateways that share nothing need them
		}
	}}
}

// acquire is the same with the queue in front.
func acquire() policy {
	return policy{"acquire", "affinity, and requests wait in the gateway until their endpoint has room", func(o *options, s *routertest.Scenario) {
		affinity().set(o, s)
		s.Queue = true
		s.Router = func(g *routertest.Gateway) (router.Router, error) {
			c := g.Config()
			c.Queue.Fair = o.fair
			return router.New(c)
		}
	}}
}

// comparison are affinity, without and with a queue, and all rivals.
func comparison() []policy {
	all := []policy{affinity(), acquire()}
	for _, r := range rivals.All() {
		all = append(all, policy{r.Name, r.About, func(o *options, s *routertest.Scenario) {
			s.Router = r.Router
			s.Clients.SessionKeys = r.SessionKeys
			s.Gateways.AnnounceDelay = 0 // they have nothing to say
			if r.Scrapes {
				s.Reports.Every = o.scrape
			}
		}})
	}
	return all
}

// findPolicies returns those with the given names.
func findPolicies(names string) ([]policy, error) {
	known := append(comparison(), ablation()...)
	var found []policy
	for name := range strings.SplitSeq(names, ",") {
		switch name = strings.TrimSpace(name); name {
		case "all":
			found = append(found, comparison()...)
		case "ablation":
			found = append(found, affinity())
			found = append(found, ablation()...)
		default:
			i := slices.IndexFunc(known, func(p policy) bool { return p.name == name })
			if i < 0 {
				return nil, fmt.Errorf("%q is not a policy; see -list", name)
			}
			found = append(found, known[i])
		}
	}
	return found, nil
}

func listPolicies(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range comparison() {
		fmt.Fprintf(t, "%s\t%s\n", p.name, p.about)
	}
	fmt.Fprintln(t, "\nablation: affinity with one thing changed")
	for _, p := range ablation() {
		fmt.Fprintf(t, "%s\t%s\n", p.name, p.about)
	}
	return t.Flush()
}
