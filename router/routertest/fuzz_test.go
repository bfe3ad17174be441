package routertest

import "testing"

func FuzzPrompt(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url"}]}],"max_tokens":5}`), true)
	f.Add([]byte(`{"prompt":["a"],"max_completion_tokens":5}`), false)
	f.Fuzz(func(t *testing.T, body []byte, chat bool) {
		p, err := parsePrompt(body, chat)
		if err == nil && (p.tokens < 1 || p.maxTokens < 1 || len(p.blocks) > p.tokens/blockTokens) {
			t.Errorf("parsePrompt(%q) = %+v", body, p)
		}
	})
}
