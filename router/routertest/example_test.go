package routertest_test

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router/routertest"
)

func ExampleNewEngine() {
	e := routertest.NewEngine(routertest.EngineConfig{Model: "m", Speed: 1000})
	defer e.Close()
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("Hello ", 100) + `"}],"max_tokens":3}`
	for range 2 {
		res, err := http.Post(e.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		var answer struct {
			Usage struct {
				PromptTokens int `json:"prompt_tokens"`
				Details      struct {
					CachedTokens int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
			log.Fatal(err)
		}
		res.Body.Close()
		fmt.Println(answer.Usage.PromptTokens, "tokens,", answer.Usage.Details.CachedTokens, "cached")
	}
	// Output:
	// 156 tokens, 0 cached
	// 156 tokens, 144 cached
}

// What would this policy do to this traffic? Two minutes of chat, and an engine that
// crashes on the way, take a moment.
func ExampleSimulate() {
	chat, err := routertest.Chat(routertest.ChatConfig{Seed: 1, Rate: 5, Duration: 2 * time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range []balancer.Policy{balancer.RoundRobin{}, balancer.Affinity{}} {
		r, err := routertest.Simulate(routertest.Scenario{
			Workload: chat,
			Policy:   p,
			Engines:  make([]routertest.EngineSpec, 4),
			Changes:  []routertest.Change{{At: time.Minute, Kind: routertest.Crash, Endpoint: 2}},
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%T: hit rate %.1f, mean TTFT %v\n", p, r.HitRate, r.TTFT.Mean.Round(10*time.Millisecond))
	}
	// Output:
	// balancer.RoundRobin: hit rate 0.6, mean TTFT 100ms
	// balancer.Affinity: hit rate 0.8, mean TTFT 60ms
}
