package router_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

func Example() {
	endpoints, err := router.ParseEndpoints("http://10.0.0.1:8000", "http://10.0.0.2:8000")
	if err != nil {
		log.Fatal(err)
	}
	pool, err := router.New(router.Config{Endpoints: endpoints})
	if err != nil {
		log.Fatal(err)
	}

	var hasher tokenprefix.Hasher
	var prompt tokenprefix.Signature
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"Hello"}]}`)
	if _, err := hasher.Body(&prompt, tokenprefix.Scope{Tenant: "a"}, body); err != nil {
		fmt.Println("no signature, the request goes by load:", err)
	}

	d, err := pool.Pick(router.Request{Prefix: &prompt})
	switch {
	case errors.Is(err, router.ErrSaturated):
		fmt.Println("503 with Retry-After")
	case err != nil:
		fmt.Println("503")
	default:
		outcome := router.Outcome{Abandoned: true} // until more is known: a panic is nobody's success
		defer func() { d.Release(outcome) }()      // whatever happens
		d.FirstToken()                             // at the first byte of a streamed answer's body
		fmt.Println(d.Reason, d.HomeRank)
		outcome = router.Outcome{StatusCode: 200}
	}
	// Output: cold 0
}

// A request that may wait is held for as long as its endpoint has others to compute
// and no other is better. Its context says how long that may take.
func ExamplePool_Acquire() {
	pool, err := router.New(router.Config{
		Endpoints: []router.Endpoint{{ID: "a", Weight: 1}}, MaxInFlight: 1,
		Queue: router.Queue{MaxLength: 100, MaxWait: 30 * time.Second},
	})
	if err != nil {
		log.Fatal(err)
	}
	first, err := pool.Acquire(context.Background(), router.Request{})
	if err != nil {
		log.Fatal(err)
	}
	go first.Release(router.Outcome{StatusCode: 200}) // makes room, sooner or later

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d, err := pool.Acquire(ctx, router.Request{Tenant: "a"})
	switch {
	case errors.Is(err, router.ErrSaturated):
		fmt.Println("503 with Retry-After: the queue is full, or it took too long")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		fmt.Println("nobody is waiting for the answer")
	case err != nil:
		fmt.Println("503")
	default:
		defer d.Release(router.Outcome{StatusCode: 200})
		fmt.Println("sent to", d.Endpoint.ID)
	}
	// Output: sent to a
}

func ExampleHooks() {
	pool, err := router.New(router.Config{
		Endpoints: []router.Endpoint{{ID: "a", Weight: 1}},
		Hooks: router.Hooks{
			Decided:  func(d *router.Decision) { fmt.Println(d) },
			Released: func(d *router.Decision, o router.Outcome) { fmt.Println("status", o.StatusCode) },
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	d, err := pool.Pick(router.Request{})
	if err != nil {
		log.Fatal(err)
	}
	d.Release(router.Outcome{StatusCode: 200})
	// Output:
	// a: balanced, 0 of 0 tokens cached (best 0), 0 in flight (limit 9)
	// status 200
}

// Two gateways in front of the same engines: each hears what the other decides, so
// that the next turn of a conversation is warm at either. Between processes the
// events travel as AppendBinary and UnmarshalBinary make them.
func ExampleBus() {
	var bus router.Bus
	var gateways [2]*router.Pool
	for i := range gateways {
		pool, err := router.New(router.Config{
			Endpoints: []router.Endpoint{{ID: "a", Weight: 1}, {ID: "b", Weight: 1}},
			Origin:    uint64(i + 1),
			Hooks:     router.Hooks{Announce: bus.Announce},
		})
		if err != nil {
			log.Fatal(err)
		}
		if err := bus.Join(pool); err != nil {
			log.Fatal(err)
		}
		gateways[i] = pool
	}

	var hasher tokenprefix.Hasher
	var prompt tokenprefix.Signature
	hasher.Text(&prompt, tokenprefix.Scope{}, []byte(strings.Repeat("You are the help desk. ", 1000)))
	for _, pool := range gateways {
		d, err := pool.Pick(router.Request{Prefix: &prompt})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Reason, d.CachedTokens)
		d.Release(router.Outcome{StatusCode: 200})
	}
	// Output:
	// cold 0
	// warm 5632
}

// An endpoint leaves when it has answered what it was sent.
func ExamplePool_WaitIdle() {
	pool, err := router.New(router.Config{Endpoints: []router.Endpoint{{ID: "a", Weight: 1}}})
	if err != nil {
		log.Fatal(err)
	}
	d, err := pool.Pick(router.Request{})
	if err != nil {
		log.Fatal(err)
	}

	// Weight 0: no new requests from here on.
	if err := pool.SetEndpoints([]router.Endpoint{{ID: "a"}, {ID: "b", Weight: 1}}); err != nil {
		log.Fatal(err)
	}
	go d.Release(router.Outcome{StatusCode: 200}) // at the end of its answer
	if err := pool.WaitIdle(context.Background(), "a"); err != nil {
		log.Fatal(err)
	}
	if err := pool.SetEndpoints([]router.Endpoint{{ID: "b", Weight: 1}}); err != nil {
		log.Fatal(err)
	}
	for _, s := range pool.Stats() {
		fmt.Println(s.Endpoint.ID)
	}
	// Output: b
}

// Engines that compute prompts, and others that generate the answers to them.
func ExamplePrefillDecode() {
	pool := func(ids ...string) *router.Pool {
		endpoints := make([]router.Endpoint, len(ids))
		for i, id := range ids {
			endpoints[i] = router.Endpoint{ID: id, Weight: 1}
		}
		p, err := router.New(router.Config{Endpoints: endpoints})
		if err != nil {
			log.Fatal(err)
		}
		return p
	}
	r := &router.PrefillDecode{Prefill: pool("p1", "p2"), Decode: pool("d1")}

	pair, err := r.Pick(router.Request{Key: "session"})
	if err != nil {
		log.Fatal(err)
	}
	outcome := router.Outcome{Abandoned: true}
	defer func() { pair.Release(outcome) }()
	fmt.Println(pair.Prefill.Reason, pair.Decode.Endpoint.ID)
	pair.FirstToken() // the place at the prefill endpoint is free again
	outcome = router.Outcome{StatusCode: 200}
	// Output: cold d1
}
