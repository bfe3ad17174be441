package main

import (
	"time"

	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/router/routertest"
)

// model is the name of the model that the embedded engines serve.
const model = "demo"

// kvTokens is the size of the KV cache of an embedded engine.
const kvTokens = 400_000

// fleet is a number of embedded engines.
type fleet []*routertest.Engine

func startFleet(n int, speed float64) fleet {
	f := make(fleet, n)
	for i := range f {
		f[i] = routertest.NewEngine(routertest.EngineConfig{Model: model, Speed: speed, KVCacheTokens: kvTokens})
	}
	return f
}

func (f fleet) endpoints() ([]router.Endpoint, error) {
	urls := make([]string, len(f))
	for i, e := range f {
		urls[i] = e.URL
	}
	return router.ParseEndpoints(urls...)
}

// busy returns how long each engine has computed, in model time.
func (f fleet) busy() []time.Duration {
	b := make([]time.Duration, len(f))
	for i, e := range f {
		b[i] = e.Stats().Busy
	}
	return b
}

func (f fleet) close() {
	for _, e := range f {
		e.Close()
	}
}
