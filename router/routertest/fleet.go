package routertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// Fleet is a pool with a clock that stands still until it is moved, for tests of
// decisions. It is not safe for concurrent use.
type Fleet struct {
	// Pool makes the decisions.
	Pool *router.Pool

	t      testing.TB
	now    time.Time
	filler map[string][]*router.Decision
	picked []*router.Decision
}

// NewFleet returns a fleet of n endpoints of weight 1, named e0, e1 and so on,
// beside those that the configuration has. What is still in flight at the end of
// the test is released then.
func NewFleet(t testing.TB, n int, c router.Config) *Fleet {
	t.Helper()
	for i := range n {
		c.Endpoints = append(c.Endpoints, router.Endpoint{ID: fmt.Sprint("e", i), Weight: 1})
	}
	p, err := router.New(c)
	if err != nil {
		t.Fatal(err)
	}
	f := &Fleet{Pool: p, t: t, now: time.Unix(1_000_000, 0), filler: map[string][]*router.Decision{}}
	t.Cleanup(f.release)
	return f
}

// release gives everything back and checks that nothing is left.
func (f *Fleet) release() {
	for _, d := range f.picked {
		d.ReleaseAt(f.now, router.Outcome{})
	}
	for id := range f.filler {
		f.SetInFlight(id, 0)
	}
	for _, s := range f.Pool.StatsAt(f.now) {
		if s.Load.InFlight != 0 {
			f.t.Errorf("%s has %d requests in flight that Pick did not return", s.Endpoint.ID, s.Load.InFlight)
		}
	}
}

// Now is the fleet's time.
func (f *Fleet) Now() time.Time { return f.now }

// Advance moves the fleet's time.
func (f *Fleet) Advance(d time.Duration) { f.now = f.now.Add(d) }

// Pick picks for a prompt and fails the test if that fails.
func (f *Fleet) Pick(prompt *tokenprefix.Signature) *router.Decision {
	f.t.Helper()
	return f.PickRequest(router.Request{Prefix: prompt})
}

// PickRequest picks for a request, whose time is the fleet's, and fails the test
// if that fails.
func (f *Fleet) PickRequest(r router.Request) *router.Decision {
	f.t.Helper()
	r.At = f.now
	d, err := f.Pool.Pick(r)
	if err != nil {
		f.t.Fatal(err)
	}
	f.picked = append(f.picked, d)
	return d
}

// Serve picks for a prompt and lets the endpoint answer it at once, so that its
// prefix is cached there.
func (f *Fleet) Serve(prompt *tokenprefix.Signature) *router.Decision {
	f.t.Helper()
	d := f.Pick(prompt)
	d.FirstTokenAt(f.now)
	d.ReleaseAt(f.now, router.Outcome{StatusCode: 200})
	return d
}

// SetInFlight makes an endpoint have so many requests of others in flight,
// beyond those that Pick returned: requests without a prompt that are decoding.
func (f *Fleet) SetInFlight(id string, n int) {
	f.t.Helper()
	flying := f.filler[id]
	for len(flying) > n {
		last := len(flying) - 1
		flying[last].ReleaseAt(f.now, router.Outcome{})
		flying = flying[:last]
	}
	for len(flying) < n {
		d, err := f.Pool.Pick(router.Request{At: f.now, Eligible: func(e *router.Endpoint) bool { return e.ID == id }})
		if err != nil {
			f.t.Fatalf("SetInFlight(%s, %d): %v", id, n, err)
		}
		d.FirstTokenAt(f.now)
		flying = append(flying, d)
	}
	f.filler[id] = flying
}

// Prompt returns the signature of a prompt: a system part of the given tokens,
// the same for all prompts with one of that size, and the history of a
// conversation. Of two prompts of a conversation the one with less history is the
// beginning of the other. Sizes count in whole blocks of router.BlockTokens,
// rounded down.
func Prompt(conversation, systemTokens, historyTokens int) *tokenprefix.Signature {
	system, history := systemTokens/router.BlockTokens, historyTokens/router.BlockTokens
	s := &tokenprefix.Signature{
		BlockTokens:   router.BlockTokens,
		Tokens:        systemTokens + historyTokens,
		SystemBlocks:  system,
		HistoryBlocks: system + max(0, history-1),
	}
	h := uint64(systemTokens)*2 + 1
	for range system {
		h = next(h)
		s.Blocks = append(s.Blocks, h)
	}
	h ^= uint64(conversation) << 20
	for range history {
		h = next(h)
		s.Blocks = append(s.Blocks, h)
	}
	s.Tail = next(h ^ uint64(s.Tokens))
	return s
}

// next is a step of SplitMix64.
func next(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
