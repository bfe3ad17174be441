package debugpage

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Metrics is a handler for the state of the endpoints in Prometheus' text format
// (https://prometheus.io/docs/instrumenting/exposition_formats/). Counters are of
// this process; those of an endpoint that has left end with it.
func (p *Page) Metrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		s := p.Snapshot()
		writeMetrics(w, &s)
	})
}

// metrics are what is shown of each endpoint.
var metrics = [...]struct {
	name, kind, help string
	value            func(*Endpoint) float64
}{
	{"router_in_flight", "gauge", "Requests picked for the endpoint and not released.", func(e *Endpoint) float64 { return float64(e.InFlight) }},
	{"router_backlog_tokens", "gauge", "Uncached prompt tokens sent and not yet computed.", func(e *Endpoint) float64 { return float64(e.BacklogTokens) }},
	{"router_cached_tokens", "gauge", "Tokens believed to be in the prefix cache.", func(e *Endpoint) float64 { return float64(e.CachedTokens) }},
	{"router_cache_capacity_tokens", "gauge", "Size of the KV cache.", func(e *Endpoint) float64 { return float64(e.CapacityTokens) }},
	{"router_ttft_seconds", "gauge", "Recent mean time to first token.", func(e *Endpoint) float64 { return e.TTFTMillis / 1000 }},
	{"router_failure_ratio", "gauge", "Share of recent requests that failed at the endpoint.", func(e *Endpoint) float64 { return e.FailureShare }},
	{"router_picks_total", "counter", "Requests sent to the endpoint.", func(e *Endpoint) float64 { return float64(e.Picks) }},
	{"router_prompt_tokens_total", "counter", "Prompt tokens of answers that told their usage.", func(e *Endpoint) float64 { return float64(e.PromptTokens) }},
	{"router_hit_tokens_total", "counter", "Of these, tokens that were cached.", func(e *Endpoint) float64 { return float64(e.HitTokens) }},
}

func writeMetrics(w io.Writer, s *Snapshot) {
	for _, m := range metrics {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if e.State == "left" {
				continue // its name may be back with another generation
			}
			fmt.Fprintf(w, "%s{endpoint=\"%s\"} %g\n", m.name, escapeLabel(e.ID), m.value(e))
		}
	}
}

func escapeLabel(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
}
