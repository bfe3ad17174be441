package router_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// BenchmarkAcquire measures what the queue costs a request that need not wait
// (compare BenchmarkPick), and a pass over a queue in which nobody can be sent.
func BenchmarkAcquire(b *testing.B) {
	const endpoints = 64
	for _, queued := range []int{0, 100, 1000} {
		b.Run(fmt.Sprintf("queued=%d", queued), func(b *testing.B) {
			p, prompts := benchPool(b, endpoints), traffic(endpoints)
			at := time.Unix(1_000_000, 0)
			for i := range prompts {
				at = at.Add(time.Millisecond)
				cycle(b, p, &prompts[i], at)
			}
			b.ReportAllocs()
			if queued == 0 {
				i := 0
				for b.Loop() {
					i++
					at = at.Add(time.Millisecond)
					uncontended(b, p, &prompts[i%len(prompts)], at)
				}
				return
			}
			at = occupy(b, p, endpoints, at)
			for i := range queued {
				p.Enqueue(router.Request{Prefix: &prompts[i*7%len(prompts)], At: at}, func(*router.Decision, error) {
					b.Error("a request in the queue was sent")
				})
			}
			if n := p.QueueStatsAt(at).Length; n != queued {
				b.Fatalf("%d requests are held, want %d", n, queued)
			}
			for b.Loop() {
				p.DispatchAt(at)
			}
		})
	}
}

func uncontended(b testing.TB, p *router.Pool, s *tokenprefix.Signature, at time.Time) {
	d, err := p.Acquire(context.Background(), router.Request{Prefix: s, At: at})
	if err != nil {
		b.Error(err)
		return
	}
	d.FirstTokenAt(at)
	d.ReleaseAt(at, router.Outcome{})
}

// occupy lets every endpoint compute a prompt that takes long, once it is known
// how long prompts take.
func occupy(b testing.TB, p *router.Pool, endpoints int, at time.Time) time.Time {
	only := func(i int) func(*router.Endpoint) bool {
		id := fmt.Sprintf("e%04d", i)
		return func(e *router.Endpoint) bool { return e.ID == id }
	}
	for i := range endpoints {
		d, err := p.Pick(router.Request{Prefix: &tokenprefix.Signature{Tokens: 20_000}, Eligible: only(i), At: at})
		if err != nil {
			b.Fatal(err)
		}
		d.FirstTokenAt(at.Add(2 * time.Second))
		d.ReleaseAt(at.Add(2*time.Second), router.Outcome{})
	}
	at = at.Add(2 * time.Second)
	for i := range endpoints {
		if _, err := p.Pick(router.Request{Prefix: &tokenprefix.Signature{Tokens: 300_000}, Eligible: only(i), At: at}); err != nil {
			b.Fatal(err)
		}
	}
	return at
}
