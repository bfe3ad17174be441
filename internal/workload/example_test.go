package workload_test

import (
	"fmt"
	"log"

	"github.com/warmroute/warmroute/internal/workload"
)

func ExampleSwarm() {
	swarm, err := workload.NewSwarm(workload.SwarmConfig{Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	agent := swarm.Stream(0)
	for range 3 {
		think, r := agent.Next()
		fmt.Printf("%s turn %d after %v: %d tokens in, %d out\n", r.Session, r.Turn, think, r.Prompt.Tokens(), r.Answer.Tokens)
	}
	// Output:
	// stream-0-0 turn 0 after 773ms: 27905 tokens in, 158 out
	// stream-0-0 turn 1 after 644ms: 29722 tokens in, 143 out
	// stream-0-0 turn 2 after 445ms: 30301 tokens in, 130 out
}
