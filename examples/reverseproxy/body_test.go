package reverseproxy_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// C78: little that would become 64 MiB is not decoded beyond the limit.
func TestC78_BombIsNotDecoded(t *testing.T) {
	var bomb bytes.Buffer
	z, _ := gzip.NewWriterLevel(&bomb, gzip.BestSpeed)
	piece := bytes.Repeat([]byte(" "), 1<<20)
	for range 64 {
		z.Write(piece)
	}
	must(t, z.Close())
	g := start(t, []string{engine(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })})
	g.post("{}") // warm
	grown := allocated(func() { g.post(bomb.String(), "Content-Encoding: gzip") })
	if grown > 12<<20 {
		t.Errorf("%d bytes allocated for a bomb, want little more than MaxPeek", grown)
	}
	for range 2 {
		if d := g.decision(); d.Home != "" {
			t.Errorf("decision = %v, want none by prefix", d)
		}
	}
}

// A MaxPeek without an end does not give clients all memory that they speak of.
func TestHandler_AnyMaxPeek(t *testing.T) {
	limits := map[int]bool{}
	g := start(t, []string{engine(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })},
		func(_ *router.Config, h *reverseproxy.Handler) {
			h.MaxPeek = math.MaxInt
			h.Decoders = map[string]reverseproxy.Decoder{"plain": func(dst, body []byte, limit int) ([]byte, error) {
				limits[limit] = true
				return append(dst, body...), nil
			}}
		})
	g.post(chat("plain", 5000), "Content-Encoding: plain")
	if d := g.decision(); d.Home == "" || limits[math.MaxInt] {
		t.Errorf("decision = %v, decoded up to %v; want a prefix, and room for one byte more", d, limits)
	}
	r := httptest.NewRequest(http.MethodPost, "/v1/completions", strings.NewReader("{}"))
	r.ContentLength = 1 << 50
	w := httptest.NewRecorder()
	g.server.Config.Handler.ServeHTTP(w, r)
	if w.Code < 400 {
		t.Errorf("status %d for two bytes of 2^50, want an error", w.Code)
	}
}

// allocated is how much memory is allocated while f runs, freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// C79: a body beyond the peek is passed on; a limit is another handler's, and
// answered with 413.
func TestC79_LongBodies(t *testing.T) {
	long := chat("long", 12<<20)
	for _, chunked := range []bool{false, true} {
		t.Run(fmt.Sprintf("chunked=%v", chunked), func(t *testing.T) {
			rec := newRecorder()
			g := start(t, []string{engine(t, rec.ServeHTTP)})
			req, err := http.NewRequest(http.MethodPost, g.server.URL+"/v1/chat/completions", reader(long, chunked))
			must(t, err)
			if a := g.do(req); a.StatusCode != 200 || a.Close {
				t.Errorf("status = %d, connection closed = %v; want 200, false", a.StatusCode, a.Close)
			}
			sameBytes(t, "engine's body", <-rec.bodies, []byte(long))
			if d := g.decision(); d.Home != "" {
				t.Errorf("decision = %v, want none by prefix", d)
			}
		})
		for _, limit := range []int64{100, 2 << 20} { // within the peek, and behind it
			t.Run(fmt.Sprintf("chunked=%v/limit=%d", chunked, limit), func(t *testing.T) {
				rec := newRecorder()
				g := start(t, []string{engine(t, rec.ServeHTTP)})
				g.server.Config.Handler = http.MaxBytesHandler(g.handler, limit)
				// Little enough more that the server still reads it, and the client
				// gets to see the answer.
				over := strings.Repeat("x", int(limit)+100_000)
				req, err := http.NewRequest(http.MethodPost, g.server.URL+"/v1/chat/completions", reader(over, chunked))
				must(t, err)
				if a := g.do(req); a.StatusCode != http.StatusRequestEntityTooLarge {
					t.Errorf("status = %d, want 413", a.StatusCode)
				}
			})
		}
	}
}

func reader(s string, chunked bool) io.Reader {
	if chunked {
		return io.MultiReader(strings.NewReader(s))
	}
	return strings.NewReader(s)
}

// C80: what a gigabyte that streams through costs does not depend on its length.
func TestC80_LongBodyCostsLittle(t *testing.T) {
	const size = 256 << 20
	g := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})}, func(_ *router.Config, h *reverseproxy.Handler) { h.MaxPeek = 64 << 10 })
	g.post("{}") // warm
	zeros := readFunc(func(p []byte) (int, error) { return len(p), nil })
	grown := allocated(func() {
		req, err := http.NewRequest(http.MethodPost, g.server.URL+"/v1/completions", io.LimitReader(zeros, size))
		must(t, err)
		if a := g.do(req); a.body != fmt.Sprint(size) {
			t.Errorf("engine read %s bytes, want %d", a.body, size)
		}
	})
	if grown > 2<<20 {
		t.Errorf("%d bytes allocated for %d that passed, want under 2 MiB", grown, size)
	}
}

// C83: an engine answers before it has read its request. The memory of the body
// is not used again while the transport may still read it.
func TestC83_BufferIsKeptUntilClose(t *testing.T) {
	early := engine(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	g := start(t, []string{early}, func(c *router.Config, h *reverseproxy.Handler) { c.Breaker.Failures = -1; h.MaxPeek = 4 << 20 })
	checked := engine(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err == nil && len(bytes.Trim(b, string(b[0]))) != 0 {
			t.Error("the bodies of two requests are mixed")
		}
	})
	for i := range 16 {
		g.post(strings.Repeat(string('a'+byte(i%26)), 1<<19)) // answered early
		must(t, g.pool.SetEndpoints(endpoints(t, []string{checked})))
		g.post(strings.Repeat(string('A'+byte(i%26)), 1<<19))
		must(t, g.pool.SetEndpoints(endpoints(t, []string{early})))
	}
}

// Expect: 100-continue: the client's body is asked for, and arrives.
func TestHandler_ExpectContinue(t *testing.T) {
	rec := newRecorder()
	g := start(t, []string{engine(t, rec.ServeHTTP)})
	g.client.Transport.(*http.Transport).ExpectContinueTimeout = time.Hour
	b := chat("x", 5000)
	if a := g.post(b, "Expect: 100-continue"); a.StatusCode != 200 {
		t.Errorf("status = %d, want 200", a.StatusCode)
	}
	sameBytes(t, "engine's body", <-rec.bodies, []byte(b))
}

// Trailers of the request reach the engine, whether or not the body fits the
// peek.
func TestHandler_RequestTrailers(t *testing.T) {
	for _, size := range []int{10, 100_000} {
		got := make(chan string, 1)
		g := start(t, []string{engine(t, func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			got <- r.Trailer.Get("X-Checksum")
		})}, func(_ *router.Config, h *reverseproxy.Handler) { h.MaxPeek = 1 << 10 })
		c, err := net.Dial("tcp", g.server.Listener.Addr().String())
		must(t, err)
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-Checksum\r\n\r\n"+
			"%x\r\n%s\r\n0\r\nX-Checksum: 42\r\n\r\n", size, strings.Repeat("x", size))
		io.Copy(io.Discard, c)
		c.Close()
		if v := <-got; v != "42" {
			t.Errorf("trailer after %d bytes = %q, want 42", size, v)
		}
	}
}

// C92: keys of clients are kept apart by tenant, and useless ones are none.
func TestC92_CacheKey(t *testing.T) {
	key := func(tenant, key string) string {
		return reverseproxy.CacheKey(tokenprefix.Scope{Tenant: tenant}, &tokenprefix.Meta{PromptCacheKey: []byte(key)})
	}
	if key("a", "k") == key("b", "k") || key("a", "bk") == key("ab", "k") || key("1", "1:x") == key("1:1", "x") {
		t.Error("two tenants share a key")
	}
	if got := key("a", ""); got != "" {
		t.Errorf("CacheKey of no key = %q, want none", got)
	}
	if got := key("a", strings.Repeat("k", 65)); got != "" {
		t.Errorf("CacheKey of 65 bytes = %q, want none", got)
	}
	if key("a", strings.Repeat("k", 64)) == "" {
		t.Error("CacheKey of 64 bytes is none, want one")
	}
}

// C93: the tenant comes from the gateway. Two tenants with one prompt have
// nothing in common, whatever their bodies say.
func TestC93_TenantsAreApart(t *testing.T) {
	rec := newRecorder()
	g := start(t, []string{engine(t, rec.ServeHTTP)}, func(_ *router.Config, h *reverseproxy.Handler) { h.Scope = reverseproxy.BearerTenant })
	b := chat("shared system prompt", 10_000)
	for _, c := range []struct {
		header string
		warm   bool
	}{
		{"Authorization: Bearer one", false}, {"Authorization: Bearer one", true}, {"Authorization: Bearer two", false},
		{"X-Api-Key: three", false}, {"authorization: bearer two", true}, {"X-Api-Key: three", true}, {"X-None: ", false},
	} {
		g.post(b, c.header)
		if d := g.decision(); d.CachedTokens > 0 != c.warm {
			t.Errorf("%s: %v, want warm = %v", c.header, d, c.warm)
		}
	}
}

func TestHeaderTenant(t *testing.T) {
	r, _ := http.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Tenant", "t1")
	if got := reverseproxy.HeaderTenant("x-tenant")(r).Tenant; got != "t1" {
		t.Errorf("HeaderTenant = %q, want t1", got)
	}
}

// C94: an adapter is served where it is loaded.
func TestHandler_RefineByAdapter(t *testing.T) {
	rec := newRecorder()
	g := start(t, nil, func(_ *router.Config, h *reverseproxy.Handler) {
		h.Refine = func(_ *http.Request, m *tokenprefix.Meta, r *router.Request) {
			adapter := string(m.Model)
			r.Eligible = func(e *router.Endpoint) bool { return e.Labels["adapter"] == adapter }
		}
	})
	var list []router.Endpoint
	for i, adapter := range []string{"law", "med", "sql"} {
		list = append(list, router.Endpoint{ID: fmt.Sprint(i), URL: target(t, engine(t, rec.ServeHTTP)), Weight: 1, Labels: map[string]string{"adapter": adapter}})
	}
	must(t, g.pool.SetEndpoints(list))
	for range 5 {
		g.post(`{"model":"med","messages":[{"role":"user","content":"hi"}]}`)
		if d := g.decision(); d.Endpoint.ID != "1" {
			t.Errorf("decision = %v, want endpoint 1", d)
		}
	}
	if a := g.post(`{"model":"other","messages":[{"role":"user","content":"hi"}]}`); a.StatusCode != 503 {
		t.Errorf("status = %d for an adapter nobody has, want 503", a.StatusCode)
	}
}

// C78: other codings are decoded by whoever knows them. One that nobody knows, or
// that fails, is forwarded all the same.
func TestC78_Decoders(t *testing.T) {
	rec := newRecorder()
	plain := input(t, "chat_basic.json")
	g := start(t, []string{engine(t, rec.ServeHTTP)}, func(_ *router.Config, h *reverseproxy.Handler) {
		h.Decoders = map[string]reverseproxy.Decoder{
			"rot":    func(dst, _ []byte, _ int) ([]byte, error) { return append(dst, plain...), nil },
			"broken": func(dst, _ []byte, _ int) ([]byte, error) { return append(dst, plain...), reverseproxy.ErrTooLarge },
		}
	})
	for _, c := range []struct {
		coding string
		keyed  bool
	}{{"rot", true}, {"ROT", true}, {"broken", false}, {"gzip", false}, {"br", false}, {"", false}} {
		if a := g.post("something else", "Content-Encoding: "+c.coding); a.StatusCode != 200 {
			t.Errorf("%q: status = %d, want 200", c.coding, a.StatusCode)
		}
		sameBytes(t, "engine's body", <-rec.bodies, []byte("something else"))
		if d := g.decision(); d.Home != "" != c.keyed {
			t.Errorf("%q: %v, want by prefix = %v", c.coding, d, c.keyed)
		}
	}
}

// Damaged gzip is no reason to refuse a request.
func TestC78_DamagedGzip(t *testing.T) {
	rec := newRecorder()
	whole := input(t, "chat_basic.json.gz")
	g := start(t, []string{engine(t, rec.ServeHTTP)})
	for _, b := range [][]byte{whole[:len(whole)/2], []byte("no gzip"), whole[:len(whole)-4]} {
		if a := g.post(string(b), "Content-Encoding: gzip"); a.StatusCode != 200 {
			t.Errorf("status = %d, want 200", a.StatusCode)
		}
		sameBytes(t, "engine's body", <-rec.bodies, b)
		if d := g.decision(); d.Home != "" {
			t.Errorf("decision = %v, want none by prefix", d)
		}
	}
}
