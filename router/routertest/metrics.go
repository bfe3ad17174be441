package routertest

import (
	"fmt"
	"net/http"
	"strconv"
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
// at it (https://docs.vllm.ai/en/latest/design/metrics/). Times are in model time.
func (e *Engine) metrics(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	e.advance()
	s, ttft := e.model.Stats(), e.ttft
	e.mu.Unlock()

	p := page{labels: `engine="0",model_name="` + escapeLabel(e.config.Model) + `"`}
	p.family("vllm:num_requests_running", "gauge", "Number of requests in model execution batches.")
	p.value("vllm:num_requests_running", float64(s.Running))
	p.family("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.")
	p.value("vllm:num_requests_waiting", float64(s.Waiting))
	p.family("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.")
	p.value("vllm:kv_cache_usage_perc", s.KVUsage)
	p.family("vllm:prefix_cache_queries_total", "counter", "Prefix cache queries, in terms of number of queried tokens.")
	p.value("vllm:prefix_cache_queries_total", float64(s.PrefixQueries))
	p.family("vllm:prefix_cache_hits_total", "counter", "Prefix cache hits, in terms of number of cached tokens.")
	p.value("vllm:prefix_cache_hits_total", float64(s.PrefixHits))
	p.family("vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.")
	p.value("vllm:prompt_tokens_total", float64(s.PromptTokens))
	p.family("vllm:generation_tokens_total", "counter", "Number of generation tokens processed.")
	p.value("vllm:generation_tokens_total", float64(s.GenerationTokens))
	p.family("vllm:time_to_first_token_seconds", "histogram", "Histogram of time to first token in seconds.")
	p.histogram("vllm:time_to_first_token_seconds", &ttft)
	c := engine.Config{KVTokens: e.config.KVCacheTokens}.WithDefaults()
	p.family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
	p.sample("vllm:cache_config_info", fmt.Sprintf(`block_size="%d",engine="0",num_gpu_blocks="%d"`, c.BlockTokens, c.KVTokens/c.BlockTokens), 1)

	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(p.text) // a client that has left is no concern
}

// page is a page of metrics in Prometheus' text format, written as by
// prometheus_client.
type page struct {
	text   []byte
	labels string
}

func (p *page) family(name, kind, help string) {
	p.text = fmt.Appendf(p.text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (p *page) value(name string, v float64) { p.sample(name, p.labels, v) }

func (p *page) sample(name, labels string, v float64) {
	p.text = fmt.Appendf(p.text, "%s{%s} %s\n", name, labels, number(v))
}

func (p *page) histogram(name string, h *histogram) {
	count := 0
	for i, n := range h.counts {
		count += n
		le := "+Inf"
		if i < len(ttftBuckets) {
			le = number(ttftBuckets[i])
		}
		p.sample(name+"_bucket", `le="`+le+`",`+p.labels, float64(count))
	}
	p.value(name+"_count", float64(count))
	p.value(name+"_sum", h.sum)
}

// number writes whole numbers as 3.0, as Python does.
func number(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// escapeLabel escapes a label's value for the text format.
func escapeLabel(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
}

// addLoadReport puts the engine's load on an answer that was asked for it, in the
// format that the request names (ORCA's, in the subset that vLLM writes). As with
// vLLM, streams carry none.
func (e *Engine) addLoadReport(w http.ResponseWriter, r *http.Request) {
	format := strings.ToUpper(r.Header.Get("Endpoint-Load-Metrics-Format"))
	if format != "TEXT" && format != "JSON" {
		return
	}
	e.mu.Lock()
	s := e.model.Stats()
	e.mu.Unlock()
	usage, waiting := number(s.KVUsage), number(float64(s.Waiting))
	report := fmt.Sprintf("TEXT named_metrics.kv_cache_usage_perc=%s, named_metrics.num_requests_waiting=%s", usage, waiting)
	if format == "JSON" {
		report = fmt.Sprintf(`JSON {"named_metrics": {"kv_cache_usage_perc": %s, "num_requests_waiting": %s}}`, usage, waiting)
	}
	w.Header().Set("Endpoint-Load-Metrics", report)
}
