package loadstats_test

import (
	"encoding/base64"
	"errors"
	"maps"
	"math"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/loadstats"
)

// readHeader reads a file of header lines; lines that start with # are remarks.
func readHeader(t testing.TB, name string) http.Header {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("testdata", "orca", name))
	if err != nil {
		t.Fatal(err)
	}
	header := make(http.Header)
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			t.Fatalf("%s: no header in line %q", name, line)
		}
		header.Add(key, textproto.TrimString(value))
	}
	return header
}

// The readings of each file; files that are missing here are none.
var orcaReadings = map[string]loadstats.Report{
	"vllm_text.txt":                     {KVCacheUsage: loadstats.Ratio(0.42), Waiting: loadstats.Known(5)},
	"vllm_json.txt":                     {KVCacheUsage: loadstats.Ratio(0.42), Waiting: loadstats.Known(5)},
	"bin_dedicated_header.txt":          {KVCacheUsage: loadstats.Ratio(0.42), Waiting: loadstats.Known(5)},
	"bin_dedicated_header_unpadded.txt": {KVCacheUsage: loadstats.Ratio(0.42), Waiting: loadstats.Known(5)},
	"triton_text.txt":                   {KVCacheUsage: loadstats.Ratio(0.42), KVCacheTokens: loadstats.Known(399_296)},
	"triton_json.txt":                   {KVCacheUsage: loadstats.Ratio(0.42), KVCacheTokens: loadstats.Known(399_296)},
	"two_lines_same_header.txt":         {KVCacheUsage: loadstats.Ratio(0.42)}, // the first line only
	// What a client forged reads like any report: RequestORCA removes it, and
	// only the headers of an engine's answer are ever read.
	"spoof_by_client.txt": {KVCacheUsage: loadstats.Ratio(0), Waiting: loadstats.Known(0)},
}

// Reports that are whole, but say nothing of what a Report holds. All other
// files without a reading are damaged, or in a form that is not understood.
var orcaSilent = map[string]bool{
	"vllm_empty_report.txt": true, "vllm_json_empty_report.txt": true,
	"envoy_text_equals.txt": true, "envoy_text_colon_older.txt": true,
	"json_snake.txt": true, "json_camel.txt": true,
	"bin_unknown_field_and_rps_uint.txt": true,
	"nan_inf.txt":                        true,
	"json_string_number.txt":             true,
	"separate_json_header_older.txt":     true, // another header, not read
	"request_opt_in.txt":                 true, // no report at all
}

func TestReadORCA_EveryFile(t *testing.T) {
	files, err := filepath.Glob("testdata/orca/*.txt")
	if err != nil || len(files) != 27 {
		t.Fatalf("%d files, %v, want 27", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			got, err := loadstats.ReadORCA(start, readHeader(t, name))
			want, has := orcaReadings[name]
			switch {
			case has:
				want.At = start
				if err != nil || got != want {
					t.Errorf("ReadORCA = %+v, %v, want %+v", got, err, want)
				}
			case got != (loadstats.Report{}):
				t.Errorf("ReadORCA = %+v, want nothing", got)
			case errors.Is(err, loadstats.ErrNoReading) != orcaSilent[name] || err == nil:
				t.Errorf("ReadORCA: error %v, want ErrNoReading: %v", err, orcaSilent[name])
			}
		})
	}
}

func TestParseORCA_EveryMetric(t *testing.T) {
	general := map[string]float64{
		"cpu_utilization": 0.3, "mem_utilization": 0.8, "rps_fractional": 10, "eps": 1, "named_metrics.queue": 5,
	}
	with := func(extra map[string]float64) map[string]float64 {
		maps.Copy(extra, general)
		return extra
	}
	tests := map[string]map[string]float64{
		"envoy_text_equals.txt":      with(map[string]float64{"application_utilization": 0.55, "utilization.gpu": 0.9}),
		"envoy_text_colon_older.txt": general,
		"json_snake.txt":             general,
		"json_camel.txt":             with(map[string]float64{"application_utilization": 0.55}),
		"bin_dedicated_header.txt": {
			"cpu_utilization": 0.3, "mem_utilization": 0.8, "rps_fractional": 10, "eps": 1, "application_utilization": 0.55,
			"named_metrics.kv_cache_usage_perc": 0.42, "named_metrics.num_requests_waiting": 5,
		},
		"bin_unknown_field_and_rps_uint.txt": {"rps": 150, "request_cost.tokens": 3487, "utilization.kv": 0.42},
	}
	for name, want := range tests {
		header := readHeader(t, name)
		value := header.Get(loadstats.ORCAHeader)
		if bin := header.Get(loadstats.ORCABinaryHeader); bin != "" {
			value = "BIN " + bin
		}
		got := make(map[string]float64)
		err := loadstats.VisitORCA(value, func(group, name string, v float64) {
			if group != "" {
				name = group + "." + name
			}
			got[name] = v
		})
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: metrics %v, %v, want %v", name, got, err, want)
		}
	}
}

func TestParseORCA_Forms(t *testing.T) {
	want := loadstats.Report{At: start, KVCacheUsage: loadstats.Ratio(0.42), Waiting: loadstats.Known(5)}
	for _, value := range []string{
		"TEXT named_metrics.kv_cache_usage_perc=0.42,named_metrics.num_requests_waiting=5",
		"TEXT  named_metrics.kv_cache_usage_perc = 0.42 ,\tnamed_metrics.num_requests_waiting : 5.0 ",
		"TEXT utilization.kv_cache_usage_perc=0.42,named_metrics.num_requests_waiting=5,cpu_utilization=NaN",
		"TEXT named_metrics.kv_cache_usage_perc=0.42,named_metrics.num_requests_waiting=5,named_metrics.vllm:x=1",
		`JSON {"namedMetrics":{"kv_cache_usage_perc":0.42,"num_requests_waiting":5},"rps":"150","utilization":null}`,
		"BIN Qh4KE2t2X2NhY2hlX3VzYWdlX3BlcmMR4XoUrkfh2j9CHwoUbnVtX3JlcXVlc3RzX3dhaXRpbmcRAAAAAAAAFEA=",
	} {
		if got, err := loadstats.ParseORCA(start, value); err != nil || got != want {
			t.Errorf("ParseORCA(%q) = %+v, %v, want %+v", value, got, err, want)
		}
	}
}

func TestParseORCA_AllReadings(t *testing.T) {
	got, err := loadstats.ParseORCA(start, "TEXT named_metrics.num_requests_running=3,named_metrics.num_requests_waiting=0,"+
		"named_metrics.kv_cache_utilization=0.5,named_metrics.kv_cache_usage_perc=0.4,named_metrics.max_token_capacity=1000")
	want := loadstats.Report{
		At: start, Running: loadstats.Known(3), Waiting: loadstats.Known(0),
		KVCacheUsage: loadstats.Ratio(0.5), KVCacheTokens: loadstats.Known(1000),
	}
	if err != nil || got != want {
		t.Errorf("ParseORCA = %+v, %v, want %+v", got, err, want)
	}
}

func TestParseORCA_CapacityNotMeasuredYet(t *testing.T) {
	const silent = "TEXT named_metrics.max_token_capacity=0"
	if r, err := loadstats.ParseORCA(start, silent); !errors.Is(err, loadstats.ErrNoReading) {
		t.Errorf("ParseORCA(%q) = %+v, %v, want ErrNoReading", silent, r, err)
	}
}

func TestParseORCA_Damaged(t *testing.T) {
	const good = "named_metrics.num_requests_waiting=5"
	for _, value := range []string{
		"", " ", "TEXT" + good, good, "text " + good,
		"TEXT " + good + ",", "TEXT ," + good, "TEXT " + good + ",," + good, "TEXT " + good + "," + good,
		"TEXT " + good + ", cpu_utilization", "TEXT " + good + ", cpu_utilization=x", "TEXT " + good + ", =1",
		"TEXT " + good + ", cpu_utilization=1e999",
		"TEXT " + good + strings.Repeat(",a=1", 2), "TEXT " + good + manyMetrics(64),
		"JSON", "JSON []", `JSON {"named_metrics":{"num_requests_waiting":5}`, `JSON {"named_metrics":{"num_requests_waiting":5}} x`,
		"BIN *", "BIN CTMz", "BIN " + "AAAA", "BIN QgA",
	} {
		r, err := loadstats.ParseORCA(start, value)
		if err == nil || r != (loadstats.Report{}) {
			t.Errorf("ParseORCA(%.60q) = %+v, %v, want an error alone", value, r, err)
		}
	}
	if _, err := loadstats.ParseORCA(start, "TEXT "+good+manyMetrics(63)); err != nil {
		t.Errorf("ParseORCA(64 metrics): %v", err)
	}
}

// manyMetrics returns n entries of different names, each after a comma.
func manyMetrics(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(",m")
		b.WriteString(strings.Repeat("x", i))
		b.WriteString("=1")
	}
	return b.String()
}

func TestParseORCA_BinaryMessage(t *testing.T) {
	// Field 8 is the map of named metrics, of key (1) and value (2).
	const (
		key  = "\x0a\x14num_requests_waiting"
		five = "\x11\x00\x00\x00\x00\x00\x00\x14\x40"
	)
	entry := func(body string) string { return "\x42" + string(rune(len(body))) + body }
	good := entry(key + five)
	tests := []struct {
		name, message string
		want          loadstats.Count
		damaged       bool
	}{
		{"entry", good, loadstats.Known(5), false},
		{"value before key", entry(five + key), loadstats.Known(5), false},
		{"no value is zero", entry(key), loadstats.Known(0), false},
		{"unknown field of each wire type", "\x78\xff\x01" + "\x79" + "12345678" + "\x7a\x03abc" + "\x7d" + "1234" + good, loadstats.Known(5), false},
		{"unknown fields in an entry", entry(key + "\x18\x01" + "\x1d" + "1234" + five), loadstats.Known(5), false},
		{"the largest possible varint", "\x78\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + good, loadstats.Known(5), false},
		{"varint too long", "\x78\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + good, loadstats.Count{}, true},
		{"varint cut", good + "\x78\xff", loadstats.Count{}, true},
		{"tag cut", good + "\xff", loadstats.Count{}, true},
		{"number cut", good + "\x09123", loadstats.Count{}, true},
		{"short number cut", good + "\x7d123", loadstats.Count{}, true},
		{"bytes cut", good + "\x7a\x05abc", loadstats.Count{}, true},
		{"length cut", good + "\x7a", loadstats.Count{}, true},
		{"length beyond any message", good + "\x7a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", loadstats.Count{}, true},
		{"entry cut inside", entry(key + five[:4]), loadstats.Count{}, true},
		{"group", good + "\x7b\x7c", loadstats.Count{}, true},
	}
	for _, tt := range tests {
		r, err := loadstats.ParseORCA(start, "BIN "+base64.StdEncoding.EncodeToString([]byte(tt.message)))
		if r.Waiting != tt.want || (err != nil) != tt.damaged || errors.Is(err, loadstats.ErrNoReading) {
			t.Errorf("%s: waiting = %v, error %v, want %v, damaged: %v", tt.name, r.Waiting, err, tt.want, tt.damaged)
		}
	}
}

func TestRequestORCA_RemovesWhatTheClientSent(t *testing.T) {
	header := readHeader(t, "spoof_by_client.txt")
	header.Set(loadstats.ORCABinaryHeader, "AA==")
	header.Set("Accept", "text/event-stream")
	loadstats.RequestORCA(header)
	want := readHeader(t, "request_opt_in.txt")
	want.Set("Accept", "text/event-stream")
	if !reflect.DeepEqual(header, want) {
		t.Errorf("RequestORCA left %v, want %v", header, want)
	}
	loadstats.RemoveORCA(header)
	if want := (http.Header{"Accept": {"text/event-stream"}}); !reflect.DeepEqual(header, want) {
		t.Errorf("RemoveORCA left %v, want %v", header, want)
	}
}

func TestORCA_HeaderNamesAreCanonical(t *testing.T) {
	for _, name := range []string{loadstats.ORCAHeader, loadstats.ORCABinaryHeader, loadstats.ORCAFormatHeader} {
		if got := http.CanonicalHeaderKey(name); got != name {
			t.Errorf("header %q, canonical %q", name, got)
		}
	}
}

func TestParseORCA_TextDoesNotAllocate(t *testing.T) {
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := loadstats.ParseORCA(start, vllmText); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("ParseORCA(TEXT) allocates %v times, want 0", allocs)
	}
}

const vllmText = "TEXT named_metrics.kv_cache_usage_perc=0.42, named_metrics.num_requests_waiting=5.0"

// Whatever arrives, there is a report that makes sense, or an error and nothing.
func FuzzParseORCA(f *testing.F) {
	files, err := filepath.Glob("testdata/orca/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		header := readHeader(f, filepath.Base(file))
		f.Add(header.Get(loadstats.ORCAHeader))
		f.Add("BIN " + header.Get(loadstats.ORCABinaryHeader))
	}
	f.Fuzz(func(t *testing.T, value string) {
		r, err := loadstats.ParseORCA(start, value)
		if err != nil {
			if r != (loadstats.Report{}) {
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
		again, err := loadstats.ParseORCA(start, value)
		if err != nil || again != r {
			t.Fatalf("parsed twice: %+v, then %+v, %v", r, again, err)
		}
	})
}

func BenchmarkORCA(b *testing.B) {
	for name, value := range map[string]string{
		"text": vllmText,
		"json": `JSON {"named_metrics": {"kv_cache_usage_perc": 0.42, "num_requests_waiting": 5.0}}`,
		"bin":  "BIN " + readHeader(b, "bin_dedicated_header.txt").Get(loadstats.ORCABinaryHeader),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := loadstats.ParseORCA(start, value); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
