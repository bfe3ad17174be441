package ring_test

import (
	"fmt"
	"testing"

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
