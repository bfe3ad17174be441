package routertest_test

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"strings"

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
