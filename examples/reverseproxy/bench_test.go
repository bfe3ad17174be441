package reverseproxy_test

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// BenchmarkProxy compares the handler with a bare httputil.ReverseProxy: a chat
// body of 120 KB, an answer of 50 events, connections kept alive, and enough
// clients to keep every core busy: what is compared is the work per request. Run
// all in one go and compare them with each other; nothing else is stable. In
// between is the handler with a body that it reads and picks for, but can't sign:
// what is left to affinity is the signature.
//
//	go test ./examples/reverseproxy -run '^$' -bench Proxy -count 6
func BenchmarkProxy(b *testing.B) {
	event := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"token "}}]}` + "\n\n")
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range 50 {
			w.Write(event)
			w.(http.Flusher).Flush()
		}
	}))
	defer engine.Close()
	target, err := url.Parse(engine.URL)
	if err != nil {
		b.Fatal(err)
	}
	buffers := new(reverseproxy.CopyBuffers)
	bare := &httputil.ReverseProxy{
		Transport:  reverseproxy.NewTransport(),
		Rewrite:    func(p *httputil.ProxyRequest) { p.SetXForwarded(); p.SetURL(target) },
		BufferPool: buffers,
		ErrorLog:   log.New(io.Discard, "", 0),
	}
	pool, err := router.New(router.Config{Endpoints: []router.Endpoint{{ID: "a", URL: target, Weight: 1}, {ID: "b", URL: target, Weight: 1}}})
	if err != nil {
		b.Fatal(err)
	}
	affinity := &reverseproxy.Handler{Router: pool, Hasher: new(tokenprefix.Hasher)}
	body := []byte(chat("You are a helpful assistant with many tools", 120_000))
	for _, c := range []struct {
		name    string
		handler http.Handler
		coding  string
	}{{"bare", bare, ""}, {"unsigned", affinity, "unknown"}, {"affinity", affinity, ""}} {
		b.Run(c.name, func(b *testing.B) {
			gateway := httptest.NewServer(c.handler)
			defer gateway.Close()
			client := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100}}
			defer client.CloseIdleConnections()
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			b.SetParallelism(4)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r, err := http.NewRequest(http.MethodPost, gateway.URL+"/v1/chat/completions", bytes.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("Content-Encoding", c.coding)
					res, err := client.Do(r)
					if err != nil {
						b.Error(err)
						return
					}
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			})
		})
	}
}
