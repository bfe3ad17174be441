package reverseproxy_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// With a queue a request that finds no room waits in the gateway, is sent when
// there is some, and leaves nothing behind when its client leaves.
func TestQueue_RequestsWaitInTheGateway(t *testing.T) {
	entered, goOn := make(chan string, 10), make(chan struct{})
	url := engine(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		entered <- r.URL.RawQuery
		<-goOn
		io.WriteString(w, `{"ok":true}`)
	})
	g := start(t, []string{url}, func(c *router.Config, h *reverseproxy.Handler) {
		c.MaxInFlight = 1
		h.Scope = func(*http.Request) tokenprefix.Scope { return tokenprefix.Scope{Tenant: "a"} }
	})
	g.handler.Queue = g.pool

	ask := func(ctx context.Context, name string) <-chan int {
		status := make(chan int, 1)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.server.URL+"/v1/chat/completions?"+name, strings.NewReader(chat("x", 3000)))
		must(t, err)
		go func() {
			res, err := g.client.Do(r)
			if err != nil {
				status <- 0
				return
			}
			defer res.Body.Close()
			io.Copy(io.Discard, res.Body)
			status <- res.StatusCode
		}()
		return status
	}
	wait := func(length int) {
		t.Helper()
		if !eventually(func() bool { return g.pool.QueueStats().Length == length }) {
			t.Fatalf("%d requests wait, want %d", g.pool.QueueStats().Length, length)
		}
	}
	first := ask(t.Context(), "first")
	<-entered
	second := ask(t.Context(), "second")
	wait(1)
	ctx, leave := context.WithCancel(t.Context())
	third := ask(ctx, "third")
	wait(2)
	leave()
	if got := <-third; got != 0 {
		t.Errorf("status of the third, which left = %d, want none", got)
	}
	wait(1)
	close(goOn)
	if a, b := <-first, <-second; a != 200 || b != 200 {
		t.Errorf("statuses = %d, %d, want 200, 200", a, b)
	}
	if got := <-entered; got != "second" || len(entered) != 0 {
		t.Errorf("the engine was sent %q and %d more, want the second one only", got, len(entered))
	}
	if a, b := g.decision(), g.decision(); a.Held != router.NotHeld || b.Held != router.HeldForRoom || b.Waited <= 0 {
		t.Errorf("waited %v for %v and %v for %v, want nothing, and some time for room", a.Waited, a.Held, b.Waited, b.Held)
	}
}

// A queue that is full, or in which a request waited too long, is answered 503; the
// next request is asked for again, since room may come at any time.
func TestQueue_Refuses(t *testing.T) {
	entered, goOn := make(chan struct{}), make(chan struct{})
	url := engine(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		entered <- struct{}{}
		<-goOn
	})
	g := start(t, []string{url}, func(c *router.Config, _ *reverseproxy.Handler) {
		c.MaxInFlight, c.Queue.MaxWait = 1, time.Millisecond
	})
	g.handler.Queue = g.pool
	done := make(chan struct{})
	go func() {
		defer close(done)
		res, err := g.client.Post(g.server.URL+"/v1/chat/completions", "application/json", strings.NewReader(chat("x", 100)))
		if err != nil {
			t.Error(err)
			return
		}
		res.Body.Close()
	}()
	<-entered
	for range 2 {
		if a := g.post(chat("x", 100)); a.StatusCode != 503 || a.Header.Get("Retry-After") == "" || !strings.Contains(a.body, `"saturated"`) {
			t.Errorf("answer = %d %v %s, want 503 with Retry-After", a.StatusCode, a.Header, a.body)
		}
	}
	close(goOn)
	<-done
}

// A client whose body was not read to its end could leave the queue without anybody
// noticing, so such a request does not wait: it is sent or refused at once.
func TestQueue_UnreadBodiesDontWait(t *testing.T) {
	for _, c := range []struct {
		name   string
		asked  int // the queue
		body   string
		header string
		change func(*reverseproxy.Handler)
	}{
		{"read to its end", 1, chat("x", 500), "Content-Type: application/json", func(*reverseproxy.Handler) {}},
		{"no body", 1, "", "Content-Type: application/json", func(h *reverseproxy.Handler) { h.Hasher = nil }},
		{"longer than MaxPeek", 0, chat("x", 5000), "Content-Type: application/json", func(*reverseproxy.Handler) {}},
		{"multipart", 0, "--b--", "Content-Type: multipart/form-data; boundary=b", func(*reverseproxy.Handler) {}},
		{"no Hasher", 0, chat("x", 500), "Content-Type: application/json", func(h *reverseproxy.Handler) { h.Hasher = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := newRecorder()
			g := start(t, []string{engine(t, rec.ServeHTTP)}, func(config *router.Config, h *reverseproxy.Handler) {
				config.MaxInFlight, config.Queue.MaxWait, h.MaxPeek = 1, time.Millisecond, 1<<10
				c.change(h)
			})
			q := &countingQueue{Pool: g.pool, then: func() {}}
			g.handler.Queue = q
			if a := g.post(c.body, c.header); a.StatusCode != 200 || q.asked != c.asked {
				t.Errorf("status = %d, the queue was asked %d times, want 200 and %d", a.StatusCode, q.asked, c.asked)
			}
			sameBytes(t, "body", <-rec.bodies, []byte(c.body))
			if c.asked > 0 {
				return
			}
			g.outcome() // the place is free again
			d, err := g.pool.Pick(router.Request{})
			must(t, err)
			defer d.Release(router.Outcome{})
			if a := g.post(c.body, c.header); a.StatusCode != 503 || !strings.Contains(a.body, `"saturated"`) || q.asked > 0 {
				t.Errorf("answer without room = %d %s, the queue was asked %d times, want 503 saturated and none", a.StatusCode, a.body, q.asked)
			}
		})
	}
}

// What could not be delivered has waited already: it goes to another endpoint
// without the queue.
func TestQueue_RetriesDontWaitAgain(t *testing.T) {
	rec := newRecorder()
	dead, alive := deadEngine(t), engine(t, rec.ServeHTTP)
	g := start(t, []string{dead}, nil...)
	list := endpoints(t, []string{dead, alive})
	q := &countingQueue{Pool: g.pool}
	g.handler.Queue = q
	g.handler.Router = &wakeUp{g.pool, list}
	q.then = func() { must(t, g.pool.SetEndpoints(list)) }
	if a := g.post(chat("x", 100)); a.StatusCode != 200 {
		t.Errorf("status = %d, want 200", a.StatusCode)
	}
	if q.asked != 1 {
		t.Errorf("the queue was asked %d times, want once", q.asked)
	}
}

// countingQueue counts what it is asked for, and then does something.
type countingQueue struct {
	*router.Pool
	asked int
	then  func()
}

func (q *countingQueue) Acquire(ctx context.Context, r router.Request) (*router.Decision, error) {
	q.asked++
	d, err := q.Pool.Acquire(ctx, r)
	q.then()
	return d, err
}
