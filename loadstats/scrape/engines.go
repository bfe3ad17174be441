package scrape

import "slices"

// The names below are those of the engines' own sources and manuals, as of
// 2026. Where an engine renamed a metric, the newer name comes first.

// VLLM reads pages of vLLM, of both engine generations: one engine or several
// data parallel ones, which share the requests sent to the endpoint. The KV
// cache gauge was vllm:gpu_cache_usage_perc until the 0.9 releases renamed it;
// pages of the transition have both.
//
// Source: vllm/v1/metrics/loggers.py of https://github.com/vllm-project/vllm.
func VLLM() Profile {
	engines := []string{"engine"}
	return Profile{
		Running: []Metric{{Name: "vllm:num_requests_running", Engines: engines}},
		Waiting: []Metric{{Name: "vllm:num_requests_waiting", Engines: engines}},
		KVCacheUsage: []Metric{
			{Name: "vllm:kv_cache_usage_perc", Engines: engines},
			{Name: "vllm:gpu_cache_usage_perc", Engines: engines},
		},
		KVCacheTokens: []Metric{{
			Name: "vllm:cache_config_info", Engines: engines, Product: []string{"num_gpu_blocks", "block_size"},
		}},
		Adapters: &Adapters{
			Name:    "vllm:lora_requests_info",
			Running: "running_lora_adapters", Waiting: "waiting_lora_adapters", Max: "max_lora",
		},
	}
}

// SGLang reads pages of SGLang. Data parallel ranks (dp_rank) have requests and
// cache of their own; tensor, pipeline, expert and context parallel ranks show
// those of their group again. The names with an underscore are those of a
// gateway that joins the pages of several servers, told apart by worker_addr;
// [Profile.With] picks one of them.
//
// Source: the metrics collector in python/sglang/srt of
// https://github.com/sgl-project/sglang.
func SGLang() Profile {
	engines := []string{"worker_addr", "dp_rank"}
	both := func(name string) []Metric {
		return []Metric{{Name: "sglang:" + name, Engines: engines}, {Name: "sglang_" + name, Engines: engines}}
	}
	return Profile{
		Running:      both("num_running_reqs"),
		Waiting:      both("num_queue_reqs"),
		KVCacheUsage: both("token_usage"),
		KVCacheTokens: slices.Concat(
			both("max_total_num_tokens"),
			[]Metric{{Name: "sglang:cache_config_info", Engines: engines, Product: []string{"num_pages", "page_size"}}},
		),
	}
}

// TensorRTLLM reads pages of trtllm-serve: the Prometheus page, on
// /prometheus/metrics, and the log of iterations in JSON, on /metrics. Reading
// the log empties it, so that of two gateways, or twice in a row, one finds
// nothing; prefer the other.
//
// Source: tensorrt_llm/serve and docs/source/commands/trtllm-serve of
// https://github.com/NVIDIA/TensorRT-LLM.
func TensorRTLLM() Profile {
	return Profile{
		Running: []Metric{{Name: "trtllm_num_requests_running"}, {Name: "numActiveRequests"}},
		Waiting: []Metric{{Name: "trtllm_num_requests_waiting"}, {Name: "numQueuedRequests"}},
		KVCacheUsage: []Metric{
			{Name: "trtllm_kv_cache_utilization"},
			{Name: "kvCacheStats.usedNumBlocks", Over: &Metric{Name: "kvCacheStats.maxNumBlocks"}},
		},
		KVCacheTokens: []Metric{
			{Name: "trtllm_kv_cache_max_blocks", Times: &Metric{Name: "trtllm_kv_cache_tokens_per_block"}},
			{Name: "kvCacheStats.maxNumBlocks", Times: &Metric{Name: "kvCacheStats.tokensPerBlock"}},
		},
	}
}

// Triton reads pages of the Triton server with the TensorRT-LLM backend, which
// it serves on a port of its own (8002). Requests that are active and not
// scheduled wait, on releases that do not say so themselves.
//
// Source: https://github.com/triton-inference-server/tensorrtllm_backend, README,
// section on metrics.
func Triton() Profile {
	engines := []string{"model", "version"}
	requests := func(kind string) Metric {
		return Metric{Name: "nv_trt_llm_request_metrics", Engines: engines, Labels: map[string]string{"request_type": kind}}
	}
	blocks := func(kind string) Metric {
		return Metric{Name: "nv_trt_llm_kv_cache_block_metrics", Engines: engines, Labels: map[string]string{"kv_cache_block_type": kind}}
	}
	scheduled, most, size := requests("scheduled"), blocks("max"), blocks("tokens_per")
	unscheduled, used, capacity := requests("active"), blocks("used"), blocks("max")
	unscheduled.Less, used.Over, capacity.Times = &scheduled, &most, &size
	return Profile{
		Running:       []Metric{requests("scheduled")},
		Waiting:       []Metric{requests("waiting"), unscheduled},
		KVCacheUsage:  []Metric{blocks("fraction"), used},
		KVCacheTokens: []Metric{capacity},
	}
}

// TGI reads pages of Hugging Face text-generation-inference, which says nothing
// of its cache.
//
// Source: https://huggingface.co/docs/text-generation-inference/reference/metrics.
func TGI() Profile {
	return Profile{
		Running: []Metric{{Name: "tgi_batch_current_size"}},
		Waiting: []Metric{{Name: "tgi_queue_size"}},
	}
}

// LlamaCpp reads pages of the llama.cpp server, which must be started with
// --metrics. Releases since 2025 do not report the use of the cache any more.
// In front of several models its page needs a model in the query, and loads that
// model: give [Scraper.URL] accordingly.
//
// Source: tools/server of https://github.com/ggml-org/llama.cpp.
func LlamaCpp() Profile {
	return Profile{
		Running:      []Metric{{Name: "llamacpp:requests_processing"}},
		Waiting:      []Metric{{Name: "llamacpp:requests_deferred"}},
		KVCacheUsage: []Metric{{Name: "llamacpp:kv_cache_usage_ratio"}},
	}
}

// AnyEngine reads what [VLLM], [SGLang], [TensorRTLLM], [Triton], [TGI] and
// [LlamaCpp] read, whose metrics have different names. It serves for a fleet of
// mixed engines.
func AnyEngine() Profile {
	var all Profile
	for _, p := range []Profile{VLLM(), SGLang(), TensorRTLLM(), Triton(), TGI(), LlamaCpp()} {
		all.Running = append(all.Running, p.Running...)
		all.Waiting = append(all.Waiting, p.Waiting...)
		all.KVCacheUsage = append(all.KVCacheUsage, p.KVCacheUsage...)
		all.KVCacheTokens = append(all.KVCacheTokens, p.KVCacheTokens...)
	}
	all.Adapters = VLLM().Adapters
	return all
}
