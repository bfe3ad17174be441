package reverseproxy_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

var soak = flag.Duration("soak", time.Second, "duration of TestSoak")

// TestSoak keeps a gateway under fire: clients of which a third leave at random
// points, bodies that are kept and bodies that stream through, engines that are
// killed and come back. Time is real here, and random choices are seeded for each
// client.
//
//	go test ./examples/reverseproxy -run TestSoak -soak 60s -v
func TestSoak(t *testing.T) {
	const (
		clients = 200
		engines = 4
	)
	goroutines := runtime.NumGoroutine()
	var fleet []*mortal
	var urls []string
	for range engines {
		e := newMortal(t)
		fleet, urls = append(fleet, e), append(urls, "http://"+e.addr)
	}
	var (
		logged   lockedBuffer
		held     atomic.Int64 // decisions not released
		twice    atomic.Int64
		released sync.Map
	)
	pool, err := router.New(router.Config{
		Endpoints: endpoints(t, urls),
		Breaker:   router.Breaker{Cooling: 50 * time.Millisecond, MaxCooling: 100 * time.Millisecond},
		Hooks: router.Hooks{
			Decided: func(*router.Decision) { held.Add(1) },
			Released: func(d *router.Decision, _ router.Outcome) {
				held.Add(-1)
				if _, again := released.LoadOrStore(d, true); again {
					twice.Add(1)
				}
				released.Delete(d)
			},
		},
	})
	must(t, err)
	transport := reverseproxy.NewTransport()
	handler := &reverseproxy.Handler{Router: pool, Hasher: new(tokenprefix.Hasher), Transport: transport, MaxPeek: 16 << 10}
	gateway := httptest.NewUnstartedServer(handler)
	gateway.Config.ErrorLog = log.New(&logged, "", 0)
	gateway.Start()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients, DisableCompression: true}}

	ctx, stop := context.WithTimeout(context.Background(), *soak)
	defer stop()
	var (
		work                             sync.WaitGroup
		done, aborted, onKilled, refused atomic.Int64
	)
	work.Go(func() { killers(ctx, fleet) })
	for i := range clients {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		prompt := chat(fmt.Sprint("Persona ", i%20), 4000+36_000*(i%2)) // within the peek, and behind it
		work.Go(func() {
			for ctx.Err() == nil {
				began, down := deaths(fleet), dead(fleet)
				switch err := soakRequest(client, gateway.URL, prompt, random); {
				case err == nil:
					done.Add(1)
				case err == errLeft:
					aborted.Add(1)
				case down || dead(fleet) || deaths(fleet) != began:
					onKilled.Add(1)
				default:
					refused.Add(1)
					t.Errorf("request lost with every engine alive: %v", err)
				}
			}
		})
	}
	var early, late runtime.MemStats // both under load
	work.Go(func() {
		heapAt(ctx, *soak/4, &early)
		heapAt(ctx, *soak*2/3, &late)
	})
	work.Wait()
	if !eventually(func() bool { return held.Load() == 0 }) {
		t.Errorf("%d decisions are still held", held.Load())
	}
	if n := inFlight(pool); n != 0 {
		t.Errorf("in flight = %d at the end, want 0", n)
	}
	if n := twice.Load(); n != 0 {
		t.Errorf("%d decisions were released twice", n)
	}
	client.CloseIdleConnections()
	gateway.Close()
	transport.CloseIdleConnections()
	for _, e := range fleet {
		e.kill()
	}
	noGrowth(t, goroutines)
	if text := logged.String(); strings.Contains(text, "panic") {
		t.Errorf("the server logged a panic:\n%s", text)
	}
	var idle runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&idle)
	t.Logf("%d answered, %d aborted, %d on engines that were killed (%d times), %d lost; heap %.1f MiB after a quarter, %.1f MiB near the end, %.1f MiB idle",
		done.Load(), aborted.Load(), onKilled.Load(), deaths(fleet), refused.Load(), mib(early.HeapAlloc), mib(late.HeapAlloc), mib(idle.HeapAlloc))
	if late.HeapAlloc > early.HeapAlloc+soakGrowth || idle.HeapAlloc > soakGrowth {
		t.Error("the heap grows")
	}
	if done.Load() == 0 || aborted.Load() == 0 {
		t.Error("nothing was tested")
	}
}

// soakGrowth is how much the heap may differ, in bytes, through what happens to
// be in flight.
const soakGrowth = 32 << 20

// heapAt measures the heap after a time.
func heapAt(ctx context.Context, after time.Duration, m *runtime.MemStats) {
	select {
	case <-time.After(after):
	case <-ctx.Done():
	}
	runtime.GC()
	runtime.ReadMemStats(m)
}

func mib(n uint64) float64 { return float64(n) / (1 << 20) }

var errLeft = fmt.Errorf("the client has left")

// soakRequest sends a request and reads its answer, or leaves on the way.
func soakRequest(c *http.Client, url, prompt string, random *rand.Rand) error {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	leaveAfter := -1 // lines; never
	if random.IntN(3) == 0 {
		leaveAfter = random.IntN(20)
		if leaveAfter < 5 { // before the headers, perhaps
			time.AfterFunc(time.Duration(random.IntN(5))*time.Millisecond, leave)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(prompt))
	if err != nil {
		return err
	}
	res, err := c.Do(r)
	if err != nil {
		return leftOr(ctx, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		return leftOr(ctx, fmt.Errorf("status %d: %s", res.StatusCode, text))
	}
	in := bufio.NewReader(res.Body)
	for lines := 0; ; lines++ {
		if lines == leaveAfter {
			leave()
			return errLeft
		}
		line, err := in.ReadString('\n')
		switch {
		case line == "data: [DONE]\n":
			return nil
		case err != nil:
			return leftOr(ctx, fmt.Errorf("after %d lines: %w", lines, err))
		}
	}
}

func leftOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errLeft
	}
	return err
}

// killers kills an engine at a time and brings it back.
func killers(ctx context.Context, fleet []*mortal) {
	random := rand.New(rand.NewPCG(2, 2))
	wait := func(d time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	for wait(time.Duration(200+random.IntN(800)) * time.Millisecond) {
		e := fleet[random.IntN(len(fleet))]
		e.kill()
		wait(time.Duration(100+random.IntN(200)) * time.Millisecond) // idle connections are found dead meanwhile
		e.start()
	}
}

func deaths(fleet []*mortal) (n int64) {
	for _, e := range fleet {
		n += e.deaths.Load()
	}
	return n
}

func dead(fleet []*mortal) bool {
	for _, e := range fleet {
		if e.down.Load() {
			return true
		}
	}
	return false
}

// mortal is an engine that can be killed and started again at its address.
type mortal struct {
	t       *testing.T
	addr    string
	server  *http.Server
	served  sync.WaitGroup
	down    atomic.Bool
	deaths  atomic.Int64
	answers atomic.Uint64
}

func newMortal(t *testing.T) *mortal {
	e := &mortal{t: t, addr: "127.0.0.1:0"}
	e.start()
	return e
}

func (e *mortal) start() {
	l, err := net.Listen("tcp", e.addr)
	if err != nil {
		e.t.Errorf("engine can't come back: %v", err)
		return
	}
	e.addr = l.Addr().String()
	e.server = &http.Server{Handler: e, ErrorLog: log.New(io.Discard, "", 0)}
	server := e.server
	e.served.Go(func() { server.Serve(l) })
	e.down.Store(false)
}

func (e *mortal) kill() {
	e.down.Store(true)
	e.deaths.Add(1)
	e.server.Close()
	e.served.Wait()
}

// ServeHTTP answers with a random number of events at random times.
func (e *mortal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	random := rand.New(rand.NewPCG(3, e.answers.Add(1)))
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.(http.Flusher).Flush() // long before there is anything to say
	for i := range 1 + random.IntN(20) {
		time.Sleep(time.Duration(random.IntN(4)) * time.Millisecond)
		if _, err := fmt.Fprintf(w, "data: %d\n\n", i); err != nil || r.Context().Err() != nil {
			return
		}
		w.(http.Flusher).Flush()
	}
	io.WriteString(w, "data: [DONE]\n\n")
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
