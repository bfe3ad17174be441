package workload_test

import (
	"testing"

	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/tokenprefix"
)

// BenchmarkDerivations derives each form of a prompt of about 35,000 tokens.
func BenchmarkDerivations(b *testing.B) {
	s := newSwarm(b, workload.SwarmConfig{Seed: 1}).Stream(0)
	var r workload.Request
	for range 5 {
		_, r = s.Next()
	}
	b.Run("EngineBlocks", func(b *testing.B) {
		var blocks []uint64
		b.ReportAllocs()
		for b.Loop() {
			blocks = r.EngineBlocks(blocks[:0], 16)
		}
	})
	b.Run("Signature", func(b *testing.B) {
		var sig tokenprefix.Signature
		b.ReportAllocs()
		for b.Loop() {
			r.Prompt.Signature(&sig, 256)
		}
	})
	b.Run("ChatBody", func(b *testing.B) {
		var body []byte
		b.ReportAllocs()
		for b.Loop() {
			body = r.Prompt.ChatBody(body[:0], "model", r.Answer.Tokens, true)
		}
		b.SetBytes(int64(len(body)))
	})
}
