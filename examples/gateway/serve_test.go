package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmroute/warmroute/router/routertest"
)

// program is a gateway that runs.
type program struct {
	t      *testing.T
	url    string
	out    string // what it has printed
	stderr *safeBuffer
	stop   context.CancelFunc
	status chan int
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// startProgram runs the gateway on a port of the system's choice, and stops it
// when the test is over.
func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	read, write := io.Pipe()
	p := &program{t: t, stderr: new(safeBuffer), stop: cancel, status: make(chan int, 1)}
	go func() {
		p.status <- run(ctx, append([]string{"-addr", "127.0.0.1:0"}, args...), write, p.stderr)
		write.Close()
	}()
	var out strings.Builder
	in := bufio.NewReader(read)
	for !strings.Contains(out.String(), `"stream":true}'`+"\n") {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("the gateway ended with %d: %s", <-p.status, p.stderr)
		}
		out.WriteString(line)
	}
	go io.Copy(io.Discard, in)
	p.out = out.String()
	p.url = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(p.out)
	t.Cleanup(func() { p.end() })
	return p
}

// end interrupts the gateway and waits for its end.
func (p *program) end() int {
	p.t.Helper()
	p.stop()
	select {
	case s := <-p.status:
		p.status <- s
		return s
	case <-time.After(30 * time.Second):
		p.t.Fatal("the gateway does not end")
		return -1
	}
}

const hello = `{"model":"demo","messages":[{"role":"user","content":"Hello!"}],"max_tokens":20,"stream":true}`

func (p *program) post(body string) (*http.Response, string) {
	p.t.Helper()
	res, err := http.Post(p.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res, string(text)
}

func TestServe_EmbeddedEngines(t *testing.T) {
	p := startProgram(t, "-engines", "3", "-speed", "100", "-v")
	if n := len(regexp.MustCompile(`(?m)^  http://127\.0\.0\.1:\d+$`).FindAllString(p.out, -1)); n != 3 {
		t.Errorf("%d endpoints printed, want 3:\n%s", n, p.out)
	}
	res, text := p.post(hello)
	if res.StatusCode != 200 || !strings.Contains(text, "data: [DONE]") {
		t.Errorf("answer = %d %s", res.StatusCode, text)
	}
	for path, want := range map[string]string{"/debug/router": "<h1>Router</h1>", "/debug/vars": `"router"`, "/debug/router?format=json": `"decisions"`} {
		res, err := http.Get(p.url + path)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if !strings.Contains(string(b), want) {
			t.Errorf("GET %s = %.200s, want %s", path, b, want)
		}
		if strings.Contains(res.Header.Get("Content-Type"), "json") && !json.Valid(b) {
			t.Errorf("GET %s is no JSON", path)
		}
	}
	if got := p.end(); got != 0 {
		t.Errorf("status = %d after the interrupt, want 0", got)
	}
	if log := p.stderr.String(); !strings.Contains(log, "msg=decided") || !strings.Contains(log, "msg=released") {
		t.Errorf("log = %s, want decisions", log)
	}
}

// What was served can be replayed.
func TestServe_Record(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	p := startProgram(t, "-engines", "2", "-speed", "100", "-record", file)
	long := strings.Replace(hello, "Hello!", strings.Repeat("Hello, you! ", 1000), 1)
	for _, body := range []string{hello, long, long} {
		if res, text := p.post(body); res.StatusCode != 200 {
			t.Errorf("answer = %d %s", res.StatusCode, text)
		}
	}
	if got := p.end(); got != 0 {
		t.Errorf("status = %d, want 0: %s", got, p.stderr)
	}
	w, err := routertest.Trace(file, routertest.TraceConfig{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := routertest.Simulate(routertest.Scenario{Workload: w})
	if err != nil || got.Requests != 3 || got.HitRate == 0 {
		t.Errorf("Simulate of what was recorded = %d requests, hit rate %v, %v; want 3, some", got.Requests, got.HitRate, err)
	}
	// A file that is there stays as it is.
	var stdout, stderr bytes.Buffer
	if got := run(t.Context(), []string{"-addr", "127.0.0.1:0", "-engines", "1", "-record", file}, &stdout, &stderr); got != 1 || !strings.Contains(stderr.String(), file) {
		t.Errorf("run = %d, %q; want 1 and the file", got, stderr.String())
	}
}

// The command that the gateway prints works as it is.
func TestServe_Curl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl")
	}
	p := startProgram(t, "-engines", "1", "-speed", "100")
	_, command, _ := strings.Cut(p.out, "Try:\n")
	out, err := exec.CommandContext(t.Context(), "sh", "-c", command).Output()
	if err != nil || !strings.Contains(string(out), "data: [DONE]") {
		t.Errorf("%s\n= %s, %v", command, out, err)
	}
}

func TestServe_RealEndpoints(t *testing.T) {
	e := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "it is me") }))
	defer e.Close()
	p := startProgram(t, "-endpoints", e.URL)
	if _, text := p.post(hello); text != "it is me" {
		t.Errorf("answer = %q, want the endpoint's", text)
	}
}

func TestServe_PortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var stdout, stderr bytes.Buffer
	got := run(t.Context(), []string{"-addr", l.Addr().String(), "-engines", "1"}, &stdout, &stderr)
	if text := stderr.String(); got != 1 || strings.Count(text, "\n") != 1 || !strings.Contains(text, l.Addr().String()) {
		t.Errorf("run = %d, %q; want 1 and one line with the address", got, text)
	}
}

// An interrupt waits for streams: one that is open ends as it would have.
func TestServe_Drains(t *testing.T) {
	arrived, finish := make(chan struct{}), make(chan struct{})
	e := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		close(arrived)
		<-finish
		io.WriteString(w, "data: [DONE]\n\n")
	}))
	defer e.Close()
	p := startProgram(t, "-endpoints", e.URL)
	got := make(chan string)
	go func() {
		_, text := p.post(hello)
		got <- text
	}()
	<-arrived
	p.stop()
	for range 1000 { // until nobody listens any more
		c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			break
		}
		c.Close()
	}
	select {
	case s := <-p.status:
		t.Fatalf("ended with %d while a stream was open", s)
	default:
	}
	close(finish)
	if text := <-got; text != "data: 1\n\ndata: [DONE]\n\n" {
		t.Errorf("stream = %q, want all of it", text)
	}
	if s := p.end(); s != 0 {
		t.Errorf("status = %d, want 0", s)
	}
}
