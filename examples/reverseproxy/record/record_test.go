package record_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/examples/reverseproxy/record"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// line is what a reader of the trace sees.
type line struct {
	Timestamp    float64  `json:"timestamp"`
	InputLength  int      `json:"input_length"`
	OutputLength int      `json:"output_length"`
	HashIDs      []uint64 `json:"hash_ids"`
	Outcome      string   `json:"outcome"`
	Status       int      `json:"status"`
	TTFT         float64  `json:"ttft"`
	E2E          float64  `json:"e2e"`
	PromptTokens *int     `json:"prompt_tokens"`
	CachedTokens *int     `json:"cached_tokens"`
}

func parse(t *testing.T, text string) []line {
	t.Helper()
	var lines []line
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var l line
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return lines
		} else if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		lines = append(lines, l)
	}
}

func newRecorder(t testing.TB, c record.Config) *record.Recorder {
	t.Helper()
	r, err := record.New(c)
	require.NoError(t, err)
	return r
}

// written is what the recorder would write now.
func written(t *testing.T, r *record.Recorder) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var b bytes.Buffer
	require.NoError(t, r.Run(ctx, &b))
	return b.String()
}

// serve lets a recorder see a request with a prompt, and its answer.
func serve(r *record.Recorder, s *tokenprefix.Signature, answer http.HandlerFunc) {
	h := r.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.Refine(req, nil, &router.Request{Prefix: s})
		answer(w, req)
	}))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil))
}

func ok(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") }

// tokens returns the signature of a prompt of token ids.
func tokens(blockTokens, n int) *tokenprefix.Signature {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = uint32(i)
	}
	s := new(tokenprefix.Signature)
	(&tokenprefix.Hasher{BlockTokens: blockTokens}).Tokens(s, tokenprefix.Scope{}, ids)
	return s
}

// The hashes name blocks of 512 tokens, the last one what is left, whatever the
// blocks of the signature are.
func TestRecorder_BlocksOf512Tokens(t *testing.T) {
	for _, blockTokens := range []int{1, 16, 256, 512} {
		r := newRecorder(t, record.Config{})
		sizes := []int{1, 255, 256, 300, 511, 512, 513, 768, 1024, 5000}
		for _, n := range sizes {
			serve(r, tokens(blockTokens, n), ok)
		}
		lines := parse(t, written(t, r))
		if len(lines) != len(sizes) {
			t.Fatalf("%d lines, want %d", len(lines), len(sizes))
		}
		longest := lines[len(lines)-1].HashIDs
		for i, l := range lines {
			if l.InputLength != sizes[i] || len(l.HashIDs) != (sizes[i]+511)/512 {
				t.Errorf("blocks of %d, a prompt of %d: input_length %d, %d hashes", blockTokens, sizes[i], l.InputLength, len(l.HashIDs))
			}
			for k := range sizes[i] / 512 {
				if l.HashIDs[k] != longest[k] {
					t.Errorf("blocks of %d, a prompt of %d: hash %d differs from that of a prompt that continues it", blockTokens, sizes[i], k)
				}
			}
		}
	}
}

// What can't be said in blocks of 512 is skipped and counted.
func TestRecorder_Skips(t *testing.T) {
	r := newRecorder(t, record.Config{})
	for _, s := range []*tokenprefix.Signature{nil, new(tokenprefix.Signature), tokens(100, 5000), tokens(1024, 5000)} {
		serve(r, s, ok)
	}
	if got, text := r.Stats(), written(t, r); got != (record.Stats{Skipped: 4}) || text != "" {
		t.Errorf("Stats() = %+v and %q written, want 4 skipped and nothing", got, text)
	}
	// A Refine without a Handler around it has nothing to write to.
	r.Refine(httptest.NewRequest(http.MethodPost, "/", nil), nil, &router.Request{Prefix: tokens(256, 600)})
	if got := r.Stats(); got.Skipped != 4 {
		t.Errorf("Stats() = %+v, want it unchanged", got)
	}
}

// Sizes are in the measure of the blocks, however long the engine's tokens are.
func TestRecorder_SizesFitTheHashes(t *testing.T) {
	for _, bytesPerToken := range []int{2, 3, 7} {
		h := new(tokenprefix.Hasher)
		s := new(tokenprefix.Signature)
		r := newRecorder(t, record.Config{})
		for _, size := range []int{1000, 2047, 2048, 2049, 9000, 40_000, 100_000} {
			h.Text(s, tokenprefix.Scope{}, bytes.Repeat([]byte("abcd"), size/4+1)[:size])
			h.Observe(s, size/bytesPerToken)
			h.Text(s, tokenprefix.Scope{}, bytes.Repeat([]byte("abcd"), size/4+1)[:size])
			serve(r, s, ok)
			lines := parse(t, written(t, r))
			got := lines[len(lines)-1]
			if want := size / 4; got.InputLength < want-80 || got.InputLength > want+80 || len(got.HashIDs) != (got.InputLength+511)/512 {
				t.Errorf("%d bytes: input_length %d with %d hashes, want about %d", size, got.InputLength, len(got.HashIDs), want)
			}
		}
	}
}

// Hashes depend on the salt and on nothing else.
func TestRecorder_Salt(t *testing.T) {
	ids := func(c record.Config) []uint64 {
		r := newRecorder(t, c)
		serve(r, tokens(256, 5000), ok)
		return parse(t, written(t, r))[0].HashIDs
	}
	salt := []byte("sixteen bytes or more")
	a, again, other := ids(record.Config{Salt: salt}), ids(record.Config{Salt: salt}), ids(record.Config{Salt: []byte("sixteen other bytes")})
	require.Equal(t, a, again)
	for _, different := range [][]uint64{other, ids(record.Config{}), ids(record.Config{})} {
		for i := range a {
			if a[i] == different[i] || a[i]>>53 != 0 {
				t.Errorf("hash %d is %d with the salt, %d without", i, a[i], different[i])
			}
		}
	}
}

func TestNew_Errors(t *testing.T) {
	for says, c := range map[string]record.Config{
		"Config.Salt has 15 bytes": {Salt: make([]byte, 15)},
		"Config.MaxBuffer -1":      {MaxBuffer: -1},
	} {
		if _, err := record.New(c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("New = %v, want an error that says %s", err, says)
		}
	}
}

// Output lengths are what the answer tells, or else an estimate.
func TestRecorder_OutputLength(t *testing.T) {
	for _, c := range []struct {
		name, contentType, body string
		output, prompt, cached  int // prompt, cached -1: nothing told
	}{
		{"chat", "application/json", `{"choices":[],"usage":{"prompt_tokens":900,"completion_tokens":77,"prompt_tokens_details":{"cached_tokens":512}}}`, 77, 900, 512},
		{"responses", "application/json", `{"usage":{"input_tokens": 900,"input_tokens_details":{"cached_tokens": 0},"output_tokens" : 5}}`, 5, 900, 0},
		{"messages", "application/json", `{"usage":{"input_tokens":100,"cache_creation_input_tokens":200,"cache_read_input_tokens":600,"output_tokens":9}}`, 9, 900, 600},
		{"stream with usage", "text/event-stream", "data: {\"a\":1}\n\ndata: {\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":40}}\n\ndata: [DONE]\n\n", 40, 8, -1},
		{"stream without", "text/event-stream; charset=utf-8", ": ping\n\nevent: x\ndata: a\n\ndata: b\ndata\ndate: c\n xdata: d\ndata:e", 3, -1, -1},
		{"whole without", "application/json", strings.Repeat("x", 400), 100, -1, -1},
		{"what a model says", "application/json", `{"text":"\"completion_tokens\": 5,","usage":{"completion_tokens":3}}`, 3, -1, -1},
		{"only what a model says", "application/json", `{"text":"\"completion_tokens\": 5,"}`, 9, -1, -1},
		{"cut off", "application/json", `"completion_tokens":12`, 5, -1, -1},
		{"absurd", "application/json", `{"completion_tokens":99999999999999999999}`, 10, -1, -1},
		{"null", "application/json", `{"completion_tokens":null}`, 6, -1, -1},
		{"not whole", "application/json", `{"prompt_tokens":5.5,"completion_tokens":7.0,"cached_tokens":1e3}`, 16, -1, -1},
		{"not whole for OpenAI", "application/json", `{"prompt_tokens":5E1,"input_tokens":6,"output_tokens":9}`, 9, 6, -1},
		{"nothing", "application/json", "", 1, -1, -1},
		{"long", "application/json", `{"completion_tokens":1,` + strings.Repeat("x", 5000) + `"completion_tokens":2}`, 2, -1, -1},
	} {
		for _, pieces := range []int{1, 7, 100_000} {
			r := newRecorder(t, record.Config{})
			serve(r, tokens(256, 900), func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.contentType)
				for rest := c.body; rest != ""; {
					n := min(len(rest), pieces)
					io.WriteString(w, rest[:n])
					rest = rest[n:]
				}
			})
			l := parse(t, written(t, r))[0]
			told := func(n *int) int {
				if n == nil {
					return -1
				}
				return *n
			}
			if l.OutputLength != c.output || told(l.PromptTokens) != c.prompt || told(l.CachedTokens) != c.cached {
				t.Errorf("%s in pieces of %d: output_length %d, prompt_tokens %d, cached_tokens %d, want %d, %d, %d",
					c.name, pieces, l.OutputLength, told(l.PromptTokens), told(l.CachedTokens), c.output, c.prompt, c.cached)
			}
		}
	}
}

// Times are those of the clock that was given, from the making of the recorder.
func TestRecorder_Times(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := newRecorder(t, record.Config{Now: func() time.Time { return now }})
	now = now.Add(1234567 * time.Microsecond)
	serve(r, tokens(256, 900), func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		now = now.Add(200 * time.Millisecond)
		w.WriteHeader(http.StatusOK)
		now = now.Add(50 * time.Millisecond)
		io.WriteString(w, "a")
		now = now.Add(time.Second)
		io.WriteString(w, "b")
	})
	l := parse(t, written(t, r))[0]
	if l.Timestamp != 1234.567 || l.TTFT != 250 || l.E2E != 1250 || l.Status != 200 || l.Outcome != "answered" {
		t.Errorf("%+v, want it at 1234.567 with a TTFT of 250 and an E2E of 1250, answered with 200", l)
	}
}

// However a request ends, it has a line, and what the handler does to its caller
// is what it did without a recorder.
func TestRecorder_Outcomes(t *testing.T) {
	r := newRecorder(t, record.Config{})
	serve(r, tokens(256, 900), ok)
	serve(r, tokens(256, 900), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	func() {
		defer func() {
			if got := recover(); got != http.ErrAbortHandler {
				t.Errorf("recovered %v, want ErrAbortHandler", got)
			}
		}()
		serve(r, tokens(256, 900), func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		})
	}()
	ctx, cancel := context.WithCancel(t.Context())
	h := r.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.Refine(req, nil, &router.Request{Prefix: tokens(256, 900)})
		cancel()
	}))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
	var got []string
	for _, l := range parse(t, written(t, r)) {
		got = append(got, fmt.Sprint(l.Outcome, " ", l.Status))
	}
	require.Equal(t, []string{"answered 200", "refused 503", "broken 200", "abandoned 0"}, got)
}

// Two recorders around one handler don't take each other's requests.
func TestRecorder_Nested(t *testing.T) {
	outer, inner := newRecorder(t, record.Config{}), newRecorder(t, record.Config{})
	h := outer.Handler(inner.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		outer.Refine(req, nil, &router.Request{Prefix: tokens(256, 900)})
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("Flush through two recorders = %v", err)
		}
	})))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil))
	if outer.Stats() != (record.Stats{Recorded: 1}) || inner.Stats() != (record.Stats{Skipped: 1}) {
		t.Errorf("outer %+v, inner %+v, want one recorded, one skipped", outer.Stats(), inner.Stats())
	}
}

// blocked is a disk that does not answer until it is told.
type blocked struct {
	writing, free chan struct{}
	got           bytes.Buffer
}

func (b *blocked) Write(p []byte) (int, error) {
	b.writing <- struct{}{}
	<-b.free
	return b.got.Write(p)
}

// While a disk is busy requests go on, memory stays bounded, and what is lost is
// counted.
func TestRecorder_SlowDisk(t *testing.T) {
	const limit, requests = 4 << 10, 500
	r := newRecorder(t, record.Config{MaxBuffer: limit})
	disk := &blocked{writing: make(chan struct{}), free: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx, disk) }()
	serve(r, tokens(256, 900), ok)
	<-disk.writing // and it stays there
	for range requests - 1 {
		serve(r, tokens(256, 900), ok)
	}
	s := r.Stats()
	if s.Recorded+s.Dropped != requests || s.Dropped == 0 || s.Recorded < 2 {
		t.Errorf("Stats() = %+v of %d requests, want some recorded and some dropped", s, requests)
	}
	cancel()
	close(disk.free)
	<-disk.writing
	require.NoError(t, <-done)
	if n := len(parse(t, disk.got.String())); int64(n) != s.Recorded || disk.got.Len() > 2*limit {
		t.Errorf("%d lines in %d bytes, want %d in at most %d", n, disk.got.Len(), s.Recorded, 2*limit)
	}
}

var errFull = errors.New("no space left")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// An error of the disk ends Run and is counted; another Run goes on.
func TestRecorder_FullDisk(t *testing.T) {
	r := newRecorder(t, record.Config{})
	serve(r, tokens(256, 900), ok)
	serve(r, tokens(256, 900), ok)
	if err := r.Run(t.Context(), full{}); !errors.Is(err, errFull) {
		t.Errorf("Run = %v, want %v", err, errFull)
	}
	if got := r.Stats(); got != (record.Stats{Dropped: 2}) {
		t.Errorf("Stats() = %+v, want 2 dropped", got)
	}
	serve(r, tokens(256, 900), ok)
	if n := len(parse(t, written(t, r))); n != 1 || r.Stats() != (record.Stats{Recorded: 1, Dropped: 2}) {
		t.Errorf("%d lines, %+v after it, want 1", n, r.Stats())
	}
}

// Many requests at once: every one is in the file, and every line is whole.
func TestRecorder_Concurrent(t *testing.T) {
	r := newRecorder(t, record.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	var file bytes.Buffer
	done := make(chan error)
	go func() { done <- r.Run(ctx, &file) }()
	const clients, each = 8, 100
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := range each {
				serve(r, tokens(256, 100*(c+1)+i), ok)
			}
		})
	}
	all.Wait()
	cancel()
	require.NoError(t, <-done)
	if n := len(parse(t, file.String())); n != clients*each || r.Stats() != (record.Stats{Recorded: clients * each}) {
		t.Errorf("%d lines, %+v, want %d", n, r.Stats(), clients*each)
	}
}

// numbers spells a hash in the ways in which it could be in a file.
func numbers(hash uint64) []string {
	return []string{strconv.FormatUint(hash, 10), strconv.FormatUint(hash, 16), strconv.FormatUint(hash>>11, 10)}
}
