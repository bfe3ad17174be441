package balancer_test

import (
	"fmt"
	"log"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
)

// A policy is tested with a table: candidates in home order and their loads.
func ExampleAffinity() {
	info := &balancer.PickInfo{
		PromptTokens: 30_000,
		Keyed:        true,
		Continues:    true,
		Candidates: []balancer.Candidate{
			{ID: "a", Weight: 1},
			{ID: "b", Weight: 1, CachedTokens: 28_000, Load: loadstats.Load{Backlog: 4_000}},
		},
	}
	c, err := balancer.Affinity{}.Choose(info)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Candidates[c.Index].ID, c.Reason, c.Cost.Total)

	info.Candidates[1].Load.Backlog = 200_000 // more than ten times the prompt
	c, err = balancer.Affinity{}.Choose(info)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Candidates[c.Index].ID, c.Reason, c.Cost.Total)
	// Output:
	// b warm 6000
	// a spillover 170000
}
