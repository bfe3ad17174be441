package router_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// waiting is a random life of a pool's queue, with what should be true of it.
type waiting struct {
	t       *testing.T
	rng     *rand.Rand
	pool    *router.Pool
	now     time.Time
	quiet   bool // no endpoint ever asks to be left alone
	prompts []tokenprefix.Signature
	live    []*router.Decision
	held    map[int]*router.Held
	remote  map[uint64]string // requests of another pool, by ID: endpoint
	next    int               // number of the next request, and of the next remote one
	came    []int             // numbers of requests
	ended   map[int]string    // how each ended
}

func newWaiting(t *testing.T, number uint64) *waiting {
	rng := rand.New(rand.NewPCG(*seed, number))
	w := &waiting{
		t: t, rng: rng, now: start, quiet: rng.IntN(2) == 0,
		held: map[int]*router.Held{}, remote: map[uint64]string{}, ended: map[int]string{},
	}
	c := router.Config{
		Endpoints: fleet(1 + rng.IntN(4)), KVCacheTokens: rng.IntN(2) * 40_000, Seed: number,
		Policy: []balancer.Policy{nil, nil, balancer.LeastLoad{}, balancer.BoundedLoad{}}[rng.IntN(4)],
		Queue:  router.Queue{Fair: rng.IntN(2) == 0, MaxLength: 5 + rng.IntN(60), MaxWait: time.Duration(1+rng.IntN(200)) * time.Second},
	}
	if rng.IntN(2) == 0 {
		c.MaxInFlight = 1 + rng.IntN(4)
	}
	w.pool = newPool(t, c)
	return w
}

func (w *waiting) arrive() {
	n := w.next
	w.next++
	w.came = append(w.came, n)
	var beginning []uint64
	if len(w.prompts) > 0 && w.rng.IntN(3) > 0 {
		beginning = w.prompts[w.rng.IntN(len(w.prompts))].Blocks
	}
	s := signature(w.rng, beginning[:min(len(beginning), 60)], w.rng.IntN(50))
	w.prompts = append(w.prompts[max(0, len(w.prompts)-20):], s)
	r := router.Request{Prefix: &s, At: w.now, Tenant: fmt.Sprint(w.rng.IntN(4)), HeadStart: time.Duration(w.rng.IntN(3)-1) * time.Second}
	if w.rng.IntN(10) == 0 {
		r.Eligible = func(e *router.Endpoint) bool { return e.ID != "e0" }
	}
	h := w.pool.Enqueue(r, func(d *router.Decision, err error) {
		delete(w.held, n)
		switch {
		case err == nil:
			if d.Waited < 0 || (d.Waited > 0) && d.Held == router.NotHeld || !d.At.Equal(w.now) {
				w.t.Errorf("request %d waited %v for %v until %v, now is %v", n, d.Waited, d.Held, d.At, w.now)
			}
			w.live = append(w.live, d)
			w.end(n, "sent")
		case errors.Is(err, router.ErrSaturated), errors.Is(err, router.ErrNoEndpoints):
			w.end(n, err.Error())
		default:
			w.t.Errorf("request %d: %v", n, err)
		}
	})
	if h != nil {
		if how, over := w.ended[n]; over {
			w.t.Errorf("request %d is held and %s", n, how)
		}
		w.held[n] = h
	}
}

// end notes how a request ended: it ends once.
func (w *waiting) end(n int, how string) {
	if was, over := w.ended[n]; over {
		w.t.Errorf("request %d ends by %q after %q", n, how, was)
	}
	w.ended[n] = how
}

func (w *waiting) cancel() {
	for n, h := range w.held {
		delete(w.held, n)
		if !h.CancelAt(w.now) {
			w.t.Errorf("request %d is held and can't be cancelled", n)
		}
		w.end(n, "cancelled")
		return
	}
}

func (w *waiting) release() {
	if len(w.live) == 0 {
		return
	}
	k := w.rng.IntN(len(w.live))
	d := w.live[k]
	w.live = slices.Delete(w.live, k, k+1) // first: it may make room for others
	var o router.Outcome
	switch w.rng.IntN(8) {
	case 0:
		o.Err = errors.New("connection reset")
	case 1:
		o.Abandoned = true
	case 2:
		if !w.quiet {
			o.StatusCode, o.RetryAfter = 503, time.Duration(w.rng.IntN(40))*time.Second
		}
	case 3:
		o.PromptTokens, o.CachedTokens = loadstats.Known(int64(d.PromptTokens)), loadstats.Known(int64(w.rng.IntN(d.PromptTokens+1)))
	}
	d.ReleaseAt(w.now, o)
}

func (w *waiting) announced() {
	id := uint64(w.next)
	if len(w.remote) > 0 && w.rng.IntN(2) == 0 {
		for id = range w.remote {
			break
		}
		kind := router.FirstToken
		if w.rng.IntN(2) == 0 {
			kind = router.Released
			delete(w.remote, id)
		}
		require.NoError(w.t, w.pool.ApplyAt(w.now, &router.Event{Kind: kind, Origin: 9, ID: id}))
		return
	}
	w.next++
	e := fmt.Sprint("e", w.rng.IntN(4))
	if slices.ContainsFunc(w.pool.StatsAt(w.now), func(s router.EndpointStats) bool { return s.Endpoint.ID == e && !s.Left }) {
		w.remote[id] = e
	}
	require.NoError(w.t, w.pool.ApplyAt(w.now, &router.Event{Kind: router.Sent, Origin: 9, ID: id, Endpoint: e, Tokens: w.rng.IntN(20_000), Own: 1}))
}

func (w *waiting) step() {
	w.now = w.now.Add(time.Duration(w.rng.IntN(400)) * time.Millisecond)
	switch w.rng.IntN(12) {
	case 0, 1, 2, 3:
		w.arrive()
	case 4:
		w.cancel()
	case 5, 6:
		if len(w.live) > 0 {
			w.live[w.rng.IntN(len(w.live))].FirstTokenAt(w.now)
		}
	case 7, 8:
		w.release()
	case 9:
		w.announced()
	case 10:
		if w.rng.IntN(5) == 0 {
			require.NoError(w.t, w.pool.SetEndpointsAt(w.now, fleet(1+w.rng.IntN(4))))
		}
	case 11:
		w.pool.DispatchAt(w.now)
	}
}

func (w *waiting) check() {
	w.t.Helper()
	require.NoError(w.t, w.pool.CheckQueue())
	count := map[string]int{}
	for _, d := range w.live {
		count[d.Endpoint.ID]++
	}
	for _, id := range w.remote {
		count[id]++
	}
	require.NoError(w.t, w.pool.CheckInvariants(count))
	if got := w.pool.QueueStatsAt(w.now).Length; got != len(w.held) {
		w.t.Fatalf("the queue has %d requests, %d are held", got, len(w.held))
	}
}

// Every request is sent once, or ends with an error, or is cancelled, whatever
// happens; and when all that was sent has been released nobody waits any more: no
// wake-up is lost.
func TestQueue_RandomLives(t *testing.T) {
	heldEver := 0
	for number := range uint64(60) {
		w := newWaiting(t, number)
		for i := range 600 {
			w.step()
			heldEver += len(w.held)
			if i%20 == 0 {
				w.check()
			}
		}
		// No more arrives, and what is at endpoints ends.
		w.pool.DisconnectAt(w.now, 9)
		clear(w.remote)
		for len(w.live) > 0 {
			w.now = w.now.Add(time.Millisecond)
			w.release()
		}
		for len(w.held) > 0 && !w.quiet { // until nobody wants to be left alone
			w.now = w.now.Add(router.PassInterval)
			w.pool.DispatchAt(w.now)
			for len(w.live) > 0 {
				w.release()
			}
		}
		w.check()
		if len(w.held) > 0 {
			t.Errorf("life %d: %d requests wait for nothing", number, len(w.held))
		}
		for _, n := range w.came {
			if w.ended[n] == "" {
				t.Errorf("life %d: request %d never ended", number, n)
			}
		}
		for _, s := range w.pool.StatsAt(w.now) {
			if l := s.Load; l.InFlight != 0 || l.PinnedTokens != 0 || l.Backlog != 0 {
				t.Errorf("life %d: at the end %s has %+v", number, s.Endpoint.ID, l)
			}
		}
	}
	if heldEver == 0 {
		t.Error("nothing was ever held, so nothing was tested")
	}
}
