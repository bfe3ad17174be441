package ring_test
import "testing"
func BenchmarkEmpty(b *testing.B) {
	key := uint64(0); sum := uint64(0)
	for b.Loop() { sum += key; key++ }
	_ = sum
}
