package routertest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/warmroute/warmroute/internal/engine"
)

// histogram counts seconds in the buckets of vLLM's time to first token.
type histogram struct {
	counts [len(ttftBuckets) + 1]int
	sum    float64
}

var ttftBuckets = [...]float64{
	0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
}

func (h *histogram) observe(seconds float64) {
	i := 0
	for i < len(ttftBuckets) && seconds > ttftBuckets[i] {
		i++
	}
	h.counts[i]++
	h.sum += seconds
}

// metrics writes the page that vLLM's V1 engine writes, as far as a router looks
// at it. Times are in model time.
func (e *Engine) metrics(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	s, ttft := e.model.Stats(), e.ttft
	e.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	var b strings.Builder
	labels := fmt.Sprintf(`{engine="0",model_name=%q}`, e.config.Model)
	family := func(name, kind, help string, value float64) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s%s %v\n", name, help, name, kind, name, labels, value)
	}
	family("vllm:num_requests_running", "gauge", "Number of requests in model execution batches.", float64(s.Running))
	family("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", float64(s.Waiting))
	family("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", s.KVUsage)
	family("vllm:prefix_cache_queries_total", "counter", "Prefix cache queries, in terms of number of queried tokens.", float64(s.PrefixQueries))
	family("vllm:prefix_cache_hits_total", "counter", "Prefix cache hits, in terms of number of cached tokens.", float64(s.PrefixHits))
	family("vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", float64(s.PromptTokens))
	family("vllm:generation_tokens_total", "counter", "Number of generation tokens processed.", float64(s.GenerationTokens))

	const name = "vllm:time_to_first_token_seconds"
	fmt.Fprintf(&b, "# HELP %s Histogram of time to first token in seconds.\n# TYPE %s histogram\n", name, name)
	count := 0
	for i, n := range ttft.counts {
		count += n
		le := "+Inf"
		if i < len(ttftBuckets) {
			le = fmt.Sprint(ttftBuckets[i])
		}
		fmt.Fprintf(&b, "%s_bucket{engine=\"0\",le=%q,model_name=%q} %d\n", name, le, e.config.Model, count)
	}
	fmt.Fprintf(&b, "%s_sum%s %v\n%s_count%s %d\n", name, labels, ttft.sum, name, labels, count)

	c := engine.Config{KVTokens: e.config.KVCacheTokens}.WithDefaults()
	fmt.Fprintf(&b, "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n# TYPE vllm:cache_config_info gauge\n")
	fmt.Fprintf(&b, "vllm:cache_config_info{block_size=\"%d\",engine=\"0\",num_gpu_blocks=\"%d\"} 1\n", c.BlockTokens, c.KVTokens/c.BlockTokens)
	_, _ = w.Write([]byte(b.String())) // a client that has left is no concern
}

// addLoadReport puts the engine's load on an answer that was asked for it. As
// with vLLM, streams carry none.
func (e *Engine) addLoadReport(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	s := e.model.Stats()
	e.mu.Unlock()
	switch format := r.Header.Get("Endpoint-Load-Metrics-Format"); format {
	case "TEXT":
		w.Header().Set("Endpoint-Load-Metrics", fmt.Sprintf(
			"TEXT named_metrics.kv_cache_usage_perc=%v, named_metrics.num_requests_waiting=%d", s.KVUsage, s.Waiting))
	case "JSON":
		w.Header().Set("Endpoint-Load-Metrics", fmt.Sprintf(
			`JSON {"named_metrics": {"kv_cache_usage_perc": %v, "num_requests_waiting": %d}}`, s.KVUsage, s.Waiting))
	}
}
