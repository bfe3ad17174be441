package bench

import (
	"fmt"
	"testing"

	"github.com/cespare/xxhash/v2"
	jump "github.com/dgryski/go-jump"
	"github.com/dgryski/go-rendezvous"
	"github.com/serialx/hashring"

	"github.com/warmroute/warmroute/ring"
)

// BenchmarkPlacement looks up the home of a key in fleets of equal members.
// go-jump and Ring are given numbers, the others the strings they want.
func BenchmarkPlacement(b *testing.B) {
	keys := make([]string, 1<<12)
	for i := range keys {
		keys[i] = fmt.Sprintf("%032x", i*0x9e3779b9)
	}
	for _, n := range []int{8, 64, 256, 1024} {
		ids := make([]string, n)
		members := make([]ring.Member, n)
		for i := range ids {
			ids[i] = fmt.Sprintf("endpoint-%04d:8000", i)
			members[i] = ring.Member{ID: ids[i], Weight: 1}
		}
		r, err := ring.New(members)
		if err != nil {
			b.Fatal(err)
		}
		for key := range uint64(1 << 20) {
			r.Lookup(key)
		}
		hrw := rendezvous.New(ids, xxhash.Sum64String)
		points := hashring.New(ids)
		for _, c := range []struct {
			name   string
			lookup func(i uint64) int
		}{
			{"warmroute_ring", func(i uint64) int { return r.Lookup(i) }},
			{"go-jump", func(i uint64) int { return int(jump.Hash(i, n)) }},
			{"go-rendezvous", func(i uint64) int { return len(hrw.Lookup(keys[i&(1<<12-1)])) }},
			{"serialx_hashring", func(i uint64) int {
				id, _ := points.GetNode(keys[i&(1<<12-1)])
				return len(id)
			}},
		} {
			b.Run(fmt.Sprintf("%s/members=%d", c.name, n), func(b *testing.B) {
				i, sum := uint64(0), 0
				b.ReportAllocs()
				for b.Loop() {
					sum += c.lookup(i)
					i++
				}
				_ = sum
			})
		}
	}
}
