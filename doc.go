// Package warmroute is the front page of a library that routes LLM inference
// requests to the engine replica (vLLM, SGLang, TensorRT-LLM, llama.cpp, ...)
// whose KV cache already holds the prompt's prefix, without overloading it.
//
// It holds no code. A request flows through the rooms in this order:
//
//		body ─▶ tokenprefix ─▶ Signature ─┐
//		                                  ├─▶ router.Pool.Pick ─▶ Decision ─▶ proxy ─▶ engine
//		endpoints ─▶ ring (home order) ───┤        │   ▲                         │
//		reports ─▶ loadstats ─────────────┘        ▼   │                         ▼
//		                                     balancer.Policy        FirstToken / Release(Outcome)
//		                                                                         │
//		                                   loadstats + prefix index ◀────────────┘
//
//	  - [github.com/warmroute/warmroute/tokenprefix]: prompt to signature, in one pass over the body
//	  - [github.com/warmroute/warmroute/ring]: key to members in preference order
//	  - [github.com/warmroute/warmroute/loadstats]: what is known about each endpoint now
//	  - [github.com/warmroute/warmroute/balancer]: candidates and loads to one choice
//	  - [github.com/warmroute/warmroute/router]: joins the four; the package most users import
//	  - [github.com/warmroute/warmroute/router/routertest]: fake engines and assertions for users' tests
package warmroute
