package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router/routertest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// output runs the program and returns what it prints.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if status := run(context.Background(), args, &stdout, &stderr); status != 0 {
		t.Fatalf("run(%q) = %d: %s", args, status, stderr.String())
	}
	return stdout.String()
}

// small is a scenario that all policies get through in a moment.
var small = []string{"-swarm", "12", "-warmup", "5s", "-duration", "40s", "-endpoints", "4", "-crash", "20s:1", "-join", "25s"}

// The same bytes on every machine, in every run, whatever runs beside it.
func TestSimulate_SameBytes(t *testing.T) {
	args := append(slices.Clone(small), "-format", "csv", "-seeds", "2", "-policies")
	first := output(t, append(args, "all,ablation")...)
	before := runtime.GOMAXPROCS(1)
	second := output(t, append(args, "affinity,gie,power_of_two,preble_e2")...)
	runtime.GOMAXPROCS(before)
	for line := range strings.Lines(second) {
		if !strings.Contains(first, line) {
			t.Errorf("with one processor it printed %swith more\n%s", line, first)
		}
	}
	golden := filepath.Join("testdata", "small.csv")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(first), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	if first != string(want) {
		t.Errorf("printed\n%s\nwant\n%s", first, want)
	}
}

func TestSimulate_CSVHasTheColumns(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(output(t, append(slices.Clone(small), "-policies", "affinity", "-format", "csv")...))).ReadAll()
	require.NoError(t, err)
	const want = "policy,requests,hit_rate,ttft_mean,ttft_p50,ttft_p90,ttft_p99,e2e_p50,e2e_p99,tpot,req_s,imbalance,timeouts,lost"
	if got := strings.Join(rows[0], ","); got != want || len(rows) != 2 || rows[1][0] != "affinity" {
		t.Errorf("printed %q, want the columns %s and a row of affinity", rows, want)
	}
}

func TestSimulate_FormatsAgree(t *testing.T) {
	args := append(slices.Clone(small), "-policies", "affinity,round_robin", "-format")
	var rows []row
	d := json.NewDecoder(strings.NewReader(output(t, append(args, "json")...)))
	for {
		var r row
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	if len(rows) != 2 || rows[0].Requests == 0 {
		t.Fatalf("JSON of %d rows: %+v, want 2", len(rows), rows)
	}
	for _, format := range []string{"csv", "table", "markdown"} {
		text := output(t, append(args, format)...)
		for i := range rows {
			fields := rows[i].cells()
			if format == "csv" {
				fields = rows[i].fields()
			}
			for _, f := range fields {
				if !strings.Contains(text, f) {
					t.Errorf("%s has no %q of %s:\n%s", format, f, rows[i].Policy, text)
				}
			}
		}
	}
}

// Who joins gets a share, who crashes loses what it had.
func TestSimulate_TellsWhatFollowsAChange(t *testing.T) {
	args := []string{"-swarm", "30", "-warmup", "1s", "-duration", "130s", "-crash", "40s:3", "-join", "80s", "-policies", "affinity,round_robin", "-format"}
	table := output(t, append(args, "table")...)
	for _, says := range []string{"After the crash of e3 at 40s:", "After the join of e8 at 1m20s:", "share of even, 0-30 s"} {
		if !strings.Contains(table, says) {
			t.Errorf("the table does not say %q:\n%s", says, table)
		}
	}
	markdown := output(t, append(args, "markdown")...)
	rows := regexp.MustCompile(`(?m)^\| \*\*affinity\*\* (.*)$`).FindAllString(markdown, -1)
	if len(rows) != 3 {
		t.Fatalf("%d rows of affinity, want 3:\n%s", len(rows), markdown)
	}
	crash, join := strings.Split(rows[1], " | "), strings.Split(rows[2], " | ")
	if crash[7] == "0.0" || crash[8] == "0.0 |" {
		t.Errorf("after the crash %q: want some displaced and lost", crash)
	}
	if share := join[len(join)-4]; share == "0.00" {
		t.Errorf("after the join %q: want a share from 30 to 60 s", join)
	}
}

func TestSimulate_Trace(t *testing.T) {
	const lines = `{"timestamp":0,"input_length":1024,"output_length":3,"hash_ids":[1,2]}
{"timestamp":1000,"input_length":1600,"output_length":3,"hash_ids":[1,2,3,4]}
`
	name := filepath.Join(t.TempDir(), "trace.jsonl")
	require.NoError(t, os.WriteFile(name, []byte(lines), 0o600))
	if got := output(t, "-trace", name, "-policies", "affinity", "-format", "csv"); !strings.Contains(got, "\naffinity,2,0.3902,") {
		t.Errorf("printed %s, want 2 requests with 1,024 of 2,624 tokens cached", got)
	}
	if got := output(t, "-trace", name, "-limit", "1", "-policies", "affinity", "-format", "csv"); !strings.Contains(got, "\naffinity,1,0.0000,") {
		t.Errorf("printed %s, want 1 request", got)
	}
	if got := output(t, "-chat", "20", "-duration", "20s", "-policies", "affinity", "-format", "csv"); !strings.Contains(got, "\naffinity,4") && !strings.Contains(got, "\naffinity,3") {
		t.Errorf("printed %s, want about 400 requests", got)
	}
}

// Each flag reaches the scenario.
func TestOptions_Scenario(t *testing.T) {
	o, err := parseOptions(strings.Fields("-swarm 20 -endpoints 3 -kv-tokens 1000 -crash 20s:1 -join 30s -join 10s:1 -slow 5s:2:0.5 -drain 6s:0 -restart 7s:0"+
		" -gateways 2 -sticky -announce 100ms -discovery 1s -latency 2ms -timeout 5s -duplicates 1 -cancel -reports 3s -faults late -seed 9"), io.Discard)
	require.NoError(t, err)
	w, err := o.workload(9)
	require.NoError(t, err)
	s := o.scenario(w, 9)
	var changes []string
	for _, c := range s.Changes {
		changes = append(changes, c.At.String()+" "+c.Kind.String())
	}
	require.Equal(t, []string{"5s slow", "6s drain", "7s restart", "10s join", "20s crash", "30s join"}, changes)
	if c := s.Changes; c[0].Speed != 0.5 || c[0].Endpoint != 2 || c[3].Endpoint != 1 || c[5].Endpoint != 3 {
		t.Errorf("changes %+v", c)
	}
	if len(s.Engines) != 3 || s.Engines[2].KVCacheTokens != 1000 || s.Seed != 9 || s.Reports.Every.String() != "3s" || s.Reports.Late.String() != "4s" {
		t.Errorf("scenario %+v", s)
	}
	if g := s.Gateways; g.Count != 2 || !g.Sticky || g.AnnounceDelay.String() != "100ms" || g.Discovery.String() != "1s" || g.Latency.String() != "2ms" {
		t.Errorf("gateways %+v", g)
	}
	if c := s.Clients; c.Timeout.String() != "5s" || c.Duplicates != 1 || !c.Cancel {
		t.Errorf("clients %+v", c)
	}
	if want := "20 agents in a closed loop, 3 engines of 1,000 KV tokens, 2 gateways (sticky) that announce with a delay of 100ms, reports each 3s, faulty reports: late, clients that send again after 5s, up to 1 times"; !strings.HasPrefix(o.describe(), want) {
		t.Errorf("describe() = %s, want %s", o.describe(), want)
	}
}

// Faults are those of some engines, and the same each time.
func TestFaults(t *testing.T) {
	at := time.Unix(1_000_000, 0).Add(70 * time.Second)
	say := func(fault, endpoint string) string {
		var reports routertest.Reports
		faults[fault](&reports)
		r := loadstats.Report{At: at, Running: loadstats.Known(3), Waiting: loadstats.Known(2)}
		if reports.Alter != nil && !reports.Alter(endpoint, &r) {
			return "nothing"
		}
		running, _ := r.Running.Get()
		waiting, _ := r.Waiting.Get()
		return fmt.Sprint(running, " ", waiting)
	}
	for _, c := range []struct{ fault, endpoint, want string }{
		{"missing", "e0", "3 2"}, {"missing", "e1", "nothing"}, {"stopped", "e0", "nothing"}, {"late", "e1", "3 2"},
		{"idle", "e11", "0 0"}, {"idle", "e10", "3 2"}, {"full", "e7", "256 50"}, {"full", "e6", "3 2"},
		{"mixed", "e0", "3 2"}, {"mixed", "e1", "nothing"}, {"mixed", "e3", "0 0"}, {"mixed", "e5", "256 50"}, {"mixed", "e7", say("random", "e7")},
	} {
		if got := say(c.fault, c.endpoint); got != c.want {
			t.Errorf("%s: %s says %s, want %s", c.fault, c.endpoint, got, c.want)
		}
	}
	if a, b := say("random", "e0"), say("random", "e1"); a == b || a == "3 2" {
		t.Errorf("random: e0 says %s, e1 %s", a, b)
	}
}

func TestOptions_Errors(t *testing.T) {
	for args, says := range map[string]string{
		"":                                    "want one of -trace",
		"-swarm 1 -chat 1":                    "want one of -trace",
		"-swarm 1 extra":                      `"extra" is not a flag`,
		"-swarm 1 -policies affinity,nobody":  `"nobody" is not a policy`,
		"-swarm 1 -format xml":                `"xml" is none of csv, json, markdown, table`,
		"-swarm 1 -endpoints 0":               "-endpoints 0",
		"-swarm 1 -seeds 0":                   "-seeds 0",
		"-trace x -seeds 2":                   "-seeds makes no sense",
		"-trace x -duration 5s":               "-duration 5s makes no sense",
		"-swarm 1 -duration -5s":              "-duration -5s",
		"-swarm 1 -warmup -5s":                "-warmup -5s",
		"-swarm 1 -crash 5s":                  "want 2 parts",
		"-swarm 1 -slow 5s:1":                 "want 3 parts",
		"-swarm 1 -slow 5s:1:fast":            `"fast" is not a number`,
		"-swarm 1 -crash 5s:x":                `"x" is not a number`,
		"-swarm 1 -crash soon:1":              "soon",
		"-swarm 1 -scrape 0s":                 "-scrape 0s",
		"-swarm 1 -gateways 0":                "-gateways 0",
		"-swarm 1 -gateways 100000000":        "-gateways 100000000",
		"-trace x -speedup 0":                 "-speedup 0",
		"-trace x -speedup NaN":               "-speedup NaN",
		"-swarm 1 -speedup NaN":               "-speedup NaN",
		"-swarm 1 -speedup 2":                 "-speedup 2 needs -trace",
		"-trace x -limit -4":                  "-limit -4",
		"-chat 1 -limit -4":                   "-limit -4",
		"-swarm 1 -kv-tokens 0":               "-kv-tokens 0",
		"-swarm 1 -faults all":                `"all" is none of full, idle, late, missing, mixed, random, stopped`,
		"-swarm 1 -nonsense":                  "nonsense",
		"-swarm -1":                           "Streams -1",
		"-swarm 1 -crash 5s:8":                "Endpoint 8",
		"-trace missing":                      "missing",
		"-swarm 1 -duration 1s -policies gie": "WarmUp",
	} {
		var stdout, stderr bytes.Buffer
		if status := run(context.Background(), strings.Fields(args), &stdout, &stderr); status == 0 || !strings.Contains(stderr.String(), says) {
			t.Errorf("run(%q) = %d with %q, want an error that says %s", args, status, stderr.String(), says)
		}
		if said := stderr.String(); strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "simulate: ") {
			t.Errorf("run(%q) says %q, want one line", args, said)
		}
	}
}

func TestRun_Interrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stderr bytes.Buffer
	if status := run(ctx, small, io.Discard, &stderr); status != 1 || !strings.Contains(stderr.String(), "canceled") {
		t.Errorf("run = %d with %q, want 1 and that it was canceled", status, stderr.String())
	}
}

func TestRun_ListAndHelp(t *testing.T) {
	list := output(t, "-list")
	for _, p := range append(comparison(), ablation()...) {
		if !strings.Contains(list, p.name+" ") {
			t.Errorf("-list has no %s:\n%s", p.name, list)
		}
	}
	var stderr bytes.Buffer
	if status := run(context.Background(), []string{"-h"}, io.Discard, &stderr); status != 0 || !strings.Contains(stderr.String(), "-speedup") {
		t.Errorf("run(-h) = %d with %q", status, stderr.String())
	}
}

// A page stands for itself: nothing is loaded from elsewhere, all drawings are
// well formed, everybody is on it, and it is the same twice.
func TestPage(t *testing.T) {
	o, err := parseOptions(append(slices.Clone(small), "-policies", "all"), io.Discard)
	require.NoError(t, err)
	results, err := o.compare(t.Context(), &progress{})
	require.NoError(t, err)
	write := func() string {
		file := filepath.Join(t.TempDir(), "page.html")
		require.NoError(t, writePage(file, o.describe(), o.changes, results))
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(text)
	}
	text := write()
	if write() != text {
		t.Error("the second page differs from the first")
	}
	for _, outside := range []string{"http:", "https:", "<script", "src=", "@import", "url("} {
		if strings.Contains(text, outside) {
			t.Errorf("the page has %q", outside)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Error("the page has coordinates that are no numbers")
	}
	for _, p := range comparison() {
		if !strings.Contains(text, ">"+p.name+"<") {
			t.Errorf("%s is not on the page", p.name)
		}
	}
	drawings := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(text, -1)
	if want := 4 + maxCurves; len(drawings) != want {
		t.Errorf("%d drawings, want %d", len(drawings), want)
	}
	for _, d := range drawings {
		for x := xml.NewDecoder(strings.NewReader(d)); ; {
			if _, err := x.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in %.200s", err, d)
			}
		}
	}
	for _, words := range []string{"crash e1", "join e4", "12 agents", "After the crash of e1 at 20s", "After the join of e4 at 25s"} {
		if !strings.Contains(text, words) {
			t.Errorf("the page does not say %q", words)
		}
	}
}

func TestPage_OnePolicyWithoutRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.html")
	output(t, "-swarm", "1", "-warmup", "1s", "-duration", "3s", "-endpoints", "1", "-crash", "0s:0", "-policies", "affinity", "-html", file)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	if strings.Contains(string(text), "NaN") || strings.Contains(string(text), "Inf") {
		t.Error("the page has coordinates that are no numbers")
	}
	if err := writePage(filepath.Join(t.TempDir(), "no", "such"), "", nil, nil); err == nil {
		t.Error("a page in a directory that does not exist: no error")
	}
}

func TestThousands(t *testing.T) {
	for in, want := range map[string]string{"0": "0", "999": "999", "1000": "1,000", "1234567": "1,234,567"} {
		if got := thousands(in); got != want {
			t.Errorf("thousands(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for ms, want := range map[float64]string{0: "0 ms", 999: "999 ms", 1500: "1.5 s", 30_000: "30 s", 300_000: "5 min"} {
		if got := duration(ms); got != want {
			t.Errorf("duration(%v) = %s, want %s", ms, got, want)
		}
	}
}

func TestSteps(t *testing.T) {
	require.Equal(t, []float64{0, 20, 40, 60, 80, 100}, steps(100, 5))
	require.Equal(t, []float64{0, 50, 100, 150, 200, 250, 300, 350, 400}, steps(400, 8))
	require.Equal(t, []float64{0}, steps(0, 8))
	require.Equal(t, []float64{300, 1000, 3000}, decades(200, 5000))
}
