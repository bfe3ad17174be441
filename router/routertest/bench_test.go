package routertest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/router/routertest"
)

// chatBody is a conversation of 40 turns, 130 KB.
func chatBody() string {
	turns := make([]string, 40)
	for i := range turns {
		turns[i] = strings.Repeat("All \"parcels\"\nare weighed. ", 110)
	}
	return chat("m", "Be brief.", `,"max_tokens":100,"stream":true`, turns...)
}

func BenchmarkParsePrompt(b *testing.B) {
	body := []byte(chatBody())
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, err := routertest.ParsePrompt(body, true); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEngine_Chat is what a request costs the process that runs the engine
// and the client, with model time as short as it gets.
func BenchmarkEngine_Chat(b *testing.B) {
	for _, c := range []struct{ name, body string }{
		{"body=100B", chat("m", "Be brief.", `,"max_tokens":100,"stream":true`, "Why?")},
		{"body=130KB", chatBody()},
	} {
		b.Run(fmt.Sprintf("%s/tokens=100", c.name), func(b *testing.B) {
			e := start(b, routertest.EngineConfig{Speed: 1e6})
			b.ReportAllocs()
			for b.Loop() {
				res, err := http.Post(e.URL+"/v1/chat/completions", "application/json", strings.NewReader(c.body))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					b.Fatal(err)
				}
				res.Body.Close()
			}
		})
	}
}
