package reverseproxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
)

// streamer is an engine that sends a number of pieces, one after every pause,
// and its headers at once.
func streamer(contentType, piece string, n int, pause time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		for range n {
			time.Sleep(pause)
			if _, err := io.WriteString(w, piece); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	}
}

// C96: pieces arrive when they are sent, whatever the type says. C99: so do the
// headers, before the first piece, and no coding is put on.
func TestC96_C99_PiecesArriveAtOnce(t *testing.T) {
	for _, c := range []struct{ contentType, piece string }{
		{"text/event-stream; charset=utf-8", "data: {}\n\n"},
		{"application/x-ndjson", "{}\n"},
		{"application/json", "{\n"},
	} {
		t.Run(c.contentType, func(t *testing.T) {
			inTime(t, streamer(c.contentType, c.piece, 10, 3*time.Second), nil, func(g *timed) {
				start := time.Now()
				res := g.open(g.Context(), "Accept-Encoding: gzip")
				defer res.Body.Close()
				if d := since(start); d != 0 {
					g.Errorf("headers after %v, want at once", d)
				}
				if got := res.Header.Get("Content-Encoding"); got != "" {
					g.Errorf("Content-Encoding = %q, want none", got)
				}
				p := make([]byte, 100)
				for i := 1; i <= 10; i++ {
					n, err := io.ReadAtLeast(res.Body, p, len(c.piece))
					if err != nil || string(p[:n]) != c.piece || since(start) != time.Duration(3*i)*time.Second {
						g.Errorf("piece %d = %q, %v after %v; want %q after %d s", i, p[:n], err, since(start), c.piece, 3*i)
					}
				}
				io.Copy(io.Discard, res.Body)
				if o := <-g.outcome; o.Abandoned || o.Err != nil {
					g.Errorf("outcome = %+v, want success", o)
				}
				// C06 and "first token seen without buffering"
				if got := g.pool.Stats()[0].TTFT; got.Round(time.Microsecond) != 3*time.Second {
					g.Errorf("TTFT = %v, want 3 s", got)
				}
			})
		})
	}
}

// An answer in one piece says nothing about the time to its first token.
func TestHandler_NoFirstTokenOfWholeAnswers(t *testing.T) {
	inTime(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(20 * time.Second)
		io.WriteString(w, `{"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}`)
	}), nil, func(g *timed) {
		res := g.open(g.Context())
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		o := <-g.outcome
		if p, _ := o.PromptTokens.Get(); p != 9 {
			g.Errorf("outcome = %+v, want 9 prompt tokens", o)
		}
		if got := g.pool.Stats()[0].TTFT; got != 0 {
			g.Errorf("TTFT = %v, want none", got)
		}
	})
}

// C98: a stream outlives the server's WriteTimeout as long as pieces are taken.
func TestC98_LongStream(t *testing.T) {
	for _, pause := range []time.Duration{100 * time.Millisecond, 3 * time.Minute} { // below and above the stall timeout
		inTime(t, streamer("text/event-stream", "data: {}\n\n", 50, pause), func(_ *timed, s *http.Server, _ *reverseproxy.Handler) {
			s.WriteTimeout = time.Second
			s.ReadTimeout = time.Second
		}, func(g *timed) {
			res := g.open(g.Context())
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			if n := strings.Count(string(b), "data:"); err != nil || n != 50 {
				g.Errorf("%d events, %v; want 50", n, err)
			}
			if o := <-g.outcome; o.Abandoned || o.Err != nil {
				g.Errorf("outcome = %+v, want success", o)
			}
		})
	}
}

// C98 on HTTP/2, where a deadline that passes ends the stream even if nothing is
// being written: while headers are waited for, and between pieces.
func TestC98_LongStreamHTTP2(t *testing.T) {
	slow := streamer("text/event-stream", "data: {}\n\n", 5, 3*time.Minute)
	inTime(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(10 * time.Second)
		slow(w, r)
	}), func(g *timed, s *http.Server, _ *reverseproxy.Handler) {
		s.WriteTimeout = time.Second
		s.Protocols = new(http.Protocols)
		s.Protocols.SetUnencryptedHTTP2(true)
		g.client.Transport.(*http.Transport).Protocols = s.Protocols
	}, func(g *timed) {
		res := g.open(g.Context())
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if n := strings.Count(string(b), "data:"); res.ProtoMajor != 2 || err != nil || n != 5 {
			g.Errorf("%d events by %s, %v; want 5 by HTTP/2", n, res.Proto, err)
		}
		<-g.outcome
	})
}

// C98: a client that takes nothing is cut off, and its place given back.
func TestC98_StalledReader(t *testing.T) {
	inTime(t, streamer("text/event-stream", "data: {}\n\n", 1000, time.Second), nil, func(g *timed) {
		start := time.Now()
		res := g.open(g.Context())
		defer res.Body.Close()
		if _, err := io.ReadFull(res.Body, make([]byte, 10)); err != nil {
			g.Fatal(err)
		}
		o := <-g.outcome // without reading on
		if !o.Abandoned || o.Err != nil {
			g.Errorf("outcome = %+v, want abandoned", o)
		}
		if d := since(start); d < time.Minute || d > 2*time.Minute {
			g.Errorf("cut off after %v, want soon after the stall timeout of a minute", d)
		}
	})
}

// C97: our writer is wrapped by somebody else's, which offers Unwrap only, or
// nothing at all. The first still streams, the second works.
func TestC97_WrappedWriters(t *testing.T) {
	for name, wrap := range map[string]func(http.ResponseWriter) http.ResponseWriter{
		"unwrap":  func(w http.ResponseWriter) http.ResponseWriter { return unwrapper{plainWriter{w}, w} },
		"nothing": func(w http.ResponseWriter) http.ResponseWriter { return plainWriter{w} },
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, streamer("text/event-stream", "data: {}\n\n", 3, time.Second), func(_ *timed, s *http.Server, _ *reverseproxy.Handler) {
				inner := s.Handler
				s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inner.ServeHTTP(wrap(w), r) })
			}, func(g *timed) {
				start := time.Now()
				res := g.open(g.Context())
				defer res.Body.Close()
				first, err := bufio.NewReader(res.Body).ReadString('\n')
				if name == "unwrap" && since(start) != time.Second {
					g.Errorf("first event after %v, want 1 s", since(start))
				}
				rest, err2 := io.ReadAll(res.Body)
				if err != nil || err2 != nil || first != "data: {}\n" {
					g.Errorf("answer = %q, %q, %v, %v", first, rest, err, err2)
				}
			})
		})
	}
}

type plainWriter struct{ inner http.ResponseWriter }

func (w plainWriter) Header() http.Header         { return w.inner.Header() }
func (w plainWriter) Write(p []byte) (int, error) { return w.inner.Write(p) }
func (w plainWriter) WriteHeader(status int)      { w.inner.WriteHeader(status) }

type unwrapper struct {
	plainWriter
	inner http.ResponseWriter
}

func (w unwrapper) Unwrap() http.ResponseWriter { return w.inner }

// C106: answers without a body end at once, and lengths stay as they are.
func TestC106_NoBody(t *testing.T) {
	g := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			w.WriteHeader(http.StatusNotModified)
		default:
			w.Header().Set("Content-Length", "1234")
			if r.Method != http.MethodHead {
				io.WriteString(w, strings.Repeat("x", 1234))
			}
		}
	})})
	for _, c := range []struct {
		method, path string
		status       int
		length       int64
	}{
		{"HEAD", "/", 200, 1234}, {"GET", "/", 200, 1234}, {"POST", "/204", 204, 0}, {"GET", "/304", 304, 0},
	} {
		a := g.send(c.method, c.path, "")
		if a.StatusCode != c.status || a.ContentLength != c.length {
			t.Errorf("%s %s = %d with length %d, want %d with %d", c.method, c.path, a.StatusCode, a.ContentLength, c.status, c.length)
		}
		if o := g.outcome(); o.Abandoned || o.Err != nil || o.StatusCode != c.status {
			t.Errorf("%s %s: outcome = %+v, want status %d", c.method, c.path, o, c.status)
		}
	}
}

func TestHandler_ResponseTrailers(t *testing.T) {
	g := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, "body")
		w.Header().Set("X-Sum", "7")
		w.Header().Set(http.TrailerPrefix+"X-Late", "8")
	})})
	a := g.post("{}")
	if a.Trailer.Get("X-Sum") != "7" || a.Trailer.Get("X-Late") != "8" {
		t.Errorf("trailers = %v, want X-Sum 7 and X-Late 8", a.Trailer)
	}
}

// C108: an endpoint that drains takes nothing new, keeps its streams, and is
// idle when they end.
func TestC108_Drain(t *testing.T) {
	finish := make(chan struct{})
	leaving := engine(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		<-finish
	})
	rec := newRecorder()
	g := start(t, []string{leaving})
	var streams []*http.Response
	for range 3 {
		res, err := g.open(context.Background(), chat("x", 10))
		must(t, err)
		streams = append(streams, res)
	}
	list := endpoints(t, []string{leaving, engine(t, rec.ServeHTTP)})
	list[0].Weight = 0
	must(t, g.pool.SetEndpoints(list))
	for range 10 {
		if a := g.post(chat("x", 10)); a.StatusCode != 200 {
			t.Errorf("status = %d, want 200 from the other engine", a.StatusCode)
		}
	}
	if n := inFlight(g.pool); n != 3 {
		t.Errorf("in flight = %d, want the 3 streams", n)
	}
	close(finish)
	must(t, g.pool.WaitIdle(t.Context(), leaving))
	for _, res := range streams {
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}

// An upgraded connection is a tunnel, and holds its place until it is closed.
func TestHandler_Upgrade(t *testing.T) {
	g := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		io.WriteString(c, line)
		rw.ReadString('\n')
	})})
	c, err := net.Dial("tcp", g.server.Listener.Addr().String())
	must(t, err)
	fmt.Fprintf(c, "GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	must(t, err)
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status = %d, want 101", res.StatusCode)
	}
	fmt.Fprintf(c, "hello\n")
	if line, err := in.ReadString('\n'); line != "hello\n" {
		t.Errorf("echo = %q, %v", line, err)
	}
	if s := g.pool.Stats()[0].Load; s.InFlight != 1 || s.PendingPrefills != 0 {
		t.Errorf("load with an open tunnel = %+v, want one in flight, no prefill", s)
	}
	c.Close()
	if o := g.outcome(); o.Err != nil || o.Abandoned || o.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("outcome = %+v, want success with status 101", o)
	}
}

// A client asks for a protocol with a name that can't be: its own fault.
func TestHandler_UpgradeToNonsense(t *testing.T) {
	g := start(t, []string{engine(t, newRecorder().ServeHTTP)})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "\x01")
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest {
		t.Errorf("status = %d, want 400", w.Code)
	}
	if o := g.outcome(); !o.Abandoned {
		t.Errorf("outcome = %+v, want abandoned", o)
	}
}

// The handler runs on HTTP/2 as well, where a passed deadline ends a stream.
func TestHandler_HTTP2(t *testing.T) {
	rec := newRecorder()
	g := start(t, []string{engine(t, rec.ServeHTTP)}, func(_ *router.Config, h *reverseproxy.Handler) { h.StallTimeout = time.Hour })
	s := httptest.NewUnstartedServer(g.handler)
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	b := chat("x", 100_000)
	res, err := s.Client().Post(s.URL+"/v1/chat/completions", "application/json", strings.NewReader(b))
	must(t, err)
	defer res.Body.Close()
	if got, _ := io.ReadAll(res.Body); res.ProtoMajor != 2 || string(got) != `{"ok":true}` {
		t.Errorf("answer = %q by %s", got, res.Proto)
	}
	sameBytes(t, "engine's body", <-rec.bodies, []byte(b))
}
