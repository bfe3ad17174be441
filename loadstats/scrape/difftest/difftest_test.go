package difftest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/loadstats/scrape"
)

func parse(page []byte) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(bytes.NewReader(page))
}

// value returns the number of a gauge, counter or untyped metric.
func value(m *dto.Metric) (float64, bool) {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue(), true
	case m.Counter != nil:
		return m.Counter.GetValue(), true
	case m.Untyped != nil:
		return m.Untyped.GetValue(), true
	}
	return 0, false
}

// same checks that scrape reads every sample of the page that the families
// have, and gives the number of samples compared.
func same(t *testing.T, page []byte, families map[string]*dto.MetricFamily) int {
	t.Helper()
	compared := 0
	for name, family := range families {
		// Of samples with the same labels the largest counts, of those that are
		// numbers of something. A negative one stays if there is no other.
		largest := make(map[string]float64)
		labels := make(map[string]map[string]string)
		for _, m := range family.Metric {
			v, ok := value(m)
			if !ok {
				continue
			}
			l := make(map[string]string)
			for _, pair := range m.Label {
				l[pair.GetName()] = pair.GetValue()
			}
			if !(v >= 0 && v <= math.MaxFloat64) {
				v = -1
			}
			key := fmt.Sprint(l)
			if _, ok := labels[key]; !ok || v > largest[key] {
				largest[key] = v
			}
			labels[key] = l
		}
		for key, l := range labels {
			// Samples with more labels than l match as well.
			want := largest[key]
			for other, ol := range labels {
				within := true
				for k, v := range l {
					within = within && ol[k] == v
				}
				if within && largest[other] > want {
					want = largest[other]
				}
			}
			p := scrape.Profile{Running: []scrape.Metric{{Name: name, Labels: l}}}
			got, err := p.Parse(time.Unix(1, 0), page)
			if err != nil && !errors.Is(err, loadstats.ErrNoReading) {
				t.Fatalf("Parse: %v", err)
			}
			if rounded := loadstats.Rounded(want); got.Running != rounded {
				t.Errorf("%s%v = %v, want %v from %v", name, l, got.Running, rounded, want)
			}
			compared++
		}
	}
	return compared
}

func TestFiles(t *testing.T) {
	files, err := filepath.Glob("../testdata/*.prom")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	compared, refused := 0, make(map[string]bool)
	for _, file := range files {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		families, err := parse(page)
		if err != nil {
			refused[filepath.Base(file)] = true
			continue
		}
		compared += same(t, page, families)
	}
	if compared < 50 {
		t.Errorf("%d samples compared, want at least 50", compared)
	}
	// The parser refuses what is no page, and one page that is: OpenMetrics sent
	// without being asked for. That page is why scrape has its own reader.
	want := map[string]bool{
		"html_error_page.prom": true, "json_detail_401.prom": true, "llamacpp_metrics_disabled_501.prom": true,
		"ollama_404.prom": true, "trtllm_serve_default_path_empty.prom": true,
		"vllm_openmetrics_rust_frontend.prom": true,
	}
	if !maps.Equal(refused, want) {
		t.Errorf("refused %v, want %v", refused, want)
	}
}

func TestRandomPages(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "0", " ", ",", "=", "{", "}", `"`, `\`, "\n", "#", "é", "\t", "n"}
	text := func() string {
		var b strings.Builder
		for range rng.IntN(6) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		return b.String()
	}
	compared := 0
	for range 300 {
		var page bytes.Buffer
		for f := range 1 + rng.IntN(3) {
			name, kind, help := fmt.Sprintf("acme:metric_%d", f), dto.MetricType_GAUGE, text()
			family := &dto.MetricFamily{Name: &name, Type: &kind, Help: &help}
			for range 1 + rng.IntN(4) {
				v := math.Floor(rng.ExpFloat64() * math.Pow(10, float64(rng.IntN(20))))
				if rng.IntN(10) == 0 {
					v = []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0}[rng.IntN(5)]
				}
				m := &dto.Metric{Gauge: &dto.Gauge{Value: &v}}
				for l := range rng.IntN(3) {
					label, value := fmt.Sprintf("label_%d", l), text()
					m.Label = append(m.Label, &dto.LabelPair{Name: &label, Value: &value})
				}
				if rng.IntN(3) == 0 {
					ms := int64(1_782_123_456_789)
					m.TimestampMs = &ms
				}
				family.Metric = append(family.Metric, m)
			}
			if _, err := expfmt.MetricFamilyToText(&page, family); err != nil {
				t.Fatal(err)
			}
		}
		families, err := parse(page.Bytes())
		if err != nil {
			t.Fatalf("%v in\n%s", err, &page)
		}
		compared += same(t, page.Bytes(), families)
		if t.Failed() {
			t.Fatalf("page:\n%s", &page)
		}
	}
	if compared < 1000 {
		t.Errorf("%d samples compared, want at least 1000", compared)
	}
}

// BenchmarkPage reads one page of 1,500 lines with both.
func BenchmarkPage(b *testing.B) {
	var page bytes.Buffer
	page.WriteString("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3\n")
	for h := range 12 {
		fmt.Fprintf(&page, "# TYPE vllm:histogram_%d_seconds histogram\n", h)
		for engine := range 4 {
			const labels = `model_name="/models/meta-llama/Llama-3.3-70B-Instruct-FP8-dynamic"`
			for i := range 29 {
				fmt.Fprintf(&page, "vllm:histogram_%d_seconds_bucket{engine=\"%d\",le=\"%v\",%s} %d.0\n", h, engine, float64(i)*2.5, labels, i*100)
			}
			fmt.Fprintf(&page, "vllm:histogram_%d_seconds_count{engine=\"%d\",%s} 2900.0\n", h, engine, labels)
			fmt.Fprintf(&page, "vllm:histogram_%d_seconds_sum{engine=\"%d\",%s} 290.5\n", h, engine, labels)
		}
	}
	b.Run("reader=scrape", func(b *testing.B) {
		b.SetBytes(int64(page.Len()))
		b.ReportAllocs()
		profile := scrape.AnyEngine()
		for b.Loop() {
			if _, err := profile.Parse(time.Unix(1, 0), page.Bytes()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("reader=expfmt", func(b *testing.B) {
		b.SetBytes(int64(page.Len()))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := parse(page.Bytes()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
