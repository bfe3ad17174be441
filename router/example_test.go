package router_test

import (
	"context"
	"errors"
	"fmt"
	"log"
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
