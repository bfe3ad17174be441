package router_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router"
)

func TestPick_BetterPlaceThatIsNoCandidateIsSpillover(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(3)})
	home := pick(t, p, router.Request{Prefix: prompt(1, 20)})
	home.ReleaseAt(start, router.Outcome{})
	exclude := []string{home.Endpoint.ID}
	if d := pick(t, p, router.Request{Prefix: prompt(1, 21), Exclude: exclude}); d.Reason != balancer.Spillover || d.BestCachedTokens != 20*256 {
		t.Errorf("the warm endpoint is excluded: %v, want spillover", d)
	}
	// By now another endpoint holds some of it: the warmest of the candidates.
	pick(t, p, router.Request{Prefix: prompt(1, 10), Exclude: exclude}).ReleaseAt(start, router.Outcome{})
	pick(t, p, router.Request{Prefix: prompt(1, 30)}).ReleaseAt(start, router.Outcome{})
	if d := pick(t, p, router.Request{Prefix: prompt(1, 31), Exclude: exclude}); d.Reason != balancer.Spillover || d.CachedTokens == 0 {
		t.Errorf("a warmer endpoint is excluded: %v, want spillover", d)
	}
	cold := prompt(2, 20)
	first := pick(t, p, router.Request{Prefix: cold})
	first.ReleaseAt(start, router.Outcome{})
	q := newPool(t, router.Config{Endpoints: fleet(3)})
	if d := pick(t, q, router.Request{Prefix: cold, Exclude: []string{first.Endpoint.ID}}); d.Reason != balancer.Spillover || d.HomeRank == 0 {
		t.Errorf("the home of a cold prompt is excluded: %v, want spillover", d)
	}
}

func TestPick_LimitsFollowTheWeights(t *testing.T) {
	endpoints := fleet(2)
	endpoints[1].Weight = 4
	p := newPool(t, router.Config{Endpoints: endpoints, Bound: balancer.Bound{Factor: 2}, Policy: balancer.LeastLoad{}})
	for range 40 {
		d := pick(t, p, router.Request{})
		total := inFlight(p)["e0"] + inFlight(p)["e1"] // with this one, as in the bound
		want := int(math.Ceil(2 * float64(total*endpoints[d.Endpoint.ID[1]-'0'].Weight) / 5))
		if d.Limit != want {
			t.Fatalf("of %d: limit of %s = %d, want %d", total, d.Endpoint.ID, d.Limit, want)
		}
	}
}

func TestPick_PinsTheRestAndTheAnswer(t *testing.T) {
	for _, c := range []struct{ most, want int }{{0, 6}, {1 << 30, 6}, {10, 5}} {
		p := newPool(t, router.Config{Endpoints: fleet(1)})
		s := prompt(1, 4)
		s.Tokens += 100
		pick(t, p, router.Request{Prefix: s, MaxOutputTokens: c.most})
		if got := p.StatsAt(start)[0].Load.PinnedTokens; got != c.want*256 {
			t.Errorf("MaxOutputTokens %d: %d tokens pinned, want %d blocks", c.most, got, c.want)
		}
	}
}

func TestPool_BusyBeatsBroken(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(2), Breaker: router.Breaker{Failures: 1, Cooling: time.Minute}})
	a := pick(t, p, router.Request{})
	b := pick(t, p, router.Request{Exclude: []string{a.Endpoint.ID}})
	a.ReleaseAt(start, router.Outcome{Err: errors.New("dial")})
	b.ReleaseAt(start, router.Outcome{StatusCode: 429, RetryAfter: 3 * time.Second})
	_, err := p.Pick(router.Request{At: start})
	var saturated *router.SaturatedError
	if !errors.As(err, &saturated) || saturated.RetryAfter != 3*time.Second {
		t.Errorf("one endpoint is busy, one broken: %v, want saturated for 3 s", err)
	}
}

func TestPool_BackPressureIsBounded(t *testing.T) {
	for _, c := range []struct{ asked, want time.Duration }{
		{0, time.Second}, {time.Millisecond, time.Second}, {7 * time.Second, 7 * time.Second}, {time.Hour, 30 * time.Second},
	} {
		p := newPool(t, router.Config{Endpoints: fleet(1)})
		pick(t, p, router.Request{}).ReleaseAt(start, router.Outcome{StatusCode: 429, RetryAfter: c.asked})
		if _, err := p.Pick(router.Request{At: start.Add(c.want - 1)}); !errors.Is(err, router.ErrSaturated) {
			t.Errorf("asked for %v: just before %v: %v, want saturated", c.asked, c.want, err)
		}
		if _, err := p.Pick(router.Request{At: start.Add(c.want)}); err != nil {
			t.Errorf("asked for %v: after %v: %v", c.asked, c.want, err)
		}
	}
}

func TestPool_OpenBreakerForgetsTheCache(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1), Breaker: router.Breaker{Failures: 1}})
	pick(t, p, router.Request{Prefix: prompt(1, 20)}).ReleaseAt(start, router.Outcome{})
	pick(t, p, router.Request{}).ReleaseAt(start, router.Outcome{Err: errors.New("dial")})
	if d := pick(t, p, router.Request{Prefix: prompt(1, 20), At: start.Add(time.Minute)}); d.CachedTokens != 0 {
		t.Errorf("after the engine failed: %v, want nothing cached", d)
	}
}

func TestFirstToken_ReachesPeersAndShadows(t *testing.T) {
	var bus router.Bus
	peer, candidate := newPool(t, router.Config{Endpoints: fleet(1), Origin: 2}), newPool(t, router.Config{Endpoints: fleet(1)})
	bus.Join(peer)
	p := newPool(t, router.Config{Endpoints: fleet(1), Origin: 1, Hooks: router.Hooks{Announce: bus.Announce}})
	d := pick(t, &router.Shadow{Router: p, Candidate: candidate}, router.Request{Prefix: prompt(1, 20)})
	for _, want := range []int{1, 0} {
		for name, pool := range map[string]*router.Pool{"pool": p, "peer": peer, "candidate": candidate} {
			if got := pool.StatsAt(start)[0].Load.PendingPrefills; got != want {
				t.Errorf("%s: %d pending prefills, want %d", name, got, want)
			}
		}
		d.FirstTokenAt(start)
	}
}

func TestStats_CountsPicks(t *testing.T) {
	p := newPool(t, router.Config{Endpoints: fleet(1)})
	for range 3 {
		pick(t, p, router.Request{}).ReleaseAt(start, router.Outcome{})
	}
	if got := p.StatsAt(start)[0].Picks; got != 3 {
		t.Errorf("Picks = %d, want 3", got)
	}
}

func TestPick_ConversationsOfOneSystemPromptHaveOneHome(t *testing.T) {
	a, b := prompt(1, 20), prompt(1, 20)
	b.Blocks[12]++ // parts behind the system prompt
	c := prompt(1, 20)
	c.Blocks[9]++ // a system prompt that begins the same
	for i := range uint64(20) {
		for _, s := range []*uint64{&a.Blocks[9], &b.Blocks[9], &c.Blocks[9]} {
			*s += i
		}
		a.SystemBlocks, b.SystemBlocks, c.SystemBlocks = 10, 10, 10
		home := func(s *router.Request) string {
			return pick(t, newPool(t, router.Config{Endpoints: fleet(16)}), *s).Home
		}
		ha, hb, hc := home(&router.Request{Prefix: a}), home(&router.Request{Prefix: b}), home(&router.Request{Prefix: c})
		if ha != hb {
			t.Errorf("homes %s and %s for one system prompt", ha, hb)
		}
		if ha != hc {
			return // as it must be for nearly all
		}
	}
	t.Error("system prompts that differ at their end only have one home")
}
