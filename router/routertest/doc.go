// Package routertest is for the tests of those who use the router: fake engines
// that speak HTTP and behave like real ones, and a suite that every policy
// should pass.
//
// An [Engine] is to an LLM engine what httptest.Server is to a web server: it
// listens on a loopback port, answers OpenAI's chat and completion requests with
// the delays of a real engine under that load, and caches prefixes as vLLM does.
//
//	e := routertest.NewEngine(routertest.EngineConfig{Speed: 100})
//	defer e.Close()
//	... send requests to e.URL ...
package routertest
