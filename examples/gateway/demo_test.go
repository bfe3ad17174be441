package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
)

// A short demo over real HTTP. It shows that everything counts and nothing is
// lost; what the figures are is for longer ones.
func TestDemo_JSON(t *testing.T) {
	var stdout, stderr bytes.Buffer
	args := "-demo -json -policies round_robin,affinity -requests 60 -streams 12 -engines 2 -speed 200"
	if got := run(t.Context(), strings.Fields(args), &stdout, &stderr); got != 0 || stderr.Len() > 0 {
		t.Fatalf("run = %d, stderr %q", got, stderr.String())
	}
	lines := bytes.Split(bytes.TrimSpace(stdout.Bytes()), []byte("\n"))
	if len(lines) != 2 {
		t.Fatalf("%d lines, want one for each policy:\n%s", len(lines), stdout.String())
	}
	for i, name := range []string{"round_robin", "affinity"} {
		var r map[string]any
		if err := json.Unmarshal(lines[i], &r); err != nil {
			t.Fatal(err)
		}
		if r["policy"] != name || r["requests"] != 60.0 || r["lost"] != 0.0 {
			t.Errorf("result = %s, want 60 requests of %s, none lost", lines[i], name)
		}
		ttft := r["ttft_ms"].(map[string]any)
		for _, key := range []string{"mean", "p50", "p90", "p99"} {
			if v, ok := ttft[key].(float64); !ok || v <= 0 {
				t.Errorf("ttft_ms.%s = %v, want a time", key, ttft[key])
			}
		}
		if hit := r["hit_rate"].(float64); hit <= 0 || hit > 1 || r["imbalance"].(float64) < 1 || r["req_s"].(float64) <= 0 {
			t.Errorf("result = %s", lines[i])
		}
	}
}

const trace = `{"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [0, 1]}
{"timestamp": 0, "input_length": 1500, "output_length": 5, "hash_ids": [0, 1, 2]}
{"timestamp": 3000, "input_length": 600, "output_length": 5, "hash_ids": [0, 3]}
{"timestamp": 6000, "input_length": 1500, "output_length": 5, "hash_ids": [0, 1, 2]}
`

func TestDemo_Trace(t *testing.T) {
	file := t.TempDir() + "/trace.jsonl"
	if err := os.WriteFile(file, []byte(trace), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	args := "-demo -policies prefix_hash,affinity -engines 2 -speed 50 -speedup 2 -requests 4 -trace " + file
	if got := run(t.Context(), strings.Fields(args), &stdout, &stderr); got != 0 {
		t.Fatalf("run = %d, stderr %q", got, stderr.String())
	}
	text := stdout.String()
	for _, want := range []string{"prefix_hash         4     0", "affinity         4     0", "TTFT mean", file} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("table lacks %q:\n%s", want, text)
		}
	}
}

func TestDemo_Interrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	var stdout, stderr bytes.Buffer
	got := run(ctx, strings.Fields("-demo -policies affinity -engines 1 -streams 3"), &stdout, &stderr)
	if got != 1 || stdout.Len() > 0 || !strings.HasSuffix(stderr.String(), "interrupted\n") {
		t.Errorf("run = %d, %q, %q; want 1 and nothing but a word on stderr", got, stdout.String(), stderr.String())
	}
}

func TestMeasurement_Result(t *testing.T) {
	m := &measurement{from: 10 * time.Second}
	for i := 1; i <= 100; i++ {
		m.end(sample{sent: 20 * time.Second, ttft: time.Duration(i) * time.Millisecond, e2e: time.Duration(i) * time.Second, promptTokens: 100, cachedTokens: 25})
	}
	m.end(sample{sent: 5 * time.Second, ttft: time.Hour, promptTokens: 1}) // warm-up
	m.end(sample{sent: 20 * time.Second, err: errors.New("first")})
	m.end(sample{sent: 20 * time.Second, err: errors.New("second")})
	r := m.result("p", 60*time.Second, []time.Duration{3 * time.Second, time.Second})
	if r.Requests != 100 || r.Lost != 2 || r.firstError.Error() != "first" {
		t.Errorf("requests %d, lost %d, %v; want 100, 2, first", r.Requests, r.Lost, r.firstError)
	}
	if r.HitRate != 0.25 || r.RequestsPerSecond != 2 || r.Imbalance != 1.5 {
		t.Errorf("hit rate %v, %v a second, imbalance %v; want 0.25, 2, 1.5", r.HitRate, r.RequestsPerSecond, r.Imbalance)
	}
	if r.TTFT.Mean != 50.5 || r.TTFT.P50 != 50 || r.TTFT.P90 != 90 || r.TTFT.P99 != 99 || r.E2E.P50 != 50_000 {
		t.Errorf("TTFT = %+v, E2E %+v", r.TTFT, r.E2E)
	}
	if r := new(measurement).result("p", 0, nil); r.Requests != 0 || r.HitRate != 0 || r.TTFT.P50 != 0 || r.Imbalance != 0 {
		t.Errorf("result of nothing = %+v", r)
	}
}

func TestMeasurement_Begin(t *testing.T) {
	m := &measurement{from: 10}
	for i, c := range []struct {
		now  time.Duration
		want bool
	}{{5, true}, {9, true}, {10, true}, {11, true}, {12, false}, {13, false}} {
		if got := m.begin(c.now, 2); got != c.want {
			t.Errorf("begin %d at %d = %v, want %v", i, c.now, got, c.want)
		}
	}
}

func TestClient_Read(t *testing.T) {
	const usage = `data: {"choices":[],"usage":{"prompt_tokens":12,"prompt_tokens_details":{"cached_tokens":8}}}` + "\n\n"
	for _, c := range []struct {
		name, stream string
		ok           bool
	}{
		{"whole", "data: {}\n\n" + usage + "data: [DONE]\n\n", true},
		{"no end", "data: {}\n\n" + usage, false},
		{"no usage", "data: {}\n\ndata: [DONE]\n\n", false},
		{"bad usage", `data: {"usage":{"prompt_tokens":"x"}}` + "\n\ndata: [DONE]\n\n", false},
		{"nothing", "", false},
	} {
		var s sample
		cl := newClient("http://x", newClock(1))
		err := cl.read(bufio.NewReader(strings.NewReader(c.stream)), &s)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v, want ok = %v", c.name, err, c.ok)
		}
		if c.ok && (s.promptTokens != 12 || s.cachedTokens != 8 || s.ttft <= 0) {
			t.Errorf("%s: sample = %+v", c.name, s)
		}
	}
}

func TestPrefixHash(t *testing.T) {
	p := &balancer.PickInfo{Keyed: true, Candidates: []balancer.Candidate{
		{ID: "home", Weight: 1, Load: loadstats.Load{InFlight: 119}}, {ID: "next", Weight: 1},
	}}
	for _, c := range []struct{ inFlight, want int }{{119, 0}, {120, 1}} {
		p.Candidates[0].Load.InFlight = c.inFlight
		if got, err := (prefixHash{}).Choose(p); err != nil || got.Index != c.want {
			t.Errorf("Choose with %d in flight at home = %d, %v; want %d", c.inFlight, got.Index, err, c.want)
		}
	}
	if _, err := (prefixHash{}).Choose(&balancer.PickInfo{Keyed: true}); !errors.Is(err, balancer.ErrNoCandidates) {
		t.Errorf("Choose of nobody = %v, want ErrNoCandidates", err)
	}
}

func TestProgress_OnlyOnTerminals(t *testing.T) {
	var b bytes.Buffer
	newProgress(&b, "p").follow(newClock(1), traceLoad{}, new(measurement))()
	if b.Len() > 0 {
		t.Errorf("progress wrote %q to no terminal", b.String())
	}
	p := &progress{terminal: &b, name: "affinity"}
	m := &measurement{}
	m.end(sample{ttft: 200 * time.Millisecond, promptTokens: 100, cachedTokens: 95})
	if got := p.line(time.Second, traceLoad{{}, {}}, m); !strings.Contains(got, "50 %") || !strings.Contains(got, "200ms") || !strings.Contains(got, "95.0 %") {
		t.Errorf("line = %q", got)
	}
	p.follow(newClock(1), traceLoad{{}}, m)()
	if b.Len() == 0 {
		t.Error("progress wrote nothing to a terminal")
	}
}
