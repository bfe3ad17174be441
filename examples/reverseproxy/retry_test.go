package reverseproxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
)

// C45, C82, C102, C109: nobody listens at the home of a prompt. The request goes
// elsewhere, whole, with its attempt marked; later the prompt comes home.
func TestC45_DialFailureGoesElsewhere(t *testing.T) {
	for _, c := range []struct {
		name, body string
		chunked    bool
	}{
		{"within the peek", chat("x", 3000), false},
		{"chunked", chat("x", 3000), true},
		{"behind the peek", chat("x", 200_000), false},
		{"behind the peek, chunked", chat("x", 200_000), true},
		{"empty", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := newRecorder()
			dead, alive := deadEngine(t), engine(t, rec.ServeHTTP)
			g := start(t, []string{dead}, func(_ *router.Config, h *reverseproxy.Handler) { h.MaxPeek = 100_000 })
			// The dead one is picked first because the other takes nothing yet.
			list := endpoints(t, []string{dead, alive})
			list[1].Weight = 0
			must(t, g.pool.SetEndpoints(list))
			g.handler.Router = &wakeUp{g.pool, endpoints(t, []string{dead, alive})}

			req, err := http.NewRequest(http.MethodPost, g.server.URL+"/v1/chat/completions?q=1", reader(c.body, c.chunked))
			must(t, err)
			req.Header.Set(reverseproxy.AttemptHeader, "99") // not the client's to set
			if a := g.do(req); a.StatusCode != 200 {
				t.Fatalf("status = %d, want 200", a.StatusCode)
			}
			got := <-rec.requests
			if v := got.Header.Get(reverseproxy.AttemptHeader); v != "2" {
				t.Errorf("%s = %q, want 2", reverseproxy.AttemptHeader, v)
			}
			if got.URL.String() != "/v1/chat/completions?q=1" {
				t.Errorf("URL of the second attempt = %s, want that of the first", got.URL)
			}
			sameBytes(t, "engine's body", <-rec.bodies, []byte(c.body))
			if first, second := g.outcome(), g.outcome(); first.Err == nil || second.Err != nil || second.Abandoned {
				t.Errorf("outcomes = %+v, %+v; want a failure and a success", first, second)
			}
		})
	}
}

// wakeUp is a router that brings more endpoints after its first pick.
type wakeUp struct {
	*router.Pool
	endpoints []router.Endpoint
}

func (w *wakeUp) Pick(r router.Request) (*router.Decision, error) {
	d, err := w.Pool.Pick(r)
	w.Pool.SetEndpoints(w.endpoints)
	return d, err
}

// C45: the key comes home when its endpoint is back.
func TestC45_KeyComesHome(t *testing.T) {
	rec := newRecorder()
	url := engine(t, rec.ServeHTTP)
	var refuse atomic.Bool
	g := start(t, []string{url, engine(t, rec.ServeHTTP)}, func(_ *router.Config, h *reverseproxy.Handler) {
		h.Transport = failing{h.Transport, func(r *http.Request) error {
			if refuse.Load() && "http://"+r.URL.Host == url {
				return &net.OpError{Op: "dial", Err: fmt.Errorf("refused")}
			}
			return nil
		}}
	})
	prompt := ""
	for i := 0; prompt == ""; i++ { // one whose home it is
		g.post(chat(fmt.Sprint("Persona ", i), 4000))
		if d := g.decision(); d.Home == url && d.Endpoint.ID == url {
			prompt = chat(fmt.Sprint("Persona ", i), 4000)
		}
	}
	refuse.Store(true)
	if a := g.post(prompt); a.StatusCode != 200 {
		t.Errorf("status = %d, want 200", a.StatusCode)
	}
	if first, second := g.decision(), g.decision(); first.Endpoint.ID != url || second.Endpoint.ID == url {
		t.Errorf("attempts = %v; %v", first, second)
	}
	refuse.Store(false)
	g.post(prompt)
	if d := g.decision(); d.Home != url {
		t.Errorf("home = %s, want %s as before", d.Home, url)
	}
}

// failing is a transport that refuses some requests, and closes their bodies as
// transports do.
type failing struct {
	http.RoundTripper
	err func(*http.Request) error
}

func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := f.err(r); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	return f.RoundTripper.RoundTrip(r)
}

// C102: what was sent may have been computed, and is not sent again.
func TestC102_NoRetryAfterSending(t *testing.T) {
	var calls atomic.Int32
	reset := func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	}
	g := start(t, []string{engine(t, reset), engine(t, reset)})
	if a := g.post(chat("x", 10)); a.StatusCode != 502 {
		t.Errorf("status = %d, want 502", a.StatusCode)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d engines got the request, want 1", n)
	}
}

// C102: retries are bounded by the router's budget, here its first ten.
func TestC102_RetryBudget(t *testing.T) {
	var dials atomic.Int32
	g := start(t, []string{"http://10.0.0.1", "http://10.0.0.2", "http://10.0.0.3", "http://10.0.0.4"}, func(c *router.Config, h *reverseproxy.Handler) {
		c.Breaker.Failures = -1
		h.Transport = failing{nil, func(*http.Request) error {
			dials.Add(1)
			return &net.OpError{Op: "dial", Err: fmt.Errorf("refused")}
		}}
	})
	for range 100 {
		if a := g.post(chat("x", 10)); a.StatusCode != 502 {
			t.Fatalf("status = %d, want 502", a.StatusCode)
		}
	}
	if n := dials.Load(); n < 110 || n > 100+10+10 {
		t.Errorf("%d attempts for 100 requests, want at most 10 %% more and a burst of 10", n)
	}
}

// C102: an engine that is busy is left alone; elsewhere the request is tried
// only if so configured.
func TestC102_Busy(t *testing.T) {
	for _, retry := range []bool{false, true} {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			t.Run(fmt.Sprintf("retry=%v/%d", retry, status), func(t *testing.T) {
				var calls atomic.Int32
				first := func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					if calls.Add(1) > 1 {
						w.Write(body)
						return
					}
					w.Header().Set("Retry-After", "7")
					w.WriteHeader(status)
					io.WriteString(w, "busy")
				}
				g := start(t, []string{engine(t, first), engine(t, first)}, func(_ *router.Config, h *reverseproxy.Handler) { h.RetryBusy = retry })
				b := chat("x", 10)
				a := g.post(b)
				if o := g.outcome(); o.StatusCode != status || o.RetryAfter.Seconds() != 7 || o.Abandoned {
					t.Errorf("outcome = %+v, want %d and 7 s", o, status)
				}
				if retry && (a.StatusCode != 200 || a.body != b) {
					t.Errorf("answer = %d %q, want the second engine's", a.StatusCode, a.body)
				}
				if !retry && (a.StatusCode != status || a.body != "busy" || a.Header.Get("Retry-After") != "7") {
					t.Errorf("answer = %d %q, want the first engine's as it was", a.StatusCode, a.body)
				}
				busy := 0
				for _, s := range g.pool.Stats() {
					if s.Busy {
						busy++
					}
					if s.Load.FailureShare != 0 || s.Cooling {
						t.Errorf("%s is taken for broken: %+v", s.Endpoint.ID, s)
					}
				}
				if busy != 1 {
					t.Errorf("%d endpoints are left alone, want 1", busy)
				}
			})
		}
	}
	t.Run("everybody is", func(t *testing.T) {
		busy := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, "busy")
		}
		g := start(t, []string{engine(t, busy), engine(t, busy)}, func(_ *router.Config, h *reverseproxy.Handler) { h.RetryBusy = true })
		if a := g.post(chat("x", 10)); a.StatusCode != 503 || a.body != "busy" {
			t.Errorf("answer = %d %q, want the last engine's", a.StatusCode, a.body)
		}
		g.outcome()
		g.outcome()
	})
}

// C66: a client that sends nonsense takes no engine out of service.
func TestC66_ClientErrorsAreNoFailures(t *testing.T) {
	for _, status := range []int{400, 404, 422} {
		g := start(t, []string{engine(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })})
		for range 50 {
			if a := g.post("{"); a.StatusCode != status {
				t.Errorf("status = %d, want the engine's %d", a.StatusCode, status)
			}
		}
		if s := g.pool.Stats()[0]; s.Cooling || s.Load.FailureShare != 0 {
			t.Errorf("after %d fifty times: %+v", status, s)
		}
	}
}

// The transport for engines gives up idle connections before they do.
func TestNewTransport_IdleTimeoutBelowTheEngines(t *testing.T) {
	tr := reverseproxy.NewTransport()
	if tr.IdleConnTimeout <= 0 || tr.IdleConnTimeout.Seconds() >= 5 {
		t.Errorf("IdleConnTimeout = %v, want below the 5 s of uvicorn", tr.IdleConnTimeout)
	}
}

// C103: a client can't have headers removed by naming them in Connection.
func TestC103_ConnectionHeader(t *testing.T) {
	rec := newRecorder()
	g := start(t, []string{engine(t, rec.ServeHTTP)})
	g.post("{}", "Connection: X-Forwarded-For, Authorization", "X-Forwarded-For: 6.6.6.6", "Forwarded: for=6.6.6.6")
	r := <-rec.requests
	if got := r.Header.Get("X-Forwarded-For"); got != "127.0.0.1" {
		t.Errorf("X-Forwarded-For = %q, want the client's address as seen", got)
	}
	if got := r.Header.Get("Forwarded"); got != "" {
		t.Errorf("Forwarded = %q, want none", got)
	}
	if strings.Contains(r.Header.Get("Connection"), "Authorization") {
		t.Errorf("Connection = %q reached the engine", r.Header.Get("Connection"))
	}
}
