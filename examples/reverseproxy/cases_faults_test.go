package reverseproxy_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
)

// C104, with a gateway that does read reports: it takes none from an early hint,
// and hop-by-hop headers there do no harm.
func TestC104_NoReportFromEarlyHints(t *testing.T) {
	table := new(loadstats.Table)
	g := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set(loadstats.ORCAHeader, "TEXT named_metrics.num_requests_waiting=99")
		h.Set("Connection", "Keep-Alive, "+loadstats.ORCAHeader)
		h.Set("Keep-Alive", "timeout=5")
		h.Set("Link", "</x>")
		w.WriteHeader(http.StatusEarlyHints)
		h.Del("Connection")
		h.Del("Keep-Alive")
		h.Del(loadstats.ORCAHeader)
		io.WriteString(w, "{}")
	})}, func(c *router.Config, h *reverseproxy.Handler) { c.Reports, h.Reports = table, table })
	if a := g.post("{}"); a.StatusCode != 200 || a.body != "{}" {
		t.Errorf("answer = %d %q, want the final one", a.StatusCode, a.body)
	}
	g.outcome()
	if r, ok := table.Latest(g.decision().Endpoint.ID); ok {
		t.Errorf("report = %+v from an early hint, want none", r)
	}
}

// C103: what the gateway adds arrives, though the client names it in Connection:
// the number of the attempt and the wish for reports.
func TestC103_OwnHeadersArrive(t *testing.T) {
	table := new(loadstats.Table)
	rec := newRecorder()
	var calls atomic.Int32
	g := start(t, []string{engine(t, rec.ServeHTTP), engine(t, rec.ServeHTTP)}, func(c *router.Config, h *reverseproxy.Handler) {
		c.Reports, h.Reports = table, table
		h.Transport = failing{h.Transport, func(*http.Request) error {
			if calls.Add(1) == 1 {
				return &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			return nil
		}}
	})
	g.post("{}", "Connection: "+reverseproxy.AttemptHeader+", "+loadstats.ORCAFormatHeader+", X-Forwarded-For, X-Other",
		loadstats.ORCAFormatHeader+": json", reverseproxy.AttemptHeader+": 9", "X-Other: 1")
	r := <-rec.requests
	if got := r.Header.Get(reverseproxy.AttemptHeader); got != "2" {
		t.Errorf("%s = %q, want 2", reverseproxy.AttemptHeader, got)
	}
	if got := r.Header.Get(loadstats.ORCAFormatHeader); got != "text" {
		t.Errorf("%s = %q, want text", loadstats.ORCAFormatHeader, got)
	}
	if got := r.Header.Get("X-Other"); got != "" {
		t.Errorf("X-Other = %q, want none: the client says it is for this hop", got)
	}
}

// hanged is a connection whose end the client has not seen yet when it uses it
// again: reads hang, and the write after too long a pause fails.
type hanged struct {
	net.Conn
	idle   time.Duration
	last   time.Time
	failed *atomic.Int32
}

func (c *hanged) Write(p []byte) (int, error) {
	if now := time.Now(); !c.last.IsZero() && now.Sub(c.last) >= c.idle {
		c.failed.Add(1)
		c.Conn.Close()
		return 0, syscall.EPIPE
	}
	c.last = time.Now()
	return c.Conn.Write(p)
}

// C100: the engine has closed its idle connection, but the gateway finds out only
// when it writes there. Requests don't fail, with a body that was kept. For an
// engine with the 5 s of uvicorn it does not even come to that.
func TestC100_ConnectionFoundClosed(t *testing.T) {
	for _, c := range []struct {
		idle, pause time.Duration
		runsInto    bool
	}{{5 * time.Second, 6 * time.Second, false}, {5 * time.Second, 5 * time.Second, false}, {200 * time.Millisecond, 300 * time.Millisecond, true}} {
		var failed atomic.Int32
		inTime(t, streamer("application/json", "{}", 1, 0), func(g *timed, _ *http.Server, h *reverseproxy.Handler) {
			tr := h.Transport.(*http.Transport)
			dial := tr.DialContext
			tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return &hanged{Conn: conn, idle: c.idle, failed: &failed}, nil
			}
		}, func(g *timed) {
			for i := range 1000 {
				res := g.open(g.Context())
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode != 200 {
					g.Fatalf("idle %v, pause %v: request %d: status %d, want 200", c.idle, c.pause, i, res.StatusCode)
				}
				time.Sleep(c.pause)
			}
		})
		if n := failed.Load(); n > 0 != c.runsInto {
			t.Errorf("idle %v, pause %v: %d requests ran into a closed connection, want some: %v", c.idle, c.pause, n, c.runsInto)
		}
	}
}

// C102: after the first byte of the answer nothing is sent again, whatever the
// options, nor after the head alone.
func TestC102_NeverAfterTheAnswerBegan(t *testing.T) {
	for _, piece := range []string{"", "data: 1\n\n"} {
		var calls atomic.Int32
		broken := func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, piece)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		g := start(t, []string{engine(t, broken), engine(t, broken)}, func(_ *router.Config, h *reverseproxy.Handler) { h.RetryBusy = true })
		res, err := g.open(t.Context(), chat("x", 10))
		if err == nil { // a head alone may not get as far as this
			if b, err := io.ReadAll(res.Body); err == nil || string(b) != piece {
				t.Errorf("client read %q, %v; want %q and an error", b, err, piece)
			}
			res.Body.Close()
		} else if piece != "" {
			t.Error(err)
		}
		if o := g.outcome(); o.Err == nil || calls.Load() != 1 {
			t.Errorf("outcome = %+v after %d calls, want an error after 1", o, calls.Load())
		}
	}
}

// C10: the engine breaks its answer. ReverseProxy's panic reaches the server, with
// the place given back by then, in any writer.
func TestC10_PanicIsPassedOn(t *testing.T) {
	g := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})})
	panicked := make(chan any, 1)
	var busy atomic.Int32
	g.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			busy.Store(int32(inFlight(g.pool)))
			panicked <- p
			panic(p)
		}()
		g.handler.ServeHTTP(w, r)
	})
	res, err := g.open(t.Context(), chat("x", 10))
	must(t, err)
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	if p := <-panicked; p != http.ErrAbortHandler || busy.Load() != 0 {
		t.Errorf("panic = %v with %d in flight, want http.ErrAbortHandler with none", p, busy.Load())
	}
	if o := g.outcome(); o.Err == nil {
		t.Errorf("outcome = %+v, want an error", o)
	}
}

// C99: what the engine compresses stays compressed, for a client that asked and
// for one that did not, and arrives piece by piece.
func TestC99_CodingUntouched(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, "data: {}\n\n")
	z.Close()
	for _, accept := range []string{"Accept-Encoding: gzip", "X-Other: 1"} {
		inTime(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", "gzip")
			w.(http.Flusher).Flush()
			for range 3 {
				time.Sleep(3 * time.Second)
				w.Write(packed.Bytes())
				w.(http.Flusher).Flush()
			}
		}), nil, func(g *timed) {
			began := time.Now()
			res := g.open(g.Context(), accept)
			defer res.Body.Close()
			if since(began) != 0 || res.Header.Get("Content-Encoding") != "gzip" {
				g.Errorf("headers after %v, coding %q", since(began), res.Header.Get("Content-Encoding"))
			}
			p := make([]byte, packed.Len())
			for i := 1; i <= 3; i++ {
				if _, err := io.ReadFull(res.Body, p); err != nil || !bytes.Equal(p, packed.Bytes()) || since(began) != time.Duration(3*i)*time.Second {
					g.Errorf("piece %d after %v: %v", i, since(began), err)
				}
			}
			io.Copy(io.Discard, res.Body)
		})
	}
}

// C68: streams carry no report. They are served all the same, and what was read
// before stays in the table with its age.
func TestC68_StreamsWithoutReports(t *testing.T) {
	table := new(loadstats.Table)
	g := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/once" {
			w.Header().Set(loadstats.ORCAHeader, `JSON {"named_metrics":{"num_requests_waiting":5}}`)
			return
		}
		streamer("text/event-stream", "data: {}\n\n", 3, 0)(w, r)
	})}, func(c *router.Config, h *reverseproxy.Handler) { c.Reports, h.Reports = table, table })
	for range 10 {
		if a := g.post(chat("x", 100)); a.StatusCode != 200 || strings.Count(a.body, "data:") != 3 {
			t.Errorf("answer = %d %q", a.StatusCode, a.body)
		}
	}
	id := g.pool.Stats()[0].Endpoint.ID
	if r, ok := table.Latest(id); ok {
		t.Errorf("report = %+v of streams that carry none", r)
	}
	g.send(http.MethodGet, "/once", "")
	before, ok := table.Latest(id)
	g.post(chat("x", 100))
	if after, _ := table.Latest(id); !ok || after != before {
		t.Errorf("report = %+v after a stream, was %+v, %v", after, before, ok)
	}
	for range 12 {
		g.outcome()
	}
}

// C85: audio as clients send it.
func TestC85_Multipart(t *testing.T) {
	rec := newRecorder()
	g := start(t, []string{engine(t, rec.ServeHTTP), engine(t, rec.ServeHTTP)})
	body := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n" + strings.Repeat("\x00\x01\xff", 1<<20) + "\r\n--x--\r\n"
	for range 4 {
		if a := g.send(http.MethodPost, "/v1/audio/transcriptions", body, "Content-Type: multipart/form-data; boundary=x"); a.StatusCode != 200 {
			t.Errorf("status = %d, want 200", a.StatusCode)
		}
		sameBytes(t, "engine's body", <-rec.bodies, []byte(body))
		if r := <-rec.requests; r.Header.Get("Content-Type") != "multipart/form-data; boundary=x" {
			t.Errorf("Content-Type = %q", r.Header.Get("Content-Type"))
		}
		if d := g.decision(); d.Home != "" {
			t.Errorf("decision = %v, want none by prefix", d)
		}
	}
}

// C12 over HTTP, with other engines that are at work: the one that fails at once
// has the lowest count all the time.
func TestC12_FastFailureBesideSlowAnswers(t *testing.T) {
	leave := make(chan struct{})
	slow := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		<-leave
	}
	bad := engine(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) })
	g := start(t, []string{bad, engine(t, slow), engine(t, slow)})
	failed := 0
	var open []*http.Response
	for range 60 {
		res, err := g.open(t.Context(), `{"messages":[]}`)
		must(t, err)
		if res.StatusCode == 500 {
			failed++
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
			g.outcome() // it has been heard of
			continue
		}
		open = append(open, res)
	}
	if failed > 20 {
		t.Errorf("%d of 60 requests went to the failing engine, want at most a third", failed)
	}
	close(leave)
	for _, res := range open {
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		g.outcome()
	}
}
