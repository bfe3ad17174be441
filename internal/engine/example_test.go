package engine_test

import (
	"fmt"
	"log"

	"github.com/warmroute/warmroute/internal/engine"
)

// A simulator jumps from the end of one iteration to the end of the next.
func Example() {
	e, err := engine.New(engine.Config{})
	if err != nil {
		log.Fatal(err)
	}
	blocks := make([]uint64, 100) // of 16 tokens; a real caller hashes the prompt
	for i := range blocks {
		blocks[i] = uint64(i)
	}
	for id := range int64(2) { // the same prompt twice
		now, _ := e.Next()
		if err := e.Submit(now, engine.Request{ID: id, Blocks: blocks, PromptTokens: 1_600, OutputTokens: 1}); err != nil {
			log.Fatal(err)
		}
		for at, busy := e.Next(); busy; at, busy = e.Next() {
			for _, ev := range e.Step(at, nil) {
				if ev.Kind == engine.FirstToken {
					fmt.Printf("request %d: %d tokens cached, first token after %v\n", id, ev.CachedTokens, ev.At-now)
				}
			}
		}
	}
	// Output:
	// request 0: 0 tokens cached, first token after 136.408ms
	// request 1: 1584 tokens cached, first token after 16.228019ms
}
