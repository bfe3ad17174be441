package main

import (
	"io"
	"net/http"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/examples/reverseproxy/debugpage"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/loadstats/scrape"
	"github.com/warmroute/warmroute/router"
)

// gateway is a pool of endpoints, with the handler in front of it.
type gateway struct {
	pool      *router.Pool
	handler   *reverseproxy.Handler
	transport *http.Transport
	page      *debugpage.Page
	// poller asks the engines what they say of themselves: the requests of other
	// gateways, too, and the size of the KV cache.
	poller *loadstats.Poller
}

func newGateway(o *options, endpoints []router.Endpoint, stderr io.Writer) (*gateway, error) {
	g := &gateway{transport: reverseproxy.NewTransport(), page: new(debugpage.Page)}
	reports := new(loadstats.Table)
	var err error
	g.pool, err = router.New(o.policy.config(router.Config{
		Endpoints: endpoints, Reports: reports, Seed: o.seed, Hooks: hooks(g.page, o, stderr),
	}))
	if err != nil {
		return nil, err
	}
	g.page.Pool = g.pool
	g.handler = &reverseproxy.Handler{
		Router: g.pool, Queue: o.policy.queue(g.pool), Hasher: o.policy.hasher(), Scope: reverseproxy.BearerTenant,
		Transport: g.transport, Responses: new(reverseproxy.ResponseTable),
	}
	g.poller = &loadstats.Poller{Reporter: new(scrape.Scraper), Table: reports, Endpoints: g.endpointIDs}
	return g, nil
}

func (g *gateway) endpointIDs() []string {
	var ids []string
	for _, s := range g.pool.Stats() {
		ids = append(ids, s.Endpoint.ID)
	}
	return ids
}
