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
		// Each has a loop of its own: a call through a variable would cost as
		// much as the fastest of them.
		b.Run(fmt.Sprintf("warmroute_ring/members=%d", n), func(b *testing.B) {
			i, sum := uint64(0), 0
			for b.Loop() {
				sum += r.Lookup(i)
				i++
			}
			_ = sum
		})
		b.Run(fmt.Sprintf("go-jump/members=%d", n), func(b *testing.B) {
			i, sum := uint64(0), int32(0)
			for b.Loop() {
				sum += jump.Hash(i, n)
				i++
			}
			_ = sum
		})
		b.Run(fmt.Sprintf("go-rendezvous/members=%d", n), func(b *testing.B) {
			i, sum := uint64(0), 0
			for b.Loop() {
				sum += len(hrw.Lookup(keys[i&(1<<12-1)]))
				i++
			}
			_ = sum
		})
		b.Run(fmt.Sprintf("serialx_hashring/members=%d", n), func(b *testing.B) {
			i, sum := uint64(0), 0
			for b.Loop() {
				id, _ := points.GetNode(keys[i&(1<<12-1)])
				sum += len(id)
				i++
			}
			_ = sum
		})
	}
}
