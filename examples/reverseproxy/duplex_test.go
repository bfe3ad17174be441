package reverseproxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

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
