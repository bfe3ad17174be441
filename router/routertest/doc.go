// Package routertest is for the tests of those who use the router: fake engines
// that speak HTTP and behave like real ones, pools whose time stands still, a
// simulator, and a suite that every policy should pass.
//
// An [Engine] is to an LLM engine what httptest.Server is to a web server: it
// listens on a loopback port, answers OpenAI's chat and completion requests with
// the delays of a real engine under that load, and caches prefixes as vLLM does.
//
//	e := routertest.NewEngine(routertest.EngineConfig{Speed: 100})
//	defer e.Close()
//	... send requests to e.URL ...
//
// A [Fleet] is a pool without engines whose time stands still, for tests of
// single decisions:
//
//	f := routertest.NewFleet(t, 4, router.Config{})
//	home := f.Serve(routertest.Prompt(1, 8192, 1024)).Endpoint.ID
//	f.SetInFlight(home, 100)
//	d := f.Pick(routertest.Prompt(1, 8192, 2048))
//
// [Simulate] sends whole traces through a router and engines in virtual time.
// [TestPolicy] checks what a pool relies on in a policy. examples/policytest shows
// how a gateway's CI uses them.
package routertest
