package scrape_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/loadstats/scrape"
)

func TestPage_Syntax(t *testing.T) {
	const m = "vllm:num_requests_running"
	tests := []struct {
		name, page string
		want       int64 // -1: nothing on the page
	}{
		{"plain", m + " 3\n", 3},
		{"tabs and blanks", " \t" + m + "\t 3 \t\n", 3},
		{"carriage returns", "# TYPE x gauge\r\n" + m + " 3\r\n", 3},
		{"timestamp", m + " 3 1782123456789\n", 3},
		{"exemplar", m + `{a="b"} 3 # {trace_id="x"} 1.0 1782123456.789` + "\n", 3},
		{"float", m + " 3.0e0\n", 3},
		{"empty labels", m + "{} 3\n", 3},
		{"blanks among labels", m + "{ a = \"b\" , c=\"d\", } 3\n", 3},
		{"no blank before the value", m + "{a=\"b\"}3\n", 3},
		{"braces, quotes and backslashes in a label", m + `{a="} 9",b="\"} 9",c="\\"} 3` + "\n", 3},
		{"colon in a label name", m + `{vllm:mode="awake"} 3` + "\n", 3},
		{"comments and empty lines", "\n#\n# anything { at all\n\n" + m + " 3\n", 3},
		{"after the end mark", m + " 3\n# EOF\n" + m + " 9\n<html>\n", 3},
		{"longer name", m + "_total 9\n" + m + " 3\n", 3},
		{"shorter name", "vllm:num_requests 9\n" + m + " 3\n", 3},
		{"another metric damaged", "x{ 9\ny nonsense\nz{a=\"\n" + m + " 3\n", 3},
		{"largest of repeated samples", m + " 3\n" + m + " 2\n", 3},
		{"last line cut", "vllm:num_requests_waiting 1\n" + m + " 3", -1},
		{"only line cut", m + " 3", -1},
		{"infinite", m + " 1e999\n", -1},
		{"only blanks", " \n\t\n  ", -1},
	}
	for _, tt := range tests {
		r, err := scrape.VLLM().Parse(start, []byte(tt.page))
		if err != nil && !errors.Is(err, loadstats.ErrNoReading) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if want := loadstats.Known(tt.want); r.Running != want {
			t.Errorf("%s: running = %v, want %v", tt.name, r.Running, want)
		}
	}
}

func TestPage_EscapedLabelValues(t *testing.T) {
	page := `m{a="x\\y\"z\n\q"} 7` + "\n"
	p := scrape.Profile{Running: []scrape.Metric{{Name: "m", Labels: map[string]string{"a": "x\\y\"z\nq"}}}}
	if r, err := p.Parse(start, []byte(page)); err != nil || r.Running != loadstats.Known(7) {
		t.Errorf("Parse = %+v, %v, want 7 running", r, err)
	}
}

func TestPage_Refused(t *testing.T) {
	const m = "vllm:num_requests_running"
	for name, page := range map[string]string{
		"html":                  "<html>\n" + m + " 3\n",
		"html later":            m + " 3\n</html>\n",
		"plain text":            "404 page not found\n",
		"quoted":                "\"" + m + "\" 3\n",
		"name alone":            m + "\n",
		"no value":              m + " \n",
		"no value after labels": m + "{a=\"b\"}\n",
		"value is a word":       m + " three\n",
		"value begins well":     m + " 3x\n",
		"labels open":           m + "{a=\"b\" 3\n",
		"label without quotes":  m + "{a=b} 3\n",
		"label without value":   m + "{a} 3\n",
		"label without name":    m + "{=\"b\"} 3\n",
		"quote open":            m + "{a=\"b} 3\n",
		"escape at the end":     m + "{a=\"b\\\n",
		"labels without comma":  m + "{a=\"b\" c=\"d\"} 3\n",
		"broken JSON":           "[{\"numActiveRequests\": 3}\n",
		"JSON of other shape":   "[3]\n",
	} {
		r, err := scrape.AnyEngine().Parse(start, []byte(page))
		if err == nil || errors.Is(err, loadstats.ErrNoReading) || r != noReading {
			t.Errorf("%s: Parse = %+v, %v, want an error alone", name, r, err)
		}
	}
}

// bigPage is a page like those of a busy vLLM with four engines: most of it are
// histograms that nobody asks for.
func bigPage() []byte {
	var b strings.Builder
	const engines = 4
	gauge := func(name string, value float64) {
		fmt.Fprintf(&b, "# HELP %s What it is, in some words.\n# TYPE %s gauge\n", name, name)
		for e := range engines {
			fmt.Fprintf(&b, "%s{engine=\"%d\",model_name=\"/models/meta-llama/Llama-3.3-70B-Instruct-FP8-dynamic\"} %v\n", name, e, value)
		}
	}
	gauge("vllm:num_requests_running", 12)
	gauge("vllm:num_requests_waiting", 3)
	gauge("vllm:kv_cache_usage_perc", 0.625)
	for _, name := range []string{
		"time_to_first_token_seconds", "time_per_output_token_seconds", "e2e_request_latency_seconds",
		"request_queue_time_seconds", "request_inference_time_seconds", "request_prefill_time_seconds",
		"request_decode_time_seconds", "request_prompt_tokens", "request_generation_tokens",
		"iteration_tokens_total", "request_max_num_generation_tokens", "request_params_n",
	} {
		fmt.Fprintf(&b, "# HELP vllm:%s Histogram of it.\n# TYPE vllm:%s histogram\n", name, name)
		for e := range engines {
			for i := range 28 {
				fmt.Fprintf(&b, "vllm:%s_bucket{engine=\"%d\",le=\"%v\",model_name=\"/models/meta-llama/Llama-3.3-70B-Instruct-FP8-dynamic\"} %d.0\n", name, e, float64(i)*2.5, i*1000)
			}
			fmt.Fprintf(&b, "vllm:%s_count{engine=\"%d\",model_name=\"/models/meta-llama/Llama-3.3-70B-Instruct-FP8-dynamic\"} 28000.0\n", name, e)
			fmt.Fprintf(&b, "vllm:%s_sum{engine=\"%d\",model_name=\"/models/meta-llama/Llama-3.3-70B-Instruct-FP8-dynamic\"} 7.93e+05\n", name, e)
		}
	}
	for e := range engines {
		fmt.Fprintf(&b, "vllm:cache_config_info{block_size=\"16\",engine=\"%d\",num_gpu_blocks=\"27400\"} 1.0\n", e)
	}
	return []byte(b.String())
}

func TestPage_OfRealSize(t *testing.T) {
	page := bigPage()
	want := report(48, 12, 0.625, 4*27400*16)
	if got, err := scrape.AnyEngine().Parse(start, page); err != nil || got != want {
		t.Errorf("Parse = %+v, %v, want %+v", got, err, want)
	}
}

func BenchmarkProfile(b *testing.B) {
	page := bigPage()
	lines := strings.Count(string(page), "\n")
	for name, profile := range map[string]scrape.Profile{"vllm": scrape.VLLM(), "any": scrape.AnyEngine()} {
		b.Run(fmt.Sprintf("%s/lines=%d", name, lines), func(b *testing.B) {
			b.SetBytes(int64(len(page)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := profile.Parse(start, page); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
