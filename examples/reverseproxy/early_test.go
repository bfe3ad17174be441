package reverseproxy_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
)

// The tests in this file are about answers that begin before their request has
// ended, as engines' streams do: the header goes out as soon as the body was
// read.

// A transport that has sent a body of known length asks if there is more of it
// (net/http does). By then the answer may be on its way to the client, for which
// the server closes what it has of the request. The transport must hear of the
// end all the same: at any error it drops its connection, and the answer with it.
func TestTransport_BodyStaysEnded(t *testing.T) {
	for name, wrap := range map[string]func(http.ResponseWriter) http.ResponseWriter{
		"the server's writer": func(w http.ResponseWriter) http.ResponseWriter { return w },
		"a bare writer":       func(w http.ResponseWriter) http.ResponseWriter { return plainWriter{w} },
	} {
		t.Run(name, func(t *testing.T) {
			began, atClient := strings.Repeat("data: 1\n\n", 1000), make(chan struct{}) // beyond the server's buffers
			var n int
			var err error
			g := start(t, twoEndpoints, scripted(func(r *http.Request) (*http.Response, error) {
				if _, err := io.ReadFull(r.Body, make([]byte, r.ContentLength)); err != nil {
					return nil, err
				}
				late := readFunc(func([]byte) (int, error) {
					<-atClient
					n, err = r.Body.Read(make([]byte, 1))
					r.Body.Close()
					return 0, io.EOF
				})
				return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: -1, Request: r,
					Body: io.NopCloser(io.MultiReader(strings.NewReader(began), late))}, nil
			}), func(_ *router.Config, h *reverseproxy.Handler) { h.Hasher = nil }) // nothing is read ahead
			g.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.handler.ServeHTTP(wrap(w), r) })
			res, open := g.open(t.Context(), chat("x", 50_000))
			must(t, open)
			defer res.Body.Close()
			io.ReadFull(res.Body, make([]byte, 10))
			close(atClient)
			if b, err := io.ReadAll(res.Body); err != nil || len(b) != len(began)-10 {
				t.Errorf("the rest of the answer = %d bytes, %v; want %d", len(b), err, len(began)-10)
			}
			if n != 0 || err != io.EOF {
				t.Errorf("Read after the end of the body = %d, %v; want 0, EOF", n, err)
			}
		})
	}
}

// An engine answers while the client is still sending. Both go on: nothing of the
// request is lost, and the answer is not held up.
func TestHandler_BothWays(t *testing.T) {
	const head, tail = "begin ", "end"
	for _, chunked := range []bool{false, true} {
		t.Run(fmt.Sprintf("chunked=%v", chunked), func(t *testing.T) {
			g := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
				out := http.NewResponseController(w)
				out.EnableFullDuplex()
				io.CopyN(w, r.Body, int64(len(head)))
				out.Flush()
				io.Copy(w, r.Body)
			})}, func(_ *router.Config, h *reverseproxy.Handler) { h.Hasher = nil })
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for range 2 {
				read, write := io.Pipe()
				context.AfterFunc(ctx, func() { write.Close() }) // if it comes to that
				go io.WriteString(write, head)
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.server.URL, read)
				must(t, err)
				if !chunked {
					r.ContentLength = int64(len(head + tail))
				}
				res, err := g.client.Do(r)
				must(t, err)
				p := make([]byte, len(head))
				if _, err := io.ReadFull(res.Body, p); err != nil || string(p) != head {
					t.Errorf("answer before the end of the request = %q, %v; want %q", p, err, head)
				}
				go func() { io.WriteString(write, tail); write.Close() }()
				b, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || string(b) != tail {
					t.Errorf("rest of the answer = %q, %v; want %q", b, err, tail)
				}
				if o := g.outcome(); o.Abandoned || o.Err != nil {
					t.Errorf("outcome = %+v, want success", o)
				}
			}
		})
	}
}

// An engine answers without a look at the request. The client gets the answer,
// before it has sent everything if it likes, and its connection takes further
// requests.
func TestTransport_AnswersWithoutReading(t *testing.T) {
	const refusal = "not you"
	var logged lockedBuffer
	g := start(t, twoEndpoints, scripted(func(r *http.Request) (*http.Response, error) {
		r.Body.Close()
		return respond(r, http.StatusForbidden, refusal), nil
	}), func(_ *router.Config, h *reverseproxy.Handler) { h.Hasher = nil })
	g.server.Config.ErrorLog = log.New(&logged, "", 0)
	for _, size := range []int{10, 100_000, 10_000_000} {
		for range 3 {
			if a := g.post(strings.Repeat("x", size)); a.StatusCode != http.StatusForbidden || a.body != refusal {
				t.Errorf("answer to %d bytes = %d %q, want 403 %q", size, a.StatusCode, a.body, refusal)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	read, write := io.Pipe()
	context.AfterFunc(ctx, func() { write.Close() })
	go io.WriteString(write, "begin")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.server.URL, read)
	must(t, err)
	if a := g.do(r); a.body != refusal {
		t.Errorf("answer to half a request = %q, want %q", a.body, refusal)
	}
	if s := logged.String(); s != "" {
		t.Errorf("logged %s, want nothing", s)
	}
}
