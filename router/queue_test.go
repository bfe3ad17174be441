package router_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// desk is a pool with a clock, of whose endpoints it is known how fast they
// compute: 10,000 tokens a second.
type desk struct {
	t    *testing.T
	pool *router.Pool
	now  time.Time
	sent []string // names of what was sent, in order
	got  map[string]*router.Decision
	errs map[string]error
}

func newDesk(t *testing.T, c router.Config) *desk {
	d := &desk{t: t, pool: newPool(t, c), now: start, got: map[string]*router.Decision{}, errs: map[string]error{}}
	for _, e := range c.Endpoints {
		d.serve(e.ID, &tokenprefix.Signature{Tokens: 10_000}, time.Second)
	}
	return d
}

// at returns what makes only one endpoint eligible.
func at(id string) func(*router.Endpoint) bool {
	return func(e *router.Endpoint) bool { return e.ID == id }
}

// serve lets an endpoint compute a prompt in some time.
func (d *desk) serve(id string, s *tokenprefix.Signature, took time.Duration) {
	one := pick(d.t, d.pool, router.Request{Prefix: s, Eligible: at(id), At: d.now})
	d.now = d.now.Add(took)
	one.FirstTokenAt(d.now)
	one.ReleaseAt(d.now, router.Outcome{StatusCode: 200})
}

// occupy gives an endpoint so many tokens to compute, which nothing waits for.
func (d *desk) occupy(id string, tokens int) *router.Decision {
	return pick(d.t, d.pool, router.Request{Prefix: &tokenprefix.Signature{Tokens: tokens}, Eligible: at(id), At: d.now})
}

func (d *desk) enqueue(name string, r router.Request) *router.Held {
	r.At = d.now
	called := 0
	return d.pool.Enqueue(r, func(one *router.Decision, err error) {
		if called++; called > 1 {
			d.t.Errorf("%s is ready for the %dth time", name, called)
		}
		d.sent = append(d.sent, name)
		d.got[name], d.errs[name] = one, err
	})
}

func TestEnqueue_SendsAtOnceWhereThereIsRoom(t *testing.T) {
	d := newDesk(t, router.Config{Endpoints: fleet(2)})
	if h := d.enqueue("a", router.Request{Prefix: prompt(1, 30)}); h != nil {
		t.Error("the request is held though the endpoints are idle")
	}
	if one := d.got["a"]; one == nil || one.Waited != 0 || one.Held != router.NotHeld {
		t.Errorf("decision %v, want one that did not wait", one)
	}
	if got := d.pool.QueueStatsAt(d.now); got != (router.QueueStats{}) {
		t.Errorf("QueueStats = %+v, want nothing", got)
	}
}

// A request waits for its warm endpoint, and goes as soon as that is free.
func TestEnqueue_WaitsForTheWarmEndpoint(t *testing.T) {
	d := newDesk(t, router.Config{Endpoints: fleet(2)})
	d.serve("e1", prompt(1, 100), 2560*time.Millisecond)
	busy := d.occupy("e1", 10_000)
	if h := d.enqueue("turn", router.Request{Prefix: prompt(1, 110)}); h == nil {
		t.Fatal("the request was not held")
	}
	if got, want := d.pool.QueueStatsAt(d.now.Add(time.Second)), (router.QueueStats{Length: 1, Tokens: 2560, Oldest: time.Second}); got != want {
		t.Errorf("QueueStats = %+v, want %+v", got, want)
	}
	if next := d.pool.DispatchAt(d.now); next != d.now.Add(router.PassInterval) {
		t.Errorf("DispatchAt = %v, want %v later", next, router.PassInterval)
	}
	d.now = d.now.Add(900 * time.Millisecond)
	busy.FirstTokenAt(d.now)
	one := d.got["turn"]
	if one == nil || one.Endpoint.ID != "e1" || one.Waited != 900*time.Millisecond || one.Held != router.HeldForPrefill {
		t.Fatalf("decision %v, want one for e1 that waited 900 ms for prefill", one)
	}
	if next := d.pool.DispatchAt(d.now); !next.IsZero() {
		t.Errorf("DispatchAt = %v with nothing held, want zero", next)
	}
}

// A decision tells how long it took and why, wherever it explains itself.
func TestDecision_TellsOfTheWait(t *testing.T) {
	d := newDesk(t, router.Config{Endpoints: fleet(1)})
	busy := d.occupy("e0", 10_000)
	d.enqueue("turn", router.Request{Prefix: prompt(1, 60)})
	d.now = d.now.Add(1500 * time.Millisecond)
	busy.FirstTokenAt(d.now)
	one := d.got["turn"]
	if got, want := one.String(), ", waited 1.5s for prefill, "; !strings.Contains(got, want) {
		t.Errorf("String() = %s, want %q in it", got, want)
	}
	data, err := json.Marshal(one)
	require.NoError(t, err)
	if want := `"held":"prefill","waited_ms":1500,`; !strings.Contains(string(data), want) {
		t.Errorf("JSON = %s, want %s in it", data, want)
	}
	var text strings.Builder
	slog.New(slog.NewTextHandler(&text, nil)).Info("decided", "decision", one)
	if want := "decision.held=prefill decision.waited=1.5s"; !strings.Contains(text.String(), want) {
		t.Errorf("log = %s, want %s in it", text.String(), want)
	}
}

// What is cached nowhere goes to an idle endpoint, whoever waits for another.
func TestEnqueue_WaitingForOneEndpointHoldsUpNoOther(t *testing.T) {
	d := newDesk(t, router.Config{Endpoints: fleet(2)})
	d.serve("e1", prompt(1, 100), 2560*time.Millisecond)
	d.occupy("e1", 10_000)
	d.enqueue("turn", router.Request{Prefix: prompt(1, 110)})
	if d.enqueue("new", router.Request{Prefix: prompt(2, 100)}) != nil || d.got["new"].Endpoint.ID != "e0" {
		t.Errorf("sent %v, want new on e0 at once", d.sent)
	}
}

// The order is by arrival and own work.
func TestQueue_Order(t *testing.T) {
	const long, short = 40, 10 // blocks: an allowance of 15.4 s and of 3.8 s
	for _, c := range []struct {
		name    string
		arrives []time.Duration // of: long, short, short
		head    [3]time.Duration
		want    []string
	}{
		{"short ones first", []time.Duration{0, 0, 0}, [3]time.Duration{}, []string{"b", "c", "a"}},
		{"up to a time", []time.Duration{0, 11 * time.Second, 12 * time.Second}, [3]time.Duration{}, []string{"b", "a", "c"}},
		{"a head start", []time.Duration{0, 0, 0}, [3]time.Duration{12 * time.Second}, []string{"a", "b", "c"}},
		{"a handicap", []time.Duration{0, 0, 0}, [3]time.Duration{0, -time.Minute, 0}, []string{"c", "a", "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t, router.Config{Endpoints: fleet(1)})
			busy, began := d.occupy("e0", 300_000), d.now
			for i, blocks := range []int{long, short, short} {
				d.now = began.Add(c.arrives[i])
				d.enqueue(string(rune('a'+i)), router.Request{Prefix: prompt(uint64(i+1), blocks), HeadStart: c.head[i]})
			}
			require.Empty(t, d.sent)
			d.now = began.Add(20 * time.Second)
			for busy != nil {
				busy.FirstTokenAt(d.now)
				busy = nil
				if n := len(d.sent); n > 0 && n < 3 {
					busy = d.got[d.sent[n-1]]
				}
			}
			if !slices.Equal(d.sent, c.want) {
				t.Errorf("sent in the order %v, want %v", d.sent, c.want)
			}
		})
	}
}

// Tenants take turns by tokens, however many requests one has.
func TestQueue_FairTenantsTakeTurns(t *testing.T) {
	for _, c := range []struct {
		fair bool
		want []string // the first four
	}{
		{false, []string{"greedy 0", "greedy 1", "greedy 2", "greedy 3"}},
		{true, []string{"greedy 0", "modest 0", "greedy 1", "modest 1"}},
	} {
		d := newDesk(t, router.Config{Endpoints: fleet(1), Queue: router.Queue{Fair: c.fair}})
		busy := d.occupy("e0", 300_000)
		for _, tenant := range []string{"greedy", "modest"} {
			for i := range 5 {
				d.now = d.now.Add(time.Millisecond)
				seed := uint64(len(tenant)*100 + i)
				if tenant == "modest" {
					seed += 1000
				}
				d.enqueue(fmt.Sprint(tenant, " ", i), router.Request{Prefix: prompt(seed, 20), Tenant: tenant})
			}
		}
		for range 10 {
			busy.FirstTokenAt(d.now)
			if n := len(d.sent); n > 0 {
				busy = d.got[d.sent[n-1]]
			}
			require.NoError(t, d.pool.CheckQueue())
		}
		if got := d.sent[:4]; !slices.Equal(got, c.want) {
			t.Errorf("fair = %v: sent first %v, want %v", c.fair, got, c.want)
		}
		if n := d.pool.Tenants(); n != 0 || len(d.sent) != 10 {
			t.Errorf("fair = %v: at the end %d are sent and %d tenants known, want 10 and none", c.fair, len(d.sent), n)
		}
	}
}

// Who was away gets no credit for it: it begins where the least served is.
func TestQueue_FairnessForgetsWhoWasAway(t *testing.T) {
	d := newDesk(t, router.Config{Endpoints: fleet(1), Queue: router.Queue{Fair: true}})
	busy := d.occupy("e0", 300_000)
	send := func(name string, i int) {
		d.enqueue(name, router.Request{Prefix: prompt(uint64(i), 20), Tenant: name})
	}
	for i := range 8 {
		send("a", 100+i)
		send("b", 200+i)
	}
	next := func() {
		busy.FirstTokenAt(d.now)
		busy = d.got[d.sent[len(d.sent)-1]]
	}
	for range 8 {
		next()
	}
	for i := range 4 {
		send("late", 300+i)
	}
	d.sent = nil
	for range 6 {
		next()
	}
	counts := map[string]int{}
	for _, name := range d.sent {
		counts[name]++
	}
	if counts["late"] != 2 || counts["a"] != 2 || counts["b"] != 2 {
		t.Errorf("after it came: %v, want two of each", counts)
	}
}

func TestQueue_FullAndOverlong(t *testing.T) {
	d := newDesk(t, router.Config{Endpoints: fleet(1), Queue: router.Queue{MaxLength: 2, MaxWait: 10 * time.Second}})
	d.occupy("e0", 500_000)
	for i := range 3 {
		d.enqueue(fmt.Sprint(i), router.Request{Prefix: prompt(uint64(i), 200)})
	}
	var full *router.SaturatedError
	if !errors.As(d.errs["2"], &full) || !errors.Is(d.errs["2"], router.ErrSaturated) {
		t.Fatalf("third request: %v, want ErrSaturated", d.errs["2"])
	}
	// Two prompts of 51,200 tokens at 10,000 tokens a second.
	if got, want := full.RetryAfter, 10240*time.Millisecond; got != want {
		t.Errorf("RetryAfter = %v, want %v", got, want)
	}
	d.now = d.now.Add(10*time.Second - 1)
	d.pool.DispatchAt(d.now)
	if len(d.sent) != 1 {
		t.Fatalf("ready before the longest wait: %v", d.sent)
	}
	d.pool.DispatchAt(d.now.Add(1))
	if !errors.Is(d.errs["0"], router.ErrSaturated) || !errors.Is(d.errs["1"], router.ErrSaturated) {
		t.Errorf("after the longest wait: %v, want ErrSaturated for both", d.errs)
	}
	require.NoError(t, d.pool.CheckQueue())
	require.NoError(t, d.pool.CheckInvariants(map[string]int{"e0": 1}))
}

// Requests beyond those that a pass looks at are not forgotten.
func TestQueue_LongerThanAPass(t *testing.T) {
	d := newDesk(t, router.Config{Endpoints: fleet(1), Queue: router.Queue{MaxWait: time.Minute}})
	busy := d.occupy("e0", 500_000)
	const n = 5 * router.LookAhead
	for i := range n {
		d.enqueue(fmt.Sprint(i), router.Request{Prefix: prompt(uint64(i), 10+i)})
	}
	for i := range n {
		busy.FirstTokenAt(d.now)
		if len(d.sent) != i+1 {
			t.Fatalf("after %d prefills %d were sent", i+1, len(d.sent))
		}
		busy = d.got[d.sent[i]]
	}
	// Shorter ones first, all having come at the same time.
	if !slices.IsSortedFunc(d.sent, func(a, b string) int {
		return len(d.got[a].Alternatives) + d.got[a].PromptTokens - d.got[b].PromptTokens
	}) {
		t.Errorf("sent in the order %v, want the shortest first", d.sent)
	}
}

func TestQueue_CancelledLeavesNothing(t *testing.T) {
	d := newDesk(t, router.Config{Endpoints: fleet(1), Queue: router.Queue{Fair: true}})
	busy := d.occupy("e0", 500_000)
	var held []*router.Held
	for i := range 4 {
		held = append(held, d.enqueue(fmt.Sprint(i), router.Request{Prefix: prompt(uint64(i), 10+i), Tenant: fmt.Sprint(i)}))
	}
	for _, h := range held {
		if !h.CancelAt(d.now) || h.CancelAt(d.now) {
			t.Error("CancelAt must succeed once")
		}
	}
	if got := d.pool.QueueStatsAt(d.now); got != (router.QueueStats{}) || d.pool.Tenants() != 0 {
		t.Errorf("%+v and %d tenants left, want nothing", got, d.pool.Tenants())
	}
	busy.ReleaseAt(d.now, router.Outcome{})
	if len(d.sent) > 0 {
		t.Errorf("%v were sent", d.sent)
	}
	require.NoError(t, d.pool.CheckQueue())
	require.NoError(t, d.pool.CheckInvariants(nil))
}

// What makes the one in front unnecessary makes room for those behind.
func TestQueue_CancellationIsAnOccasion(t *testing.T) {
	d := newDesk(t, router.Config{Endpoints: []router.Endpoint{{ID: "e0", Weight: 1, KVCacheTokens: 100_000}}})
	// Some 60,000 tokens are pinned, and nothing is ahead.
	pick(t, d.pool, router.Request{Prefix: prompt(3, 234), At: d.now}).FirstTokenAt(d.now)
	large := d.enqueue("large", router.Request{Prefix: prompt(1, 200), HeadStart: time.Hour})
	d.enqueue("small", router.Request{Prefix: prompt(2, 20)})
	require.Empty(t, d.sent)
	large.CancelAt(d.now)
	if !slices.Equal(d.sent, []string{"small"}) || d.got["small"].Held != router.HeldForPrefill {
		t.Errorf("sent %v, want small, which waited behind large", d.sent)
	}
}

// Whatever ends a wait for room is an occasion to send, and time alone is too.
func TestQueue_Occasions(t *testing.T) {
	turn := router.Request{Prefix: prompt(1, 60)}
	for _, c := range []struct {
		name string
		do   func(d *desk, busy *router.Decision)
		want string // endpoint
	}{
		{"first token", func(d *desk, busy *router.Decision) { busy.FirstTokenAt(d.now) }, "e0"},
		{"release", func(d *desk, busy *router.Decision) { busy.ReleaseAt(d.now, router.Outcome{}) }, "e0"},
		{"failure", func(d *desk, busy *router.Decision) {
			busy.ReleaseAt(d.now, router.Outcome{Err: errors.New("connection reset")})
		}, "e0"},
		{"an endpoint joins", func(d *desk, _ *router.Decision) {
			require.NoError(d.t, d.pool.SetEndpointsAt(d.now, fleet(2)))
		}, "e1"},
		{"its prefill should be over", func(d *desk, _ *router.Decision) { d.pool.DispatchAt(d.now.Add(51 * time.Second)) }, "e0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t, router.Config{Endpoints: fleet(1)})
			busy := d.occupy("e0", 500_000)
			d.enqueue("turn", turn)
			require.Empty(t, d.sent)
			c.do(d, busy)
			if one := d.got["turn"]; one == nil || one.Endpoint.ID != c.want {
				t.Errorf("decision %v, want one for %s", one, c.want)
			}
		})
	}
}

// What happens to the pool while it is at it is seen as well.
func TestQueue_OccasionWithinAPass(t *testing.T) {
	d := newDesk(t, router.Config{Endpoints: fleet(2)})
	d.serve("e0", prompt(1, 100), 2560*time.Millisecond)
	d.serve("e1", prompt(2, 100), 2560*time.Millisecond)
	first, second := d.occupy("e0", 10_000), d.occupy("e1", 10_000)
	d.enqueue("one", router.Request{Prefix: prompt(1, 110)})
	d.pool.Enqueue(router.Request{Prefix: prompt(2, 110), At: d.now}, func(*router.Decision, error) {
		d.sent = append(d.sent, "two")
		first.FirstTokenAt(d.now) // the pass has gone by the one who waits for it
	})
	require.Empty(t, d.sent)
	second.FirstTokenAt(d.now)
	if want := []string{"two", "one"}; !slices.Equal(d.sent, want) {
		t.Errorf("sent %v, want %v", d.sent, want)
	}
}

// What another pool announces is an occasion as well.
func TestQueue_OccasionsElsewhere(t *testing.T) {
	for _, kind := range []router.EventKind{router.FirstToken, router.Released} {
		d := newDesk(t, router.Config{Endpoints: fleet(1)})
		apply := func(e router.Event) {
			e.Origin, e.ID = 7, 1
			require.NoError(t, d.pool.ApplyAt(d.now, &e))
		}
		apply(router.Event{Kind: router.Sent, Endpoint: "e0", Tokens: 100_000})
		d.enqueue("turn", router.Request{Prefix: prompt(1, 60)})
		require.Empty(t, d.sent)
		apply(router.Event{Kind: kind})
		if d.got["turn"] == nil {
			t.Errorf("event %d of the other pool made no room", kind)
		}
	}
	d := newDesk(t, router.Config{Endpoints: fleet(1)})
	require.NoError(t, d.pool.ApplyAt(d.now, &router.Event{Kind: router.Sent, Origin: 7, Endpoint: "e0", Tokens: 100_000}))
	d.enqueue("turn", router.Request{Prefix: prompt(1, 60)})
	d.pool.DisconnectAt(d.now, 7)
	if d.got["turn"] == nil {
		t.Error("what the other pool had was released and made no room")
	}
}

// A request whose endpoints have all gone is told so.
func TestQueue_EndpointsLeave(t *testing.T) {
	d := newDesk(t, router.Config{Endpoints: fleet(1)})
	d.occupy("e0", 500_000)
	d.enqueue("turn", router.Request{Prefix: prompt(1, 60)})
	require.NoError(t, d.pool.SetEndpointsAt(d.now, nil))
	if !errors.Is(d.errs["turn"], router.ErrNoEndpoints) {
		t.Errorf("error %v, want ErrNoEndpoints", d.errs["turn"])
	}
}

// While first tokens are told of nowhere, the queue decides as Pick does.
func TestEnqueue_WithoutFirstTokensIsPick(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	a, b := newPool(t, router.Config{Endpoints: fleet(5), Seed: 3}), newPool(t, router.Config{Endpoints: fleet(5), Seed: 3})
	var prompts []tokenprefix.Signature
	type pair struct{ a, b *router.Decision }
	var live []pair
	now := start
	for i := range 3000 {
		now = now.Add(time.Duration(rng.IntN(300)) * time.Millisecond)
		if len(live) > 20 || len(live) > 0 && rng.IntN(2) == 0 {
			k := rng.IntN(len(live))
			live[k].a.ReleaseAt(now, router.Outcome{})
			live[k].b.ReleaseAt(now, router.Outcome{})
			live = slices.Delete(live, k, k+1)
			continue
		}
		var beginning []uint64
		if len(prompts) > 0 && rng.IntN(3) > 0 {
			beginning = prompts[rng.IntN(len(prompts))].Blocks
			beginning = beginning[:min(len(beginning), 100)]
		}
		prompts = append(prompts, signature(rng, beginning, rng.IntN(60)))
		s := &prompts[len(prompts)-1]
		var both pair
		both.a = pick(t, a, router.Request{Prefix: s, At: now})
		b.Enqueue(router.Request{Prefix: s, At: now}, func(d *router.Decision, err error) {
			require.NoError(t, err)
			both.b = d
		})
		if both.b == nil || both.a.String() != both.b.String() {
			t.Fatalf("request %d: Enqueue made %v, Pick %v", i, both.b, both.a)
		}
		live = append(live, both)
	}
}

func TestConfig_Queue(t *testing.T) {
	for _, c := range []struct {
		queue router.Queue
		want  string
	}{
		{router.Queue{MaxLength: -1}, "Queue.MaxLength -1"},
		{router.Queue{MaxWait: -1}, "Queue.MaxWait -1ns"},
	} {
		if _, err := router.New(router.Config{Queue: c.queue}); err == nil {
			t.Errorf("New(%+v) has no error, want one about %s", c.queue, c.want)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}
