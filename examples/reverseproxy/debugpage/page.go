// Package debugpage shows what a router is doing: its endpoints with their load
// and hit rates, and its latest decisions with the reasons. Programs get it as
// JSON, people as a page that they can read at a glance.
//
//	page := new(debugpage.Page)
//	pool, err := router.New(router.Config{Hooks: router.Hooks{Decided: page.Decided, Released: page.Released}})
//	page.Pool = pool
//	mux.Handle("/debug/router", page)
//
// The page tells about every tenant's traffic. It belongs behind whatever keeps
// strangers away from the gateway's other insides.
package debugpage

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/warmroute/warmroute/router"
)

// Page is a handler for the page. It is safe for concurrent use and must not be
// copied; its fields must be set before the first request.
type Page struct {
	// Pool is what the page is about.
	Pool *router.Pool
	// Latest is how many decisions are kept. Zero means 50.
	Latest int
	// Now is the time of the pool. Nil means time.Now.
	Now func() time.Time

	mu     sync.Mutex
	ring   []Decision // the latest ones; the next goes to position next
	next   int
	totals map[string]Totals
}

// Snapshot is the content of the page.
type Snapshot struct {
	At        time.Time  `json:"at"`
	Queue     Queue      `json:"queue"`
	Endpoints []Endpoint `json:"endpoints"`
	Decisions []Decision `json:"decisions"` // latest first
}

// Queue is what waits for an endpoint (router.Pool.Acquire).
type Queue struct {
	Length       int     `json:"length"`
	Tokens       int     `json:"tokens"`
	OldestMillis float64 `json:"oldest_ms"`
}

// Endpoint is the state of one endpoint. Fractions are from 0 to 1.
type Endpoint struct {
	ID             string  `json:"id"`
	State          string  `json:"state"` // serving, draining, left, cooling, busy
	InFlight       int     `json:"in_flight"`
	BacklogTokens  int     `json:"backlog_tokens"`
	PinnedTokens   int     `json:"pinned_tokens"`
	CachedTokens   int     `json:"cached_tokens"`
	CapacityTokens int     `json:"capacity_tokens"`
	TTFTMillis     float64 `json:"ttft_ms"`
	FailureShare   float64 `json:"failure_share"`
	Picks          int64   `json:"picks"`
	Totals
}

// Totals sums up the answers of an endpoint that told their usage.
type Totals struct {
	PromptTokens int64   `json:"prompt_tokens"`
	HitTokens    int64   `json:"hit_tokens"`
	HitRate      float64 `json:"hit_rate"`
}

// Decision is one decision.
type Decision struct {
	At           time.Time `json:"at"`
	Endpoint     string    `json:"endpoint"`
	Reason       string    `json:"reason"`
	Held         string    `json:"held,omitempty"` // what it waited for, if it did
	WaitedMillis float64   `json:"waited_ms,omitempty"`
	PromptTokens int       `json:"prompt_tokens"`
	CachedTokens int       `json:"cached_tokens"`
	HomeRank     int       `json:"home_rank"`
	Home         string    `json:"home,omitempty"`
	InFlight     int       `json:"in_flight"`
	Cost         float64   `json:"cost"`
}

const defaultLatest = 50

// Decided is for router.Hooks.Decided.
func (p *Page) Decided(d *router.Decision) {
	// A copy, so that the page keeps no request alive.
	one := Decision{
		At: d.At, Endpoint: d.Endpoint.ID, Reason: d.Reason.String(), PromptTokens: d.PromptTokens,
		CachedTokens: d.CachedTokens, Home: d.Home, HomeRank: d.HomeRank, InFlight: d.InFlight, Cost: d.Cost.Total,
	}
	if d.Held != router.NotHeld {
		one.Held, one.WaitedMillis = d.Held.String(), float64(d.Waited)/1e6
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if size := p.size(); len(p.ring) < size {
		p.ring = append(p.ring, one)
		return
	}
	p.ring[p.next] = one
	p.next = (p.next + 1) % len(p.ring)
}

func (p *Page) size() int {
	if p.Latest > 0 {
		return p.Latest
	}
	return defaultLatest
}

// Released is for router.Hooks.Released.
func (p *Page) Released(d *router.Decision, o router.Outcome) {
	prompt, ok := o.PromptTokens.Get()
	cached, ok2 := o.CachedTokens.Get()
	if !ok || !ok2 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.totals == nil {
		p.totals = make(map[string]Totals)
	}
	t := p.totals[d.Endpoint.ID]
	t.PromptTokens += prompt
	t.HitTokens += cached
	p.totals[d.Endpoint.ID] = t
}

// Snapshot returns what the page shows now.
func (p *Page) Snapshot() Snapshot {
	now := time.Now()
	if p.Now != nil {
		now = p.Now()
	}
	stats, queue := p.Pool.StatsAt(now), p.Pool.QueueStatsAt(now)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Snapshot{At: now, Queue: Queue{queue.Length, queue.Tokens, float64(queue.Oldest) / 1e6}, Endpoints: []Endpoint{}, Decisions: []Decision{}}
	kept := make(map[string]Totals, len(stats)) // forgets endpoints that are gone
	for _, e := range stats {
		t := p.totals[e.Endpoint.ID]
		if t.PromptTokens > 0 {
			t.HitRate = float64(t.HitTokens) / float64(t.PromptTokens)
		}
		kept[e.Endpoint.ID] = t
		s.Endpoints = append(s.Endpoints, Endpoint{
			ID: e.Endpoint.ID, State: state(&e), Picks: e.Picks, Totals: t,
			InFlight: e.Load.InFlight, BacklogTokens: e.Load.Backlog,
			PinnedTokens: e.Load.PinnedTokens, CachedTokens: e.Load.CachedTokens, CapacityTokens: e.Load.CapacityTokens,
			TTFTMillis: float64(e.TTFT) / 1e6, FailureShare: e.Load.FailureShare,
		})
	}
	p.totals = kept
	for i := range p.ring {
		s.Decisions = append(s.Decisions, p.ring[(p.next+len(p.ring)-1-i)%len(p.ring)])
	}
	return s
}

func state(e *router.EndpointStats) string {
	switch {
	case e.Left:
		return "left"
	case e.Cooling:
		return "cooling"
	case e.Busy:
		return "busy"
	case e.Endpoint.Weight == 0:
		return "draining"
	}
	return "serving"
}

// ServeHTTP answers with the page, or with JSON if the request asks for it by
// its Accept header or by ?format=json.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	s := p.Snapshot()
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Query().Get("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(s)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	render(w, &s)
}
