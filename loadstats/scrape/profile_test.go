package scrape_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/loadstats/scrape"
)

var start = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// Readings as the tables below write them; -1 is unknown.
func report(running, waiting int64, usage float64, capacity int64) loadstats.Report {
	return loadstats.Report{
		At: start, Running: loadstats.Known(running), Waiting: loadstats.Known(waiting),
		KVCacheUsage: loadstats.Ratio(usage), KVCacheTokens: loadstats.Known(capacity),
	}
}

var noReading = loadstats.Report{}

// The files and their readings; of those without one, whether they are pages
// that tell nothing (true), or no metrics pages at all.
var files = map[string]struct {
	profile scrape.Profile
	want    loadstats.Report
	silent  bool
}{
	"vllm_v0_legacy.prom":                  {scrape.VLLM(), report(3, 5, 0.42, 27400*16), false},
	"vllm_v1_single.prom":                  {scrape.VLLM(), report(3, 5, 0.42, -1), false},
	"vllm_v1_transition_both_names.prom":   {scrape.VLLM(), report(2, 0, 0.31, -1), false},
	"vllm_openmetrics_rust_frontend.prom":  {scrape.VLLM(), report(3, 5, 0.42, -1), false},
	"vllm_nan_inf_negative.prom":           {scrape.VLLM(), report(4, -1, 1, -1), false},
	"vllm_stats_disabled.prom":             {scrape.VLLM(), noReading, true},
	"sglang_basic.prom":                    {scrape.SGLang(), report(162, 28, 0.28, 27648*16), false},
	"sglang_dp_attention4.prom":            {scrape.SGLang(), report(9, 11, 0.97, -1), false},
	"sglang_via_gateway_underscore.prom":   {scrape.SGLang(), report(5, 7, 0.9, -1), false},
	"tgi.prom":                             {scrape.TGI(), report(8, 3, -1, -1), false},
	"triton_trtllm_port8002.prom":          {scrape.Triton(), report(3, 5, 0.42, 6239*64), false},
	"triton_trtllm_old_no_fraction.prom":   {scrape.Triton(), report(3, 1, 0.4, 2500*64), false},
	"trtllm_serve_prometheus_path.prom":    {scrape.TensorRTLLM(), report(3, 5, 0.42, -1), false},
	"trtllm_serve_default_path_empty.prom": {scrape.TensorRTLLM(), noReading, true},
	"llamacpp_old_with_kv.prom":            {scrape.LlamaCpp(), report(3, 5, 0.42, -1), false},
	"llamacpp_metrics_disabled_501.prom":   {scrape.LlamaCpp(), noReading, true},
	"html_error_page.prom":                 {scrape.VLLM(), noReading, false},
	"json_detail_401.prom":                 {scrape.VLLM(), noReading, true},
	"empty.prom":                           {scrape.VLLM(), noReading, true},
	"ollama_404.prom":                      {scrape.AnyEngine(), noReading, false},
	"ollama_proposed.prom":                 {scrape.AnyEngine(), noReading, true}, // see TestProfile_IsData
	"vllm_lora_requests_info.prom": {scrape.VLLM(), func() loadstats.Report {
		r := report(2, 1, 0.2, -1)
		r.Adapters = &loadstats.Adapters{Running: []string{"sql-a", "law-b"}, Waiting: []string{"med-c"}, Max: loadstats.Known(4)}
		return r
	}(), false},
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func TestProfile_EveryFile(t *testing.T) {
	names, err := filepath.Glob("testdata/*.prom")
	if err != nil || len(names) != len(files) {
		t.Fatalf("%d files, %v, want %d", len(names), err, len(files))
	}
	for name, file := range files {
		for kind, profile := range map[string]scrape.Profile{"own": file.profile, "any": scrape.AnyEngine()} {
			got, err := profile.Parse(start, readFile(t, name))
			if !reflect.DeepEqual(got, file.want) {
				t.Errorf("%s profile on %s = %+v, want %+v", kind, name, got, file.want)
			}
			if (err != nil) != (got == noReading) || errors.Is(err, loadstats.ErrNoReading) != file.silent {
				t.Errorf("%s profile on %s: error %v, want ErrNoReading: %v", kind, name, err, file.silent)
			}
		}
	}
}

// The profile of one engine reads nothing from the page of another.
func TestProfile_EnginesDoNotMix(t *testing.T) {
	engines := map[string]scrape.Profile{
		"vllm": scrape.VLLM(), "sglang": scrape.SGLang(), "triton": scrape.Triton(), "trtllm": scrape.TensorRTLLM(),
		"tgi": scrape.TGI(), "llamacpp": scrape.LlamaCpp(),
	}
	for file := range files {
		owner, _, _ := strings.Cut(strings.TrimSuffix(file, ".prom"), "_")
		for engine, profile := range engines {
			got, err := profile.Parse(start, readFile(t, file))
			if engine != owner && (err == nil || got != noReading) {
				t.Errorf("profile %s on %s = %+v, %v, want nothing", engine, file, got, err)
			}
		}
	}
}

func TestProfile_OneEngineOfAGatewayPage(t *testing.T) {
	page := readFile(t, "sglang_via_gateway_underscore.prom")
	for addr, want := range map[string]loadstats.Report{
		"grpc://10.0.0.11:8001": report(4, 7, 0.9, -1),
		"grpc://10.0.0.12:8001": report(1, 0, 0.1, -1),
	} {
		got, err := scrape.SGLang().With("worker_addr", addr).Parse(start, page)
		if err != nil || got != want {
			t.Errorf("With(worker_addr, %s) = %+v, %v, want %+v", addr, got, err, want)
		}
	}
}

// A filter that nothing passes says so: model_name is "undefined" on this page.
func TestProfile_FilterDoesNotHideSilently(t *testing.T) {
	p := scrape.TensorRTLLM().With("model_name", "acme/chat-8b")
	got, err := p.Parse(start, readFile(t, "trtllm_serve_prometheus_path.prom"))
	if got != noReading || !errors.Is(err, loadstats.ErrNoReading) || !strings.Contains(err.Error(), "none of 3 samples has the labels") {
		t.Errorf("Parse = %+v, %v, want an error that names the labels", got, err)
	}
}

func TestProfile_WithLeavesTheOriginal(t *testing.T) {
	p := scrape.Triton()
	page := readFile(t, "triton_trtllm_old_no_fraction.prom")
	want, _ := p.Parse(start, page)
	if got, err := p.With("model", "tensorrt_llm").Parse(start, page); err != nil || got != want {
		t.Errorf("With(its own model) = %+v, %v, want %+v", got, err, want)
	}
	if got, err := p.With("model", "other").Parse(start, page); err == nil {
		t.Errorf("With(another model) = %+v, want an error", got)
	}
	if got, _ := p.Parse(start, page); got != want {
		t.Errorf("the profile itself now gives %+v, want %+v", got, want)
	}
}

func TestProfile_Ranks(t *testing.T) {
	tests := []struct {
		name    string
		profile scrape.Profile
		page    string
		want    loadstats.Report
	}{
		{"context parallel ranks show the same requests", scrape.SGLang(), `
sglang:num_running_reqs{dp_rank="0",cp_rank="0",tp_rank="0"} 14
sglang:num_running_reqs{dp_rank="0",cp_rank="1",tp_rank="1"} 14
sglang:num_queue_reqs{cp_rank="0"} 2
sglang:num_queue_reqs{cp_rank="1"} 2
sglang:max_total_num_tokens{dp_rank="0",cp_rank="0"} 1000
sglang:max_total_num_tokens{dp_rank="0",cp_rank="1"} 1000
`, report(14, 2, -1, 1000)},
		{"data parallel engines share the endpoint", scrape.VLLM(), `
vllm:num_requests_running{engine="0",model_name="m"} 3
vllm:num_requests_running{engine="1",model_name="m"} 4
vllm:num_requests_waiting{engine="0",model_name="m"} 0
vllm:num_requests_waiting{engine="1",model_name="m"} 6
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.2
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.9
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1000"} 1
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="1500"} 1
`, report(7, 6, 0.9, 40_000)},
		{"processes of one server show the same engine", scrape.VLLM(), `
vllm:num_requests_running{engine="0",pid="1"} 3
vllm:num_requests_running{engine="0",pid="2"} 3
`, report(3, -1, -1, -1)},
		{"the newest of several names", scrape.SGLang(), `
sglang:cache_config_info{num_pages="10",page_size="16"} 1
sglang:max_total_num_tokens 161
`, report(-1, -1, -1, 161)},
		{"an old name where the new one makes no sense", scrape.VLLM(), `
vllm:kv_cache_usage_perc NaN
vllm:gpu_cache_usage_perc 0.5
`, report(-1, -1, 0.5, -1)},
		{"a percentage is no share", scrape.VLLM(), `
vllm:kv_cache_usage_perc 42
vllm:num_requests_running 1
`, report(1, -1, -1, -1)},
		{"a capacity not measured yet", scrape.VLLM(), `
vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1
vllm:num_requests_running 0
`, report(0, -1, -1, -1)},
		{"a capacity of zero", scrape.VLLM(), `
vllm:cache_config_info{block_size="16",num_gpu_blocks="0"} 1
vllm:num_requests_running 0
`, report(0, -1, -1, -1)},
		{"a product without a label", scrape.VLLM(), `
vllm:cache_config_info{num_gpu_blocks="7"} 1
vllm:num_requests_running 0
`, report(0, -1, -1, -1)},
		{"a quotient of different engines, and by zero", scrape.Triton(), `
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="a",version="1"} 5
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="b",version="1"} 10
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="c",version="1"} 0
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="c",version="1"} 0
nv_trt_llm_request_metrics{model="a",request_type="scheduled",version="1"} 5
nv_trt_llm_request_metrics{model="a",request_type="active",version="1"} 3
`, report(5, -1, -1, -1)},
		{"label values that run into each other", scrape.SGLang(), `
sglang:num_running_reqs{worker_addr="a",dp_rank="1"} 1
sglang:num_running_reqs{worker_addr="a1",dp_rank=""} 2
sglang:num_running_reqs{worker_addr="",dp_rank="a1"} 4
sglang:num_running_reqs{worker_addr="1",dp_rank="abcdefghi1c"} 8
sglang:num_running_reqs{worker_addr="11abcdefghi",dp_rank="c"} 16
`, report(31, -1, -1, -1)},
		{"llama.cpp of today", scrape.LlamaCpp(), `
llamacpp:requests_processing 2
llamacpp:requests_deferred 0
llamacpp:n_busy_slots_per_decode 1.7
`, report(2, 0, -1, -1)},
		{"trtllm-serve with blocks", scrape.TensorRTLLM(), `
trtllm_num_requests_running{pid="1"} 2
trtllm_kv_cache_max_blocks{pid="1"} 100
trtllm_kv_cache_max_blocks{pid="2"} 90
trtllm_kv_cache_tokens_per_block{pid="1"} 32
`, report(2, -1, -1, 3200)},
		{"trtllm-serve log of iterations", scrape.TensorRTLLM(), `[
{"iter": 6, "numActiveRequests": 99, "numQueuedRequests": 99},
{"iter": 7, "numActiveRequests": 2, "numQueuedRequests": 3, "gpuMemUsage": 1e9,
 "kvCacheStats": {"maxNumBlocks": 100, "usedNumBlocks": 25, "freeNumBlocks": 75, "tokensPerBlock": 32}}]
`, report(2, 3, 0.25, 3200)},
	}
	for _, tt := range tests {
		got, err := tt.profile.Parse(start, []byte(tt.page))
		if err != nil || got != tt.want {
			t.Errorf("%s: Parse = %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
}

// A profile for an engine that is not in the package, from a configuration file.
func TestProfile_IsData(t *testing.T) {
	var p scrape.Profile
	config := `{
		"Waiting": [{"Name": "ollama_requests_queued"}],
		"KVCacheTokens": [{"Name": "acme_blocks", "Labels": {"kind": "max"}, "Times": {"Name": "acme_block_size"}}]
	}`
	if err := json.Unmarshal([]byte(config), &p); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Parse(start, readFile(t, "ollama_proposed.prom")); err != nil || got != report(-1, 5, -1, -1) {
		t.Errorf("Parse = %+v, %v, want 5 waiting", got, err)
	}
	page := "acme_blocks{kind=\"max\"} 10\nacme_blocks{kind=\"used\"} 90\nacme_block_size 16\n"
	if got, err := p.Parse(start, []byte(page)); err != nil || got != report(-1, -1, -1, 160) {
		t.Errorf("Parse = %+v, %v, want 160 tokens", got, err)
	}
	back, err := json.Marshal(scrape.Triton())
	if err != nil {
		t.Fatal(err)
	}
	var again scrape.Profile
	if err := json.Unmarshal(back, &again); err != nil || !reflect.DeepEqual(again, scrape.Triton()) {
		t.Errorf("Triton() through JSON = %+v, %v", again, err)
	}
}

func TestProfile_AbsentLabelIsEmpty(t *testing.T) {
	p := scrape.Profile{Running: []scrape.Metric{{Name: "m", Labels: map[string]string{"role": ""}}}}
	page := "m{role=\"draft\"} 9\nm{other=\"x\"} 3\nm{role=\"\"} 2\n"
	if got, err := p.Parse(start, []byte(page)); err != nil || got != report(3, -1, -1, -1) {
		t.Errorf("Parse = %+v, %v, want 3 running", got, err)
	}
}

func TestProfile_EmptyReadsNothing(t *testing.T) {
	got, err := scrape.Profile{}.Parse(start, readFile(t, "vllm_v1_single.prom"))
	if got != noReading || !errors.Is(err, loadstats.ErrNoReading) {
		t.Errorf("Profile{}.Parse = %+v, %v, want ErrNoReading", got, err)
	}
}

// The report does not hold on to the page, whose memory is used again.
func TestProfile_PageMayBeReused(t *testing.T) {
	page := readFile(t, "vllm_lora_requests_info.prom")
	r, err := scrape.VLLM().Parse(start, page)
	if err != nil {
		t.Fatal(err)
	}
	for i := range page {
		page[i] = 'x'
	}
	if want := files["vllm_lora_requests_info.prom"].want; !reflect.DeepEqual(r, want) {
		t.Errorf("after the page was overwritten: %+v, want %+v", r, want)
	}
}

// Whatever the page, there is a report that makes sense, or an error and nothing.
func FuzzProfile(f *testing.F) {
	for name := range files {
		f.Add(readFile(f, name))
	}
	f.Add([]byte("vllm:num_requests_running{a=\"\\\\\\\"\\n\",} 1 2 # {} 3\n"))
	profile := scrape.AnyEngine()
	f.Fuzz(func(t *testing.T, page []byte) {
		r, err := profile.Parse(start, page)
		if err != nil {
			if r != noReading {
				t.Fatalf("report %+v beside error %v", r, err)
			}
			return
		}
		if !r.At.Equal(start) || !r.Known() {
			t.Fatalf("report without a reading: %+v", r)
		}
		if f, ok := r.KVCacheUsage.Get(); ok && !(f >= 0 && f <= 1) {
			t.Fatalf("usage %v", f)
		}
		for _, c := range []loadstats.Count{r.Running, r.Waiting, r.KVCacheTokens} {
			if n, _ := c.Get(); n < 0 || n > math.MaxInt64/2 {
				t.Fatalf("count %d", n)
			}
		}
		again, err := profile.Parse(start, page)
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("parsed twice: %+v, then %+v, %v", r, again, err)
		}
	})
}
