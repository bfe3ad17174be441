package router

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strings"

	"github.com/warmroute/warmroute/balancer"
)

// String explains the decision in one line for people.
func (d *Decision) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v, %d of %d tokens cached (best %d), %d in flight (limit %s)",
		d.Endpoint.ID, d.Reason, d.CachedTokens, d.PromptTokens, d.BestCachedTokens, d.InFlight, limitText(d.Limit))
	if d.Held != NotHeld {
		fmt.Fprintf(&b, ", waited %v for %v", d.Waited, d.Held)
	}
	if d.Home != "" {
		fmt.Fprintf(&b, ", home %s, rank %d", d.Home, d.HomeRank)
	}
	if d.Cost.Total != 0 {
		fmt.Fprintf(&b, ", cost %.0f", d.Cost.Total)
		for _, a := range d.Alternatives {
			fmt.Fprintf(&b, ", %s %.0f", a.ID, a.Cost.Total)
		}
	}
	return b.String()
}

func limitText(limit int) string {
	if limit == math.MaxInt {
		return "none"
	}
	return fmt.Sprint(limit)
}

// explanation is a decision as data.
type explanation struct {
	Endpoint         string          `json:"endpoint"`
	Reason           balancer.Reason `json:"reason"`
	Held             string          `json:"held,omitempty"` // absent: it did not wait
	WaitedMillis     float64         `json:"waited_ms,omitempty"`
	PromptTokens     int             `json:"prompt_tokens"`
	CachedTokens     int             `json:"cached_tokens"`
	BestCachedTokens int             `json:"best_cached_tokens"`
	Continues        bool            `json:"continues"`
	Home             string          `json:"home,omitempty"`
	HomeRank         int             `json:"home_rank"`
	InFlight         int             `json:"in_flight"`
	Limit            int             `json:"limit,omitempty"` // absent: none
	Candidates       int             `json:"candidates"`
	Cost             balancer.Cost   `json:"cost"`
	Alternatives     []Alternative   `json:"alternatives,omitempty"`
}

// MarshalJSON explains the decision for programs. The address of the endpoint is
// not part of it.
func (d *Decision) MarshalJSON() ([]byte, error) {
	e := explanation{
		Endpoint: d.Endpoint.ID, Reason: d.Reason,
		PromptTokens: d.PromptTokens, CachedTokens: d.CachedTokens, BestCachedTokens: d.BestCachedTokens,
		Continues: d.Continues, Home: d.Home, HomeRank: d.HomeRank, InFlight: d.InFlight, Candidates: d.Candidates,
		Cost: d.Cost, Alternatives: d.Alternatives,
	}
	if d.Limit != math.MaxInt {
		e.Limit = d.Limit
	}
	if d.Held != NotHeld {
		e.Held, e.WaitedMillis = d.Held.String(), float64(d.Waited)/1e6
	}
	return json.Marshal(e)
}

// LogValue implements slog.LogValuer.
func (d *Decision) LogValue() slog.Value {
	about := []slog.Attr{
		slog.String("endpoint", d.Endpoint.ID),
		slog.String("reason", d.Reason.String()),
		slog.Int("prompt_tokens", d.PromptTokens),
		slog.Int("cached_tokens", d.CachedTokens),
		slog.Int("best_cached_tokens", d.BestCachedTokens),
		slog.String("home", d.Home),
		slog.Int("home_rank", d.HomeRank),
		slog.Int("in_flight", d.InFlight),
		slog.Float64("cost", d.Cost.Total),
	}
	if d.Held != NotHeld {
		about = append(about, slog.String("held", d.Held.String()), slog.Duration("waited", d.Waited))
	}
	return slog.GroupValue(about...)
}
