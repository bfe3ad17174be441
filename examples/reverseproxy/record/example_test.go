package record_test

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/examples/reverseproxy/record"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// A gateway that records its traffic. The file is for
//
//	go run ./examples/simulate -trace traffic.jsonl
func ExampleRecorder() {
	pool, err := router.New(router.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	recorder, err := record.New(record.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	file, err := os.Create("traffic.jsonl")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	written := make(chan error, 1)
	go func() { written <- recorder.Run(ctx, file) }()

	handler := &reverseproxy.Handler{Router: pool, Hasher: new(tokenprefix.Hasher), Refine: recorder.Refine}
	fmt.Println(http.ListenAndServe(":8080", recorder.Handler(handler)))

	stop()
	fmt.Println(<-written, recorder.Stats())
}
