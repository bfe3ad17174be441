package ring_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmroute/warmroute/ring"
)

var sizes = []int{8, 64, 256, 1024, 4096}

// fleet returns n members of weight 1.
func fleet(n int) []ring.Member {
	members := make([]ring.Member, n)
	for i := range members {
		members[i] = ring.Member{ID: fmt.Sprintf("endpoint-%04d.engines:8000", i), Weight: 1}
	}
	return members
}

// warm returns a ring of n members whose slots are all computed.
func warm(tb testing.TB, n int) *ring.Ring {
	tb.Helper()
	r, err := ring.New(fleet(n))
	if err != nil {
		tb.Fatal(err)
	}
	for key := range uint64(1 << 20) {
		r.Lookup(key)
	}
	return r
}

func BenchmarkLookup(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			r := warm(b, n)
			key := uint64(0)
			sum := 0
			b.ReportAllocs()
			for b.Loop() {
				sum += r.Lookup(key)
				key++
			}
			_ = sum
		})
	}
}

func BenchmarkWalk4(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			r := warm(b, n)
			dst := make([]int, 0, 4)
			key := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				dst = r.AppendWalk(dst[:0], key, 4)
				key++
			}
		})
	}
}

// BenchmarkWalkSeq4 is BenchmarkWalk4 in the form of a range loop.
func BenchmarkWalkSeq4(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			r := warm(b, n)
			key := uint64(0)
			sum := 0
			b.ReportAllocs()
			for b.Loop() {
				left := 4
				for i := range r.Walk(key) {
					sum += i
					if left--; left == 0 {
						break
					}
				}
				key++
			}
			_ = sum
		})
	}
}

func BenchmarkFirstTouch(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			r, err := ring.New(fleet(n))
			if err != nil {
				b.Fatal(err)
			}
			slot := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				ring.Compute(r, slot&0xffff)
				slot++
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			members := fleet(n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ring.New(members); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWith and BenchmarkWithout change one member of 1,024.
func BenchmarkWith(b *testing.B) {
	r := warm(b, 1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.With(ring.Member{ID: "joined", Weight: 1}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWithout(b *testing.B) {
	r := warm(b, 1024)
	id := r.Member(500).ID
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Without(id); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLookupWhileUpdating reads through an atomic pointer while a writer
// makes rings of 1,024 members and publishes a warm one each time, a thousand
// times a second and as fast as it can; and, as the measure, while nobody does.
func BenchmarkLookupWhileUpdating(b *testing.B) {
	rings := [2]*ring.Ring{warm(b, 1024), warm(b, 1024)}
	var current atomic.Pointer[ring.Ring]
	current.Store(rings[0])
	read := func(b *testing.B) {
		key := uint64(0)
		sum := 0
		for b.Loop() {
			sum += current.Load().Lookup(key)
			key++
		}
		_ = sum
	}
	update := func(pause time.Duration) func(b *testing.B) {
		return func(b *testing.B) {
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := rings[0].With(ring.Member{ID: "joined", Weight: 1}); err != nil {
						b.Error(err)
						return
					}
					current.Store(rings[i%2])
					time.Sleep(pause)
				}
			}()
			read(b)
			close(stop)
			<-stopped
		}
	}
	b.Run("quiet", read)
	b.Run("updating=1ms", update(time.Millisecond))
	b.Run("updating=always", update(0))
}

// BenchmarkBoundedPick acquires and releases a place: Zipf keys, 16 in flight a
// member whatever the number of goroutines, the oldest released first.
func BenchmarkBoundedPick(b *testing.B) {
	type stream struct {
		keys   []uint64
		flying []int
	}
	for _, n := range []int{8, 64, 256, 1024} {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			bound, err := warm(b, n).Bound(ring.LoadBound{Factor: 1.25})
			if err != nil {
				b.Fatal(err)
			}
			streams := make([]stream, runtime.GOMAXPROCS(0))
			for g := range streams {
				s := stream{make([]uint64, 1<<16), make([]int, 16*n/len(streams))}
				next := zipf(uint64(g))
				for i := range s.keys {
					s.keys[i] = next()
				}
				for i := range s.flying {
					s.flying[i] = bound.Acquire(s.keys[i])
				}
				streams[g] = s
			}
			var started atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				s := streams[started.Add(1)-1]
				for i := 0; pb.Next(); i++ {
					place := &s.flying[i%len(s.flying)]
					if err := bound.Release(*place); err != nil {
						b.Error(err)
						return
					}
					*place = bound.Acquire(s.keys[i%len(s.keys)])
				}
			})
		})
	}
}
