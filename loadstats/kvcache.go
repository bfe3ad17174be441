package loadstats

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// KVCache describes what a model keeps in its KV cache for every token, and
// turns memory into tokens for endpoints whose engine does not report its
// capacity.
//
// There are two kinds. Models with multi-head, grouped-query or multi-query
// attention keep a key and a value for each KV head: 2 · Layers · KVHeads ·
// HeadDim values a token (Ainslie et al., GQA, arXiv:2305.13245). Models with
// multi-head latent attention keep one compressed latent and the rotary part of
// the key, shared by all heads: Layers · (LatentDim + RopeDim) values a token
// (DeepSeek-AI, DeepSeek-V2, arXiv:2405.04434, section 2.1). The fields are
// those of the model's published config.json.
//
// Models that mix in layers without a growing cache (sliding windows, linear
// attention, state spaces) are described by their full-attention layers alone,
// which is right for long prompts only.
//
// A KVCache is a value.
type KVCache struct {
	// Layers is the number of layers that keep a cache (num_hidden_layers).
	Layers int
	// KVHeads and HeadDim are the key/value heads of a layer and the values in
	// each (num_key_value_heads; head_dim, or hidden_size divided by
	// num_attention_heads). For multi-head attention KVHeads is the number of
	// attention heads. They are not used if LatentDim is set.
	KVHeads, HeadDim int
	// LatentDim and RopeDim are the latent and the rotary values of a layer
	// (kv_lora_rank, qk_rope_head_dim). LatentDim zero means that the model has
	// no latent attention.
	LatentDim, RopeDim int
	// BytesPerValue is the size of a stored value: 2 for bfloat16 and float16,
	// 1 for FP8. Zero means 2, what engines use unless told otherwise.
	BytesPerValue float64
}

// BytesPerToken returns the cache of one token, in bytes, rounded up. It is
// zero, that is unknown, if a field is negative or a needed one is missing.
func (k KVCache) BytesPerToken() int64 {
	values := 2 * float64(k.KVHeads) * float64(k.HeadDim)
	if k.LatentDim != 0 {
		values = float64(k.LatentDim) + float64(k.RopeDim)
	}
	size := k.BytesPerValue
	if size == 0 {
		size = 2
	}
	bytes := math.Ceil(float64(k.Layers) * values * size)
	negative := min(k.Layers, k.KVHeads, k.HeadDim, k.LatentDim, k.RopeDim) < 0
	if negative || !(bytes >= 1 && bytes < math.MaxInt64) {
		return 0
	}
	return int64(bytes)
}

// Tokens returns how many tokens fit into the given memory, zero if
// [KVCache.BytesPerToken] is unknown or bytes is not positive.
//
// The memory is what the engine has for its KV cache: the device's, times the
// share the engine may use, less weights and activations. Engines round down to
// whole blocks.
func (k KVCache) Tokens(bytes int64) int {
	perToken := k.BytesPerToken()
	if perToken == 0 || bytes <= 0 {
		return 0
	}
	return int(min(bytes/perToken, math.MaxInt))
}

// Shard returns what each of n devices keeps under tensor parallelism. KV heads
// are divided among the devices; where there are fewer heads than devices, each
// has one of them, a copy. A latent can't be divided: every device has all of
// it. The endpoint's capacity is that of one device, k.Shard(n).Tokens(memory
// of one device), since each token needs its part on all of them.
//
// Parallelism that splits tokens or requests instead (data parallel attention,
// context parallelism) multiplies the capacity by the number of devices. An n
// below 2 changes nothing.
func (k KVCache) Shard(n int) KVCache {
	if n > 1 && k.KVHeads > 0 {
		k.KVHeads = (k.KVHeads-1)/n + 1
	}
	return k
}

// ErrUnknownModel is returned by [KVCacheOf].
var ErrUnknownModel = errors.New("loadstats: unknown model")

// KVCacheOf returns the KV cache of a well-known model by its name on Hugging
// Face, with 2 bytes a value: "meta-llama/Llama-3.1-8B" and the -Instruct
// variant, "meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen3-32B",
// "deepseek-ai/DeepSeek-V3" and "-R1", "mistralai/Mistral-7B-v0.3" and
// "-Instruct-v0.3". Case does not matter. The error for any other name matches
// [ErrUnknownModel]; copy the numbers from its config.json.
//
// Source: https://huggingface.co/<name>/blob/main/config.json of each.
func KVCacheOf(model string) (KVCache, error) {
	switch strings.ToLower(model) {
	case "meta-llama/llama-3.1-8b", "meta-llama/llama-3.1-8b-instruct":
		return KVCache{Layers: 32, KVHeads: 8, HeadDim: 128, BytesPerValue: 2}, nil
	case "meta-llama/llama-3.3-70b-instruct":
		return KVCache{Layers: 80, KVHeads: 8, HeadDim: 128, BytesPerValue: 2}, nil
	case "qwen/qwen3-32b":
		return KVCache{Layers: 64, KVHeads: 8, HeadDim: 128, BytesPerValue: 2}, nil
	case "deepseek-ai/deepseek-v3", "deepseek-ai/deepseek-r1":
		return KVCache{Layers: 61, LatentDim: 512, RopeDim: 64, BytesPerValue: 2}, nil
	case "mistralai/mistral-7b-v0.3", "mistralai/mistral-7b-instruct-v0.3":
		return KVCache{Layers: 32, KVHeads: 8, HeadDim: 128, BytesPerValue: 2}, nil
	}
	return KVCache{}, fmt.Errorf("%w %q", ErrUnknownModel, model)
}
