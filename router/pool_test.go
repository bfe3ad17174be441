package router_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

var start = time.Unix(1_000_000, 0)

// fleet returns n endpoints of weight 1 named e0, e1, ...
func fleet(n int) []router.Endpoint {
	endpoints := make([]router.Endpoint, n)
	for i := range endpoints {
		endpoints[i] = router.Endpoint{ID: fmt.Sprint("e", i), Weight: 1}
	}
	return endpoints
}

func newPool(t testing.TB, c router.Config) *router.Pool {
	t.Helper()
	p, err := router.New(c)
	require.NoError(t, err)
	return p
}

func pick(t testing.TB, p router.Router, r router.Request) *router.Decision {
	t.Helper()
	if r.At.IsZero() {
		r.At = start
	}
	d, err := p.Pick(r)
	require.NoError(t, err)
	return d
}

// prompt returns a prompt of so many blocks that shares its first ones with
// those of the same seed.
func prompt(seed uint64, blocks int) *tokenprefix.Signature {
	rng := rand.New(rand.NewPCG(seed, 0))
	s := &tokenprefix.Signature{BlockTokens: 256, Tokens: blocks * 256, Tail: seed<<32 | uint64(blocks)}
	for range blocks {
		s.Blocks = append(s.Blocks, rng.Uint64())
	}
	return s
}

func inFlight(p *router.Pool) map[string]int {
	n := map[string]int{}
	for _, s := range p.StatsAt(start) {
		n[s.Endpoint.ID] += s.Load.InFlight
	}
	return n
}

func TestPool_LaterTurnsFollowTheFirst(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(8)})
	for conversation := range uint64(20) {
		at := start
		home := ""
		for blocks := 20; blocks < 60; blocks += 10 {
			d := pick(t, p, router.Request{Prefix: prompt(conversation, blocks), At: at})
			if home == "" {
				home = d.Endpoint.ID
			} else if d.Endpoint.ID != home || d.Reason != balancer.Warm || d.CachedTokens != (blocks-10)*256 {
				t.Errorf("turn of %d blocks: %v, want warm on %s", blocks, d, home)
			}
			d.FirstTokenAt(at)
			d.ReleaseAt(at, router.Outcome{})
			at = at.Add(time.Second)
		}
	}
}

func TestPool_ColdPromptsHaveTheSameHomeEverywhere(t *testing.T) {
	for seed := range uint64(50) {
		a := pick(t, newPool(t, router.Config{Endpoints: fleet(5), Seed: 1}), router.Request{Prefix: prompt(seed, 30)})
		b := pick(t, newPool(t, router.Config{Endpoints: fleet(5), Seed: 2}), router.Request{Prefix: prompt(seed, 30)})
		if a.Endpoint.ID != b.Endpoint.ID || a.Reason != balancer.Cold || a.Home != a.Endpoint.ID || a.HomeRank != 0 {
			t.Errorf("prompt %d: %v and %v, want the same home", seed, a, b)
		}
	}
}

func TestPool_HotPromptSpillsOver(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(4), KVCacheTokens: 400_000})
	first := pick(t, p, router.Request{Prefix: prompt(1, 100)})
	first.FirstTokenAt(start)
	used := map[string]int{}
	for i := range uint64(200) { // branches of the same prefix, none of which ends
		s := prompt(1, 100)
		s.Blocks = append(s.Blocks, i<<20|1, i<<20|2)
		s.Tokens, s.Tail = 102*256, i+5
		used[pick(t, p, router.Request{Prefix: s}).Endpoint.ID]++
	}
	for id, n := range used {
		if n > 100 {
			t.Errorf("%s has %d of 200 requests", id, n)
		}
	}
	if len(used) != 4 {
		t.Errorf("%d endpoints used, want all 4: %v", len(used), used)
	}
}

func TestPool_KeyWithoutPrefixIsSticky(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(8)})
	for session := range 20 {
		r := router.Request{Key: fmt.Sprint("session ", session)}
		first := pick(t, p, r)
		for range 3 {
			if d := pick(t, p, r); d.Endpoint.ID != first.Endpoint.ID {
				t.Errorf("%s went to %s, then %s", r.Key, first.Endpoint.ID, d.Endpoint.ID)
			}
		}
	}
}

func TestPool_ErrorsAreApart(t *testing.T) {
	p := newPool(t, router.Config{MaxInFlight: 2})
	if _, err := p.Pick(router.Request{}); !errors.Is(err, router.ErrNoEndpoints) { // C38
		t.Errorf("empty pool: %v, want ErrNoEndpoints", err)
	}
	require.NoError(t, p.SetEndpoints(fleet(1)))
	if _, err := p.Pick(router.Request{Eligible: func(*router.Endpoint) bool { return false }}); !errors.Is(err, router.ErrNoEndpoints) || !strings.Contains(err.Error(), "each of 1 ") {
		t.Errorf("nobody eligible: %v, want ErrNoEndpoints that says why", err)
	}
	pick(t, p, router.Request{})
	d := pick(t, p, router.Request{})
	_, err := p.Pick(router.Request{})
	var full *router.SaturatedError
	if !errors.Is(err, router.ErrSaturated) || !errors.As(err, &full) || full.RetryAfter < time.Second || errors.Is(err, router.ErrNoEndpoints) { // C46
		t.Errorf("full pool: %v, want ErrSaturated with a hint", err)
	}
	d.Release(router.Outcome{})
	pick(t, p, router.Request{})
	if _, err := p.Pick(router.Request{Prefix: &tokenprefix.Signature{Blocks: []uint64{1}, BlockTokens: 64}}); err == nil || !strings.Contains(err.Error(), "64") {
		t.Errorf("blocks of another size: %v, want an error that names it", err)
	}
}

func TestPool_ConfigIsChecked(t *testing.T) {
	for _, c := range []struct {
		says   string
		config router.Config
	}{
		{"Bound.Factor 0.5", router.Config{Bound: balancer.Bound{Factor: 0.5}}},
		{"Bound.Gap -1", router.Config{Bound: balancer.Bound{Factor: 2, Gap: -1}}},
		{"MaxInFlight -1", router.Config{MaxInFlight: -1}},
		{"KVCacheTokens -5", router.Config{KVCacheTokens: -5}},
		{"ReportMaxAge -1s", router.Config{ReportMaxAge: -time.Second}},
		{"Breaker.Cooling -1s", router.Config{Breaker: router.Breaker{Cooling: -time.Second}}},
		{"MaxCooling 1s is below", router.Config{Breaker: router.Breaker{Cooling: time.Minute, MaxCooling: time.Second}}},
		{`"a" is listed twice`, router.Config{Endpoints: []router.Endpoint{{ID: "a", Weight: 1}, {ID: "a", Weight: 1}}}},
		{"endpoint 1 has no ID", router.Config{Endpoints: []router.Endpoint{{ID: "a", Weight: 1}, {Weight: 1}}}},
		{`"a": weight -1`, router.Config{Endpoints: []router.Endpoint{{ID: "a", Weight: -1}}}},
		{`"a": weight 1000000000`, router.Config{Endpoints: []router.Endpoint{{ID: "a", Weight: 1_000_000_000}}}},
		{`"a": KV cache of -1`, router.Config{Endpoints: []router.Endpoint{{ID: "a", Weight: 1, KVCacheTokens: -1}}}},
	} {
		if _, err := router.New(c.config); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("New = %v, want an error that says %s", err, c.says)
		}
	}
	for _, bad := range []string{"10.0.0.1:8000", "ftp://x", "http://", "http://a b", ""} {
		if _, err := router.ParseEndpoints(bad); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", bad)) {
			t.Errorf("ParseEndpoints(%q) = %v, want an error that names it", bad, err)
		}
	}
}

// The ID of an endpoint is shown everywhere.
func TestParseEndpoints_KeepsSecretsOutOfIDs(t *testing.T) {
	for _, url := range []string{"http://user:secret@h:1", "http://h:1?key=secret", "http://h:1#secret"} {
		if _, err := router.ParseEndpoints(url); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("ParseEndpoints(%q) = %v, want an error without the secret", url, err)
		}
	}
}

func TestPool_PolicyThatErrs(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy policyFunc
	}{
		{"index too large", func(p *balancer.PickInfo) (balancer.Choice, error) {
			return balancer.Choice{Index: len(p.Candidates)}, nil
		}},
		{"negative index", func(*balancer.PickInfo) (balancer.Choice, error) { return balancer.Choice{Index: -1}, nil }},
		{"too many others", func(*balancer.PickInfo) (balancer.Choice, error) { return balancer.Choice{NumOthers: 3}, nil }},
		{"less than no others", func(*balancer.PickInfo) (balancer.Choice, error) { return balancer.Choice{NumOthers: -1}, nil }},
		{"other out of range", func(*balancer.PickInfo) (balancer.Choice, error) {
			return balancer.Choice{NumOthers: 1, Others: [2]balancer.Ranked{{Index: 2}}}, nil
		}},
		{"candidates added", func(p *balancer.PickInfo) (balancer.Choice, error) {
			p.Candidates = append(p.Candidates, p.Candidates...)
			return balancer.Choice{Index: 2}, nil
		}},
		{"candidates sorted", func(p *balancer.PickInfo) (balancer.Choice, error) {
			slices.Reverse(p.Candidates)
			return balancer.Choice{}, nil
		}},
		{"error", func(*balancer.PickInfo) (balancer.Choice, error) { return balancer.Choice{}, errors.New("no") }},
	} {
		p := newPool(t, router.Config{Endpoints: fleet(2), Policy: c.policy})
		if _, err := p.Pick(router.Request{}); err == nil {
			t.Errorf("%s: no error", c.name)
		}
		if err := p.CheckInvariants(nil); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A policy that changes what it is shown does not keep Pick from an end.
func TestPool_PolicyThatChangesItsInput(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(2), Policy: policyFunc(func(p *balancer.PickInfo) (balancer.Choice, error) {
		p.Candidates[0].Load.InFlight = 77
		return balancer.Choice{}, nil
	})})
	if d := pick(t, p, router.Request{}); d.InFlight != 0 {
		t.Errorf("the decision says %d in flight, want 0", d.InFlight)
	}
}

type policyFunc func(*balancer.PickInfo) (balancer.Choice, error)

func (f policyFunc) Choose(p *balancer.PickInfo) (balancer.Choice, error) { return f(p) }

func TestPool_HooksMayCallThePool(t *testing.T) {
	var p *router.Pool
	var log []string
	p = newPool(t, router.Config{Endpoints: fleet(2), Hooks: router.Hooks{
		Decided: func(d *router.Decision) {
			log = append(log, fmt.Sprint("decided ", p.StatsAt(start)[0].Load.InFlight+p.StatsAt(start)[1].Load.InFlight))
		},
		Released: func(d *router.Decision, o router.Outcome) {
			log = append(log, fmt.Sprint("released ", o.StatusCode, inFlight(p)))
			require.NoError(t, p.SetEndpoints(fleet(3)))
		},
	}})
	d := pick(t, p, router.Request{})
	d.ReleaseAt(start, router.Outcome{StatusCode: 200})
	if got, want := strings.Join(log, "; "), "decided 1; released 200 map[e0:0 e1:0]"; got != want {
		t.Errorf("hooks saw %s, want %s", got, want)
	}
}

func TestDecision_ExplainsItself(t *testing.T) {
	u, err := url.Parse("http://secret:token@10.0.0.1:8000")
	require.NoError(t, err)
	endpoints := fleet(3)
	for i := range endpoints {
		endpoints[i].URL = u
	}
	p := newPool(t, router.Config{Endpoints: endpoints, KVCacheTokens: 400_000})
	pick(t, p, router.Request{Prefix: prompt(1, 40)})
	d := pick(t, p, router.Request{Prefix: prompt(1, 50), At: start.Add(time.Second)})
	// 4 blocks left of the pending prefill of 40, 10 new ones, 200 for the request
	// in flight; elsewhere 40 blocks more at a price of 1 + 10·1024/(3·4000).
	const line = "e2: warm, 10240 of 12800 tokens cached (best 10240), 1 in flight (limit 8), home e2, rank 0, cost 3784, e0 21538, e1 21538"
	if got := d.String(); got != line {
		t.Errorf("String() = %s\nwant       %s", got, line)
	}
	b, err := json.Marshal(d)
	require.NoError(t, err)
	const object = `{"endpoint":"e2","reason":"warm","prompt_tokens":12800,"cached_tokens":10240,"best_cached_tokens":10240,"continues":true,` +
		`"home":"e2","home_rank":0,"in_flight":1,"limit":8,"candidates":3,` +
		`"cost":{"total":3784,"backlog":1024,"own":2560,"recompute":0,"in_flight":200,"memory":0},` +
		`"alternatives":[{"id":"e0","cached_tokens":0,"cost":{"total":21538.133333333335,"backlog":0,"own":2560,"recompute":18978.133333333335,"in_flight":0,"memory":0}},` +
		`{"id":"e1","cached_tokens":0,"cost":{"total":21538.133333333335,"backlog":0,"own":2560,"recompute":18978.133333333335,"in_flight":0,"memory":0}}]}`
	if string(b) != object {
		t.Errorf("JSON = %s\nwant     %s", b, object)
	}
	var text strings.Builder
	slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})).Info("pick", "d", d)
	const entry = "level=INFO msg=pick d.endpoint=e2 d.reason=warm d.prompt_tokens=12800 d.cached_tokens=10240 d.best_cached_tokens=10240 d.home=e2 d.home_rank=0 d.in_flight=1 d.cost=3784\n"
	if got := text.String(); got != entry {
		t.Errorf("log = %swant  %s", got, entry)
	}
}

// No limit is no number.
func TestDecision_ExplainsNoLimit(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1), Bound: balancer.Bound{Factor: -1}, Policy: balancer.RoundRobin{}})
	d := pick(t, p, router.Request{})
	if got, want := d.String(), "e0: balanced, 0 of 0 tokens cached (best 0), 0 in flight (limit none)"; got != want {
		t.Errorf("String() = %s\nwant       %s", got, want)
	}
	b, err := json.Marshal(d)
	require.NoError(t, err)
	if strings.Contains(string(b), "limit") || strings.Contains(string(b), "home\"") || strings.Contains(string(b), "alternatives") {
		t.Errorf("JSON = %s, want what does not apply left out", b)
	}
}

func TestPool_LearnsItsCapacity(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1)})
	at := start
	serve := func(s *tokenprefix.Signature, cached int64) {
		at = at.Add(time.Second)
		d := pick(t, p, router.Request{Prefix: s, At: at})
		d.ReleaseAt(at, router.Outcome{StatusCode: 200, CachedTokens: loadstats.Known(cached)})
	}
	before := p.LearnedCapacity("e0")
	for i := range uint64(8) {
		serve(prompt(i, 100), 0)
	}
	// The oldest is gone although the shadow has it: the engine holds less than
	// what was used since.
	serve(prompt(0, 100), 0)
	after := p.LearnedCapacity("e0")
	if want := before - (before-8*100*256)/2; after > want {
		t.Errorf("capacity after a miss = %d, was %d, want at most %d", after, before, want)
	}
	require.NoError(t, p.SetEndpoints([]router.Endpoint{{ID: "e0", Weight: 1, KVCacheTokens: 123_456}}))
	if got := p.LearnedCapacity("e0"); got != 123_456 {
		t.Errorf("configured capacity = %d", got)
	}
}

func TestPool_ReportedCapacityCounts(t *testing.T) {
	var table loadstats.Table
	p := newPool(t, router.Config{Endpoints: fleet(1), Reports: &table})
	table.Report("e0", loadstats.Report{At: start, KVCacheTokens: loadstats.Known(51_200)})
	pick(t, p, router.Request{})
	if got := p.StatsAt(start)[0].Load.CapacityTokens; got != 51_200 {
		t.Errorf("capacity = %d, want the reported 51,200", got)
	}
}

func TestPool_RestartedEngineLosesItsCredit(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1), KVCacheTokens: 400_000})
	at := start
	serve := func(seed uint64, cached int64) int {
		at = at.Add(time.Second)
		d := pick(t, p, router.Request{Prefix: prompt(seed, 50), At: at})
		d.ReleaseAt(at, router.Outcome{StatusCode: 200, CachedTokens: loadstats.Known(cached)})
		return d.CachedTokens
	}
	for i := range uint64(10) {
		serve(i, 0)
	}
	for i := range uint64(3) { // the oldest first, so that each says nothing about the next
		if got := serve(i, 0); got == 0 {
			t.Fatalf("prompt %d: predicted nothing", i)
		}
	}
	if got := serve(9, 0); got != 0 {
		t.Errorf("after three answers that found nothing %d tokens are predicted, want none", got)
	}
}

func TestPool_DuplicateFollowsTheFirst(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(4)})
	first := pick(t, p, router.Request{Prefix: prompt(1, 100)})
	again := pick(t, p, router.Request{Prefix: prompt(1, 100), At: start.Add(5 * time.Second)})
	if again.Reason != balancer.Duplicate || again.Endpoint.ID != first.Endpoint.ID {
		t.Errorf("duplicate: %v, want it on %s", again, first.Endpoint.ID)
	}
	first.ReleaseAt(start, router.Outcome{Abandoned: true})
	again.ReleaseAt(start, router.Outcome{})
	if n := p.Duplicates(); n != 0 {
		t.Errorf("%d prompts count as being computed at the end", n)
	}
}

// Only as long as the first one is being computed, and by whoever is first then.
func TestPool_DuplicateOfWhatIsBeingComputed(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(4), Policy: balancer.RoundRobin{}})
	request := router.Request{Prefix: prompt(1, 100)}
	same := func(when string, d *router.Decision, as *router.Decision) {
		t.Helper()
		if dup := d.Reason == balancer.Duplicate; dup != (as != nil) || as != nil && d.Endpoint.ID != as.Endpoint.ID {
			t.Errorf("%s: %v", when, d)
		}
	}
	first := pick(t, p, request)
	same("the first", first, nil)
	second := pick(t, p, request)
	same("while it is computed", second, first)
	second.ReleaseAt(start, router.Outcome{Abandoned: true})
	same("after a duplicate has ended", pick(t, p, request), first)
	same("other prompt", pick(t, p, router.Request{Prefix: prompt(2, 100)}), nil)
	same("a retry elsewhere", pick(t, p, router.Request{Prefix: request.Prefix, Exclude: []string{first.Endpoint.ID}}), nil)
	first.FirstTokenAt(start)
	next := pick(t, p, request)
	same("after its first token", next, nil)
	first.ReleaseAt(start, router.Outcome{})
	same("while the next one is computed", pick(t, p, request), next)
	next.ReleaseAt(start, router.Outcome{})
	same("after the next one has ended", pick(t, p, request), nil)
}

func TestPool_SlowStart(t *testing.T) { // C32
	p := newPool(t, router.Config{Endpoints: fleet(2), Policy: balancer.LeastLoad{}})
	for range 40 {
		pick(t, p, router.Request{})
	}
	require.NoError(t, p.SetEndpointsAt(start, fleet(3)))
	share := func(at time.Time) int {
		n := 0
		for range 20 {
			if pick(t, p, router.Request{At: at}).Endpoint.ID == "e2" {
				n++
			}
		}
		return n
	}
	early, late := share(start), share(start.Add(time.Minute))
	if early < 1 || early > 8 || late < 10 {
		t.Errorf("of 20 requests the newcomer got %d at first and %d after a minute, want a few and most", early, late)
	}
}

func TestPool_DrainAndWait(t *testing.T) { // C108
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, router.Config{Endpoints: fleet(2), Policy: balancer.RoundRobin{}})
		var on []*router.Decision
		for range 6 {
			if d := pick(t, p, router.Request{}); d.Endpoint.ID == "e1" {
				on = append(on, d)
			}
		}
		require.Len(t, on, 3)
		require.NoError(t, p.SetEndpoints([]router.Endpoint{{ID: "e0", Weight: 1}, {ID: "e1"}}))
		require.NoError(t, p.SetEndpoints(fleet(1))) // then it leaves
		for range 5 {
			if d := pick(t, p, router.Request{}); d.Endpoint.ID != "e0" {
				t.Errorf("picked %s, which is draining", d.Endpoint.ID)
			}
		}
		if got := inFlight(p)["e1"]; got != 3 {
			t.Errorf("%d in flight on the leaving endpoint, want 3", got)
		}
		expired, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.WaitIdle(expired, "e1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitIdle with streams open = %v", err)
		}
		done := make(chan error)
		go func() { done <- p.WaitIdle(t.Context(), "e1") }()
		for _, d := range on {
			synctest.Wait()
			select {
			case err := <-done:
				t.Fatalf("WaitIdle returned %v before the last release", err)
			default:
			}
			d.Release(router.Outcome{})
		}
		if err := <-done; err != nil {
			t.Errorf("WaitIdle = %v", err)
		}
		if _, ok := inFlight(p)["e1"]; ok {
			t.Error("an idle endpoint that left is still visible")
		}
	})
}

func TestBus_PoolsShareWhatTheyKnow(t *testing.T) {
	var bus router.Bus
	pools := make([]*router.Pool, 3)
	for i := range pools {
		pools[i] = newPool(t, router.Config{Endpoints: fleet(8), Origin: uint64(i + 1), Hooks: router.Hooks{Announce: bus.Announce}})
		require.NoError(t, bus.Join(pools[i]))
	}
	if err := bus.Join(newPool(t, router.Config{Origin: 2})); err == nil || !strings.Contains(err.Error(), "Origin 2") {
		t.Errorf("Join of a second pool with Origin 2 = %v", err)
	}
	first := pick(t, pools[0], router.Request{Prefix: prompt(1, 40)})
	for i, p := range pools {
		if got := inFlight(p)[first.Endpoint.ID]; got != 1 {
			t.Errorf("pool %d sees %d in flight, want 1", i, got)
		}
	}
	first.FirstTokenAt(start)
	if d := pick(t, pools[2], router.Request{Prefix: prompt(1, 50)}); d.Reason != balancer.Warm || d.Endpoint.ID != first.Endpoint.ID {
		t.Errorf("the next turn in another gateway: %v, want it warm on %s", d, first.Endpoint.ID)
	} else {
		d.ReleaseAt(start, router.Outcome{})
	}
	first.ReleaseAt(start, router.Outcome{})
	for i, p := range pools {
		if err := p.CheckInvariants(nil); err != nil {
			t.Errorf("pool %d: %v", i, err)
		}
	}
}

func TestShadow_TheCandidateFollowsTheRealRequests(t *testing.T) {
	candidate := newPool(t, router.Config{Endpoints: fleet(4), Policy: balancer.RoundRobin{}})
	differ := 0
	s := &router.Shadow{
		Router:    newPool(t, router.Config{Endpoints: fleet(4)}),
		Candidate: candidate,
		Compare: func(d, c *router.Decision) {
			if d.Endpoint.ID != c.Endpoint.ID {
				differ++
			}
		},
	}
	for range 8 {
		d := pick(t, s, router.Request{Prefix: prompt(1, 40)})
		d.FirstTokenAt(start)
		d.ReleaseAt(start, router.Outcome{})
	}
	if differ != 6 { // round robin meets the one warm endpoint twice
		t.Errorf("%d decisions differ, want 6", differ)
	}
	if err := candidate.CheckInvariants(nil); err != nil {
		t.Error(err)
	}
	require.NoError(t, candidate.SetEndpoints(nil))
	s.Compare = func(d, c *router.Decision) {
		if c != nil {
			t.Errorf("an empty candidate decided %v", c)
		}
	}
	pick(t, s, router.Request{}).Release(router.Outcome{})
}

func TestPrefillDecode_BothOrNone(t *testing.T) {
	prefill, decode := newPool(t, router.Config{Endpoints: fleet(3)}), newPool(t, router.Config{})
	r := &router.PrefillDecode{Prefill: prefill, Decode: decode}
	if _, err := r.Pick(router.Request{Prefix: prompt(1, 10)}); !errors.Is(err, router.ErrNoEndpoints) {
		t.Errorf("no decode endpoint: %v, want ErrNoEndpoints", err)
	}
	if err := prefill.CheckInvariants(nil); err != nil {
		t.Errorf("after a failed pick: %v", err)
	}
	require.NoError(t, decode.SetEndpoints([]router.Endpoint{{ID: "d", Weight: 1}}))
	pair, err := r.Pick(router.Request{Prefix: prompt(1, 10), At: start})
	require.NoError(t, err)
	if a, b := inFlight(prefill)[pair.Prefill.Endpoint.ID], inFlight(decode)["d"]; a != 1 || b != 1 {
		t.Errorf("in flight: prefill %d, decode %d, want 1 and 1", a, b)
	}
	pair.FirstTokenAt(start)
	if a, b := inFlight(prefill)[pair.Prefill.Endpoint.ID], inFlight(decode)["d"]; a != 0 || b != 1 {
		t.Errorf("in flight after the first token: prefill %d, decode %d, want 0 and 1", a, b)
	}
	pair.ReleaseAt(start, router.Outcome{})
	pair.ReleaseAt(start, router.Outcome{})
	if err := errors.Join(prefill.CheckInvariants(nil), decode.CheckInvariants(nil)); err != nil {
		t.Error(err)
	}
}

func TestPick_AllocatesTheDecisionOnly(t *testing.T) {
	if raceDetector {
		t.Skip("allocations can't be counted under the race detector")
	}
	p := newPool(t, router.Config{Endpoints: fleet(64), KVCacheTokens: 400_000})
	s := prompt(1, 118)
	if n := testing.AllocsPerRun(1000, func() {
		d, err := p.Pick(router.Request{Prefix: s, At: start})
		if err != nil {
			t.Fatal(err)
		}
		d.FirstTokenAt(start)
		d.ReleaseAt(start, router.Outcome{})
	}); n > 2 {
		t.Errorf("a cycle allocates %v times, want at most 2", n)
	}
}

// Weights share out cold prompts in proportion, in an idle fleet too.
func TestPool_ColdPromptsGoByWeight(t *testing.T) {
	for _, weights := range [][]int{{1, 1, 1, 2}, {1, 2}, {10, 11, 10, 10}, {1, 1, 1, 1000}} {
		endpoints := fleet(len(weights))
		total := 0
		for i, w := range weights {
			endpoints[i].Weight = w
			total += w
		}
		p := newPool(t, router.Config{Endpoints: endpoints})
		const prompts = 2000
		got := map[string]int{}
		for i := range prompts {
			d := pick(t, p, router.Request{Prefix: prompt(uint64(i), 40)})
			got[d.Endpoint.ID]++
			d.ReleaseAt(start, router.Outcome{})
		}
		for i, w := range weights {
			want := float64(prompts*w) / float64(total)
			if n := float64(got[endpoints[i].ID]); n < want*0.8-5 || n > want*1.2+5 {
				t.Errorf("weights %v: %v, want about %.0f at %s", weights, got, want, endpoints[i].ID)
			}
		}
	}
}

// Of two picks at one moment with the same prefix the second sees where the first
// one went, as if it had come later.
func TestPick_SeesThePrefixOfWhoWasFaster(t *testing.T) {
	var p *router.Pool
	var first *router.Decision
	branch := func(tail uint64) router.Request {
		s := prompt(1, 100)
		s.Blocks = append(s.Blocks, tail)
		s.Tokens, s.Tail = 101*256, tail
		return router.Request{Prefix: s, At: start}
	}
	p = newPool(t, router.Config{Endpoints: fleet(4), Policy: policyFunc(func(info *balancer.PickInfo) (balancer.Choice, error) {
		if info.Seq == 0 && first == nil {
			first = new(router.Decision)
			first = pick(t, p, branch(2))
		}
		return balancer.Affinity{}.Choose(info)
	})})
	second := pick(t, p, branch(1))
	if second.Endpoint.ID != first.Endpoint.ID || second.CachedTokens != 100*256 || second.Reason != balancer.Warm {
		t.Errorf("first on %s, then %v, want it warm there", first.Endpoint.ID, second)
	}
}

// Sizes from outside are kept within what sums of them can bear.
func TestPick_AbsurdSizes(t *testing.T) {
	var seen balancer.PickInfo
	p := newPool(t, router.Config{Endpoints: fleet(1), Policy: policyFunc(func(info *balancer.PickInfo) (balancer.Choice, error) {
		seen = *info
		return balancer.Affinity{}.Choose(info)
	})})
	for _, c := range []struct{ tokens, most, wantTokens, wantMost int }{
		{math.MaxInt, math.MaxInt, 1 << 30, math.MaxInt},
		{math.MinInt, math.MinInt, 1024, 0},
		{-1, -1, 1024, 0},
		{1, 1, 1, 1}, // fewer than the blocks have
	} {
		s := prompt(1, 4)
		s.Tokens, s.SystemBlocks, s.HistoryBlocks = c.tokens, c.tokens, c.tokens
		d := pick(t, p, router.Request{Prefix: s, MaxOutputTokens: c.most})
		if d.PromptTokens != c.wantTokens || seen.MaxOutputTokens != c.wantMost {
			t.Errorf("%d tokens, at most %d out: taken for %d and %d, want %d and %d", c.tokens, c.most, d.PromptTokens, seen.MaxOutputTokens, c.wantTokens, c.wantMost)
		}
		if l := p.StatsAt(start)[0].Load; l.Backlog < 0 || l.PendingPrefillTokens < 0 || l.PinnedTokens < 0 {
			t.Errorf("%d tokens: %+v", c.tokens, l)
		}
		d.FirstTokenAt(start) // else the next one is a duplicate
	}
}

// The zero values of what a caller may hold without having picked do nothing.
func TestDecision_Zero(t *testing.T) {
	var d router.Decision
	d.FirstToken()
	if d.Release(router.Outcome{}) {
		t.Error("the release of a zero decision counts as the first")
	}
	if got, want := d.String(), ": balanced, 0 of 0 tokens cached (best 0), 0 in flight (limit 0)"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}

// Homes are agreed between gateways of different versions: a change moves every
// cold prompt of every fleet, and belongs into the changelog.
func TestPool_HomesGolden(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(10)})
	system := prompt(6, 30)
	system.SystemBlocks = 10
	for _, c := range []struct {
		name    string
		request router.Request
		want    string
	}{
		{"prefix", router.Request{Prefix: prompt(1, 30)}, "e2"},
		{"system prompt", router.Request{Prefix: system}, "e6"},
		{"short prompt", router.Request{Prefix: &tokenprefix.Signature{Tail: 12345, Tokens: 10, BlockTokens: 256}}, "e9"},
		{"key", router.Request{Key: "session 1"}, "e5"},
		{"key and prefix", router.Request{Key: "session 2", Prefix: prompt(1, 30)}, "e1"},
	} {
		d := pick(t, p, c.request)
		d.ReleaseAt(start, router.Outcome{Abandoned: true})
		if d.Home != c.want {
			t.Errorf("%s: home %s, want %s", c.name, d.Home, c.want)
		}
	}
}
