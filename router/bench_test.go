package router_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// traffic is a fixed set of prompts of up to 30,000 tokens: turns of
// conversations under shared system prompts, more than the endpoints can cache.
func traffic(endpoints int) []tokenprefix.Signature {
	const (
		systemBlocks = 98
		turns        = 4
		turnBlocks   = 5
	)
	rng := rand.New(rand.NewPCG(1, uint64(endpoints)))
	conversations := 100 * endpoints
	var prompts []tokenprefix.Signature
	systems := make([][]uint64, max(8, endpoints))
	for i := range systems {
		systems[i] = make([]uint64, systemBlocks)
		for k := range systems[i] {
			systems[i][k] = rng.Uint64()
		}
	}
	for range conversations {
		blocks := append([]uint64(nil), systems[rng.IntN(len(systems))]...)
		for turn := range turns {
			history := len(blocks)
			for range turnBlocks {
				blocks = append(blocks, rng.Uint64())
			}
			s := tokenprefix.Signature{
				Blocks: blocks[:len(blocks):len(blocks)], Tail: rng.Uint64(), Tokens: len(blocks)*256 + 100,
				BlockTokens: 256, SystemBlocks: systemBlocks,
			}
			if turn > 0 {
				s.HistoryBlocks = history
			}
			prompts = append(prompts, s)
		}
	}
	rng.Shuffle(len(prompts), func(i, j int) { prompts[i], prompts[j] = prompts[j], prompts[i] })
	return prompts
}

func benchPool(b testing.TB, endpoints int) *router.Pool {
	c := router.Config{KVCacheTokens: 400_000}
	for i := range endpoints {
		c.Endpoints = append(c.Endpoints, router.Endpoint{ID: fmt.Sprintf("e%04d", i), Weight: 1})
	}
	p, err := router.New(c)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// cycle is the life of a request as far as the router sees it.
func cycle(b testing.TB, p *router.Pool, s *tokenprefix.Signature, at time.Time) {
	d, err := p.Pick(router.Request{Prefix: s, At: at})
	if err != nil {
		b.Error(err)
		return
	}
	d.FirstTokenAt(at)
	d.ReleaseAt(at, router.Outcome{})
}

func BenchmarkPick(b *testing.B) {
	for _, n := range []int{8, 64, 256, 1024} {
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			p, prompts := benchPool(b, n), traffic(n)
			at := time.Unix(1_000_000, 0)
			for i := range prompts {
				cycle(b, p, &prompts[i], at.Add(time.Duration(i)*time.Millisecond))
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				cycle(b, p, &prompts[i%len(prompts)], at.Add(time.Duration(len(prompts)+i)*time.Millisecond))
			}
		})
	}
}

// BenchmarkPickLearning is the same where nobody tells how large the caches are and
// answers tell what was found in them.
func BenchmarkPickLearning(b *testing.B) {
	for _, n := range []int{8, 64} {
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			p, err := router.New(router.Config{Endpoints: fleet(n)})
			if err != nil {
				b.Fatal(err)
			}
			prompts := traffic(n)
			at := time.Unix(1_000_000, 0)
			learn := func(s *tokenprefix.Signature) {
				at = at.Add(time.Millisecond)
				d, err := p.Pick(router.Request{Prefix: s, At: at})
				if err != nil {
					b.Fatal(err)
				}
				d.FirstTokenAt(at)
				d.ReleaseAt(at, router.Outcome{
					PromptTokens: loadstats.Known(int64(d.PromptTokens)), CachedTokens: loadstats.Known(int64(d.CachedTokens)),
				})
			}
			for i := range prompts {
				learn(&prompts[i])
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				learn(&prompts[i%len(prompts)])
			}
		})
	}
}

// BenchmarkPickParallel is the same as BenchmarkPick on all cores at once. What it comes to depends on
// how far these are from each other: see BenchmarkCacheLine.
func BenchmarkPickParallel(b *testing.B) {
	for _, n := range []int{8, 64, 256, 1024} {
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			p, prompts := benchPool(b, n), traffic(n)
			at := time.Unix(1_000_000, 0)
			for i := range prompts {
				cycle(b, p, &prompts[i], at.Add(time.Duration(i)*time.Millisecond))
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				i := rand.IntN(len(prompts))
				for pb.Next() {
					i++
					cycle(b, p, &prompts[i%len(prompts)], at.Add(time.Duration(len(prompts)+i)*time.Millisecond))
				}
			})
		})
	}
}

// BenchmarkCacheLine is the time that a changed cache line takes from one core to
// another: the unit of what sharing costs on the machine at hand.
func BenchmarkCacheLine(b *testing.B) {
	if runtime.GOMAXPROCS(0) < 2 {
		b.Skip("needs two cores")
	}
	var turn atomic.Int64
	done := make(chan struct{})
	player := func(first int64) {
		for i := first; i < int64(b.N); i += 2 {
			for turn.Load() != i {
			}
			turn.Store(i + 1)
		}
	}
	go func() {
		player(1)
		close(done)
	}()
	player(0)
	<-done
}

// BenchmarkRequestParallel is what a gateway does with a request: its body of 120
// KB to a signature, the decision, and back to idle.
func BenchmarkRequestParallel(b *testing.B) {
	p := benchPool(b, 64)
	rng := rand.New(rand.NewPCG(1, 1))
	words := func(n int) string {
		s := make([]byte, n)
		for i := range s {
			s[i] = "abcdefghijklmnop "[rng.IntN(17)]
		}
		return string(s)
	}
	system := words(96 << 10)
	bodies := make([][]byte, 64)
	for i := range bodies {
		bodies[i] = fmt.Appendf(nil, `{"model":"m","messages":[{"role":"system","content":%q},{"role":"user","content":%q}]}`, system, words(24<<10))
	}
	var h tokenprefix.Hasher
	b.SetBytes(int64(len(bodies[0])))
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		var s tokenprefix.Signature
		for i := rand.IntN(len(bodies)); pb.Next(); i++ {
			if _, err := h.Body(&s, tokenprefix.Scope{}, bodies[i%len(bodies)]); err != nil {
				b.Error(err)
				return
			}
			d, err := p.Pick(router.Request{Prefix: &s})
			if err != nil {
				b.Error(err)
				return
			}
			d.FirstToken()
			d.Release(router.Outcome{})
		}
	})
}

// BenchmarkIndexMemory reports the heap that the prefix index of a full pool
// takes.
func BenchmarkIndexMemory(b *testing.B) {
	for b.Loop() {
		prompts := traffic(64)
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		p := benchPool(b, 64)
		at := time.Unix(1_000_000, 0)
		for i := range prompts {
			cycle(b, p, &prompts[i], at.Add(time.Duration(i)*time.Millisecond))
		}
		used := heap() - before
		blocks := 0
		for _, s := range p.StatsAt(at) {
			blocks += s.Load.CachedTokens / router.BlockTokens
		}
		b.ReportMetric(float64(used)/(1<<20), "MiB")
		b.ReportMetric(float64(blocks), "blocks")
		runtime.KeepAlive(prompts)
	}
}
