package loadstats_test

import (
	"errors"
	"math"
	"testing"

	"github.com/warmroute/warmroute/loadstats"
)

func TestKVCache_PublishedModels(t *testing.T) {
	// Bytes a token, computed by hand from the config.json of each model:
	// 2 · num_hidden_layers · num_key_value_heads · head_dim · 2 bytes, or
	// num_hidden_layers · (kv_lora_rank + qk_rope_head_dim) · 2 bytes.
	tests := []struct {
		model string
		want  int64
	}{
		{"meta-llama/Llama-3.1-8B", 131_072},            // 32 layers, 8 KV heads of 4096/32
		{"meta-llama/Llama-3.1-8B-Instruct", 131_072},   //
		{"meta-llama/Llama-3.3-70B-Instruct", 327_680},  // 80 layers, 8 KV heads of 8192/64
		{"Qwen/Qwen3-32B", 262_144},                     // 64 layers, 8 KV heads of 128
		{"deepseek-ai/DeepSeek-V3", 70_272},             // 61 layers, 512 + 64
		{"deepseek-ai/DeepSeek-R1", 70_272},             //
		{"mistralai/Mistral-7B-v0.3", 131_072},          // 32 layers, 8 KV heads of 4096/32
		{"MISTRALAI/mistral-7b-instruct-v0.3", 131_072}, //
	}
	for _, tt := range tests {
		k, err := loadstats.KVCacheOf(tt.model)
		if err != nil {
			t.Errorf("KVCacheOf(%q): %v", tt.model, err)
		}
		if got := k.BytesPerToken(); got != tt.want {
			t.Errorf("KVCacheOf(%q).BytesPerToken() = %d, want %d", tt.model, got, tt.want)
		}
		k.BytesPerValue = 1 // FP8
		if got := k.BytesPerToken(); got != tt.want/2 {
			t.Errorf("%s in FP8: BytesPerToken() = %d, want %d", tt.model, got, tt.want/2)
		}
	}
	if _, err := loadstats.KVCacheOf("acme/chat-8b"); !errors.Is(err, loadstats.ErrUnknownModel) {
		t.Errorf("KVCacheOf(acme/chat-8b): %v, want ErrUnknownModel", err)
	}
}

// The example that several texts on MLA print: 64 layers of 64 heads of 128 at
// 16,384 tokens in 16 bit, in 10^9 bytes.
func TestKVCache_TextbookExample(t *testing.T) {
	tests := []struct {
		name string
		k    loadstats.KVCache
		want float64
	}{
		{"multi-head", loadstats.KVCache{Layers: 64, KVHeads: 64, HeadDim: 128}, 34.36},
		{"one shared latent of 512 for key and value each", loadstats.KVCache{Layers: 64, KVHeads: 1, HeadDim: 512}, 2.15},
		{"one latent of 512 and 64 rotary values", loadstats.KVCache{Layers: 64, LatentDim: 512, RopeDim: 64}, 1.21},
	}
	for _, tt := range tests {
		got := float64(tt.k.BytesPerToken()*16_384) / 1e9
		if math.Abs(got-tt.want) > 0.005 {
			t.Errorf("%s: %.3f GB, want %.2f GB", tt.name, got, tt.want)
		}
	}
}

func TestKVCache_Tokens(t *testing.T) {
	llama := loadstats.KVCache{Layers: 80, KVHeads: 8, HeadDim: 128}
	tests := []struct {
		name  string
		k     loadstats.KVCache
		bytes int64
		want  int
	}{
		{"exact", llama, 10 * 327_680, 10},
		{"rounds down", llama, 10*327_680 - 1, 9},
		{"less than one", llama, 1, 0},
		{"zero", llama, 0, 0},
		{"negative", llama, -1, 0},
		{"no fields", loadstats.KVCache{}, 1 << 40, 0},
		{"half a byte", loadstats.KVCache{Layers: 1, KVHeads: 1, HeadDim: 1, BytesPerValue: 0.5}, 7, 7},
		{"rounds the token up", loadstats.KVCache{Layers: 1, LatentDim: 3, BytesPerValue: 0.5}, 7, 3},
	}
	for _, tt := range tests {
		if got := tt.k.Tokens(tt.bytes); got != tt.want {
			t.Errorf("%s: Tokens(%d) = %d, want %d", tt.name, tt.bytes, got, tt.want)
		}
	}
}

func TestKVCache_ImpossibleIsUnknown(t *testing.T) {
	good := loadstats.KVCache{Layers: 2, KVHeads: 2, HeadDim: 2}
	for name, change := range map[string]func(*loadstats.KVCache){
		"negative layers": func(k *loadstats.KVCache) { k.Layers = -1 },
		"two negatives":   func(k *loadstats.KVCache) { k.Layers, k.KVHeads = -1, -1 },
		"negative latent": func(k *loadstats.KVCache) { k.LatentDim = -512 },
		"negative rope":   func(k *loadstats.KVCache) { k.LatentDim, k.RopeDim = 512, -64 },
		"no heads":        func(k *loadstats.KVCache) { k.KVHeads = 0 },
		"NaN size":        func(k *loadstats.KVCache) { k.BytesPerValue = math.NaN() },
		"infinite size":   func(k *loadstats.KVCache) { k.BytesPerValue = math.Inf(1) },
		"negative size":   func(k *loadstats.KVCache) { k.BytesPerValue = -2 },
		"more than an int64": func(k *loadstats.KVCache) {
			k.Layers, k.KVHeads, k.HeadDim = math.MaxInt32, math.MaxInt32, math.MaxInt32
		},
	} {
		k := good
		change(&k)
		if got := k.BytesPerToken(); got != 0 {
			t.Errorf("%s: BytesPerToken() = %d, want 0", name, got)
		}
		if got := k.Tokens(1 << 40); got != 0 {
			t.Errorf("%s: Tokens(1<<40) = %d, want 0", name, got)
		}
	}
}

func TestKVCache_Shard(t *testing.T) {
	gqa := loadstats.KVCache{Layers: 80, KVHeads: 8, HeadDim: 128}
	for _, tt := range []struct{ n, want int }{{-1, 8}, {0, 8}, {1, 8}, {2, 4}, {4, 2}, {8, 1}, {16, 1}, {3, 3}} {
		if got := gqa.Shard(tt.n).KVHeads; got != tt.want {
			t.Errorf("Shard(%d).KVHeads = %d, want %d", tt.n, got, tt.want)
		}
	}
	mla := loadstats.KVCache{Layers: 61, LatentDim: 512, RopeDim: 64}
	if got := mla.Shard(8); got != mla {
		t.Errorf("Shard(8) of a latent = %+v, want it whole: %+v", got, mla)
	}
	// 8 devices, each with 40 GB for its cache and an eighth of the heads, hold
	// what 320 GB hold undivided.
	device := int64(40 << 30)
	if got, want := gqa.Shard(8).Tokens(device), gqa.Tokens(8*device); got != want {
		t.Errorf("Shard(8).Tokens(%d) = %d, want %d", device, got, want)
	}
}
