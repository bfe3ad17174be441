package workload_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/warmroute/warmroute/internal/workload"
)

// trace has ticks of one, three and two requests.
const trace = `{"timestamp": 1000, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}
{"timestamp": 2000, "input_length": 1024, "output_length": 6, "hash_ids": [0, 2]}

{"timestamp": 2000, "input_length": 512, "output_length": 7, "hash_ids": [0], "extra": {}}
{"timestamp": 2000, "input_length": 1, "output_length": 8, "hash_ids": [18446744073709551615]}
{"timestamp": 5000, "input_length": 513, "output_length": 9, "hash_ids": [0, 3]}
{"timestamp": 5000, "input_length": 513, "output_length": 10, "hash_ids": [0, 3]}
`

func read(t *testing.T, text string, c workload.TraceConfig) []workload.Arrival {
	t.Helper()
	got, err := workload.ReadTrace(strings.NewReader(text), c)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func times(arrivals []workload.Arrival) []time.Duration {
	var out []time.Duration
	for _, a := range arrivals {
		out = append(out, a.At)
	}
	return out
}

func equal(a, b []time.Duration) bool {
	return len(a) == len(b) && common(a, b) == len(a)
}

func TestReadTrace_SpreadsTicksAndDividesTimes(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name string
		c    workload.TraceConfig
		want []time.Duration
	}{
		{"as it is", workload.TraceConfig{}, []time.Duration{0, s, 2 * s, 3 * s, 4 * s, 4*s + 3*s/2}},
		{"twice as fast", workload.TraceConfig{Speedup: 2}, []time.Duration{0, s / 2, s, 3 * s / 2, 2 * s, 2*s + 3*s/4}},
		{"limit inside a tick", workload.TraceConfig{Limit: 3}, []time.Duration{0, s, 2 * s}},
		{"limit beyond the end", workload.TraceConfig{Limit: 99, Speedup: 1}, []time.Duration{0, s, 2 * s, 3 * s, 4 * s, 4*s + 3*s/2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := times(read(t, trace, tt.c)); !equal(got, tt.want) {
				t.Errorf("arrivals at %v, want %v", got, tt.want)
			}
		})
	}
	if got := times(read(t, trace[:strings.IndexByte(trace, '\n')], workload.TraceConfig{})); !equal(got, []time.Duration{0}) {
		t.Errorf("single request without line end at %v, want 0", got)
	}
}

func TestReadTrace_MakesPromptsOfBlocks(t *testing.T) {
	got := read(t, trace, workload.TraceConfig{})
	sizes := [][2]int{{600, 5}, {1024, 6}, {512, 7}, {1, 8}, {513, 9}, {513, 10}}
	for i, want := range sizes {
		if p, o := got[i].Prompt.Tokens(), got[i].Answer.Tokens; p != want[0] || o != want[1] {
			t.Errorf("request %d: %d tokens in, %d out, want %v", i, p, o, want)
		}
	}
	blocks := func(i int) []uint64 { return got[i].Prompt.EngineBlocks(nil, 16) }
	for _, tt := range []struct{ a, b, want int }{
		{0, 1, 32}, // the first block of 512 is shared, no more
		{1, 2, 32},
		{4, 5, 32}, // and one token, which fills no block of 16
		{0, 3, 0},
	} {
		if got := common(blocks(tt.a), blocks(tt.b)); got != tt.want {
			t.Errorf("requests %d and %d share %d blocks of 16, want %d", tt.a, tt.b, got, tt.want)
		}
	}
	if a, b := got[4].Answer.ID, got[5].Answer.ID; a == b {
		t.Error("two answers are the same")
	}
}

func TestReadTrace_OrderOfLinesDoesNotMatter(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(trace), "\n")
	lines[0], lines[1] = lines[1], lines[0]
	got := read(t, strings.Join(lines, "\n"), workload.TraceConfig{})
	if !equal(times(got), times(read(t, trace, workload.TraceConfig{}))) || got[0].Prompt.Tokens() != 600 {
		t.Errorf("arrivals at %v, the first with %d tokens", times(got), got[0].Prompt.Tokens())
	}
}

func zip(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.Bytes()
}

func TestOpenTrace_ReadsPlainAndGzip(t *testing.T) {
	for name, data := range map[string][]byte{"plain.jsonl": []byte(trace), "zipped.jsonl.gz": zip(trace), "zipped-by-content": zip(trace)} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := workload.OpenTrace(path, workload.TraceConfig{}); err != nil || len(got) != 6 {
			t.Errorf("OpenTrace(%s) = %d requests, %v, want 6", name, len(got), err)
		}
	}
	if _, err := workload.OpenTrace(filepath.Join(t.TempDir(), "none"), workload.TraceConfig{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenTrace(missing file) = %v, want fs.ErrNotExist", err)
	}
}

func TestReadTrace_ErrorsNameTheLine(t *testing.T) {
	const good = `{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [0]}` + "\n"
	for _, tt := range []struct {
		name, text, want string
		c                workload.TraceConfig
	}{
		{name: "not JSON", text: good + "hello\n", want: "trace line 2: invalid character 'h'"},
		{name: "wrong type", text: `{"timestamp": "now"}`, want: "trace line 1: json: cannot unmarshal string"},
		{name: "negative time", text: good + "\n" + strings.Replace(good, "0,", "-3,", 1), want: "trace line 3: timestamp -3 "},
		{name: "no input", text: `{"output_length": 1}`, want: "line 1: input_length 0, want at least 1"},
		{name: "no output", text: `{"input_length": 1, "output_length": -1}`, want: "line 1: output_length -1, want at least 1"},
		{name: "blocks missing", text: strings.Replace(good, "1,", "513,", 1), want: "line 1: 1 hash_ids for an input_length of 513, want one for each 512 tokens"},
		{name: "negative block", text: strings.Replace(good, "[0]", "[-1]", 1), want: "line 1: json: cannot unmarshal number -1"},
		{name: "empty", text: "\n\n", want: "trace has no requests"},
		{name: "cut gzip", text: string(zip(trace)[:60]), want: "unexpected EOF"},
		{name: "bad gzip", text: "\x1f\x8b\x00", want: "workload: trace: "},
		{name: "negative limit", text: good, c: workload.TraceConfig{Limit: -1}, want: "Limit -1 is negative"},
		{name: "negative speed-up", text: good, c: workload.TraceConfig{Speedup: -2}, want: "Speedup -2 is outside"},
		{name: "time beyond int64", text: good + strings.Replace(good, "0,", "4e12,", 1), c: workload.TraceConfig{Speedup: 0.01}, want: "Speedup 0.01 stretches"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := workload.ReadTrace(strings.NewReader(tt.text), tt.c)
			if err == nil || !strings.HasPrefix(err.Error(), "workload: ") || !strings.Contains(err.Error(), tt.want) || got != nil {
				t.Errorf("ReadTrace = %v, %v, want an error with %q", got, err, tt.want)
			}
		})
	}
	broken := errors.New("broken")
	if _, err := workload.ReadTrace(iotest.ErrReader(broken), workload.TraceConfig{}); !errors.Is(err, broken) {
		t.Errorf("ReadTrace(broken reader) = %v, want its error", err)
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add([]byte(trace))
	f.Add(zip(trace))
	f.Add([]byte(`{"timestamp": 4e12, "input_length": 1, "output_length": 1, "hash_ids": [0]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		arrivals, err := workload.ReadTrace(bytes.NewReader(data), workload.TraceConfig{})
		if (err == nil) != (len(arrivals) > 0) {
			t.Fatalf("ReadTrace = %d requests, %v", len(arrivals), err)
		}
		var before time.Duration
		for i, a := range arrivals {
			if a.At < before || a.Prompt.Tokens() < 1 || a.Answer.Tokens < 1 {
				t.Fatalf("request %d after %v: %+v", i, before, a)
			}
			before = a.At
		}
	})
}

func TestReadTrace_FindsConversations(t *testing.T) {
	const text = `{"timestamp":0,"input_length":1100,"output_length":1,"hash_ids":[0,1,2]}
{"timestamp":1,"input_length":1024,"output_length":1,"hash_ids":[0,9]}
{"timestamp":2,"input_length":1600,"output_length":1,"hash_ids":[0,1,5,6]}
{"timestamp":3,"input_length":600,"output_length":1,"hash_ids":[0,7]}
{"timestamp":4,"input_length":2048,"output_length":1,"hash_ids":[0,1,5,8]}
{"timestamp":5,"input_length":1024,"output_length":1,"hash_ids":[0,3]}
{"timestamp":6,"input_length":1536,"output_length":1,"hash_ids":[0,9,4]}
`
	want := []string{"session-0 0", "session-1 0", "session-0 1", "session-2 0", "session-0 2", "session-3 0", "session-1 1"}
	for i, a := range read(t, text, workload.TraceConfig{}) {
		if got := fmt.Sprint(a.Session, " ", a.Turn); got != want[i] {
			t.Errorf("request %d belongs to %s, want %s", i, got, want[i])
		}
	}
}
