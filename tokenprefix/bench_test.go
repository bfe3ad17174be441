package tokenprefix_test

import (
	"math/rand/v2"
	"testing"

	"github.com/warmroute/warmroute/tokenprefix"
)

// chat120KB is the body of the main benchmark: 40 messages, the first of 60 KB.
func chat120KB() []byte {
	r := rand.New(rand.NewPCG(1, 1))
	return chatOf(r, words(r, 60_000), 39, 56_000, words)
}

func BenchmarkBody(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, bench := range []struct {
		name string
		body []byte
	}{
		{"chat_120KB", chat120KB()},
		{"chat_1MB_image", imageOf(r, 1_000_000)},
		{"chat_cjk_120KB", chatOf(r, cjk(r, 60_000), 39, 58_000, cjk)},
		{"chat_toolresults_120KB", chatOf(r, toolResults(r, 65_000), 39, 63_000, toolResults)},
		{"chat_escapes_120KB", escaped(chatOf(r, cjk(r, 30_000), 39, 29_000, cjk))},
		{"tools_40KB", toolsOf(r, 40_000)},
		{"completions_ids_30k", marshal(map[string]any{"model": "acme/base-7b", "prompt": idsOf(r, 30_000)})},
	} {
		b.Run(bench.name, func(b *testing.B) {
			benchmarkBody(b, &tokenprefix.Hasher{}, bench.body)
		})
	}
	b.Run("chat_120KB_keyed", func(b *testing.B) {
		benchmarkBody(b, &tokenprefix.Hasher{Key: []byte("0123456789abcdef0123456789abcdef")}, chat120KB())
	})
}

func benchmarkBody(b *testing.B, h *tokenprefix.Hasher, body []byte) {
	var sig tokenprefix.Signature
	scope := tokenprefix.Scope{Tenant: "tenant-a"}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Body(&sig, scope, body); err != nil || sig.Tail == 0 {
			b.Fatal("no signature", err)
		}
	}
}

func BenchmarkTokens(b *testing.B) {
	ids := idsOf(rand.New(rand.NewPCG(1, 3)), 30_000)
	b.Run("30k", func(b *testing.B) {
		var h tokenprefix.Hasher
		var sig tokenprefix.Signature
		b.SetBytes(int64(4 * len(ids)))
		b.ReportAllocs()
		for b.Loop() {
			h.Tokens(&sig, tokenprefix.Scope{Model: "acme/base-7b"}, ids)
		}
	})
}

func BenchmarkText(b *testing.B) {
	text := []byte(words(rand.New(rand.NewPCG(1, 4)), 120_000))
	b.Run("120KB", func(b *testing.B) {
		var h tokenprefix.Hasher
		var sig tokenprefix.Signature
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			h.Text(&sig, tokenprefix.Scope{Model: "acme/base-7b"}, text)
		}
	})
}
