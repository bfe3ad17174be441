package engine_test

import (
	"fmt"
	"testing"

	"github.com/warmroute/warmroute/internal/engine"
	"github.com/warmroute/warmroute/internal/workload"
)

// BenchmarkEngine_Prompt runs one prompt of 1,875 blocks to its first token:
// cold ones push each other out of the cache, warm ones find it.
func BenchmarkEngine_Prompt(b *testing.B) {
	for _, warm := range []bool{false, true} {
		b.Run(fmt.Sprintf("tokens=30000/warm=%v", warm), func(b *testing.B) {
			e := newEngine(b, engine.Config{})
			blocks := make([]uint64, 1875)
			var events []engine.Event
			id := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				id++
				for i := range blocks {
					blocks[i] = uint64(i) + 1
					if !warm {
						blocks[i] += uint64(id) << 32
					}
				}
				at, _ := e.Next()
				submit(b, e, at, prompt(id, blocks, 30_000, 1))
				for at, busy := e.Next(); busy; at, busy = e.Next() {
					events = e.Step(at, events[:0])
				}
			}
		})
	}
}

// BenchmarkEngine_Decode is one iteration in which all sequences decode.
func BenchmarkEngine_Decode(b *testing.B) {
	for _, n := range []int{16, 128} {
		b.Run(fmt.Sprintf("sequences=%d", n), func(b *testing.B) {
			e := newEngine(b, engine.Config{KVTokens: 1 << 30})
			for id := range int64(n) {
				submit(b, e, 0, prompt(id, nil, 10, 1<<29/n))
			}
			var events []engine.Event
			b.ReportAllocs()
			for b.Loop() {
				at, _ := e.Next()
				events = e.Step(at, events[:0])
			}
		})
	}
}

// BenchmarkCluster simulates 12,000 requests with prompts of 12,000 tokens on
// average, 340 tokens out, on 8 engines close to saturation.
func BenchmarkCluster(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		w, err := workload.NewChat(workload.ChatConfig{
			Rate:   4.5,
			Static: workload.Range{Min: 500, Max: 1_500},
			Turns:  workload.Range{Min: 1, Max: 3},
			User:   workload.Range{Min: 500, Max: 14_000},
			Answer: workload.Range{Min: 80, Max: 600},
		})
		if err != nil {
			b.Fatal(err)
		}
		arrivals := make([]workload.Arrival, 12_000)
		tokens := 0
		for i := range arrivals {
			arrivals[i] = w.Next()
			tokens += arrivals[i].Prompt.Tokens()
		}
		c := newCluster(b, 8, leastRequest)
		c.runTrace(b, arrivals)
		b.ReportMetric(float64(tokens)/12_000, "tokens/prompt")
		b.ReportMetric(c.result(0).mean, "ttft-ms")
		if r := c.result(0); r.requests != 12_000 {
			b.Fatalf("%d requests answered, want 12000", r.requests)
		}
	}
}

// TestEngine_DecodeAllocatesNothing holds the loop that a simulation spends its time in.
func TestEngine_DecodeAllocatesNothing(t *testing.T) {
	e := newEngine(t, engine.Config{})
	for id := range int64(20) {
		submit(t, e, 0, engine.Request{ID: id, PromptTokens: 10, OutputTokens: 10_000, Stream: true})
	}
	events := make([]engine.Event, 0, 64)
	for range 5 { // past the prefill
		at, _ := e.Next()
		events = e.Step(at, events[:0])
	}
	got := testing.AllocsPerRun(100, func() {
		at, _ := e.Next()
		events = e.Step(at, events[:0])
	})
	if got != 0 || len(events) != 20 {
		t.Errorf("Step of 20 decoding sequences = %v allocations, %d events, want 0 and 20", got, len(events))
	}
}
