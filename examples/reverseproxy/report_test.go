package reverseproxy_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
)

// C68: the gateway asks for reports, reads them, and keeps them to itself. What
// clients send under these names is removed either way.
func TestC68_Reports(t *testing.T) {
	for _, ask := range []bool{false, true} {
		for _, trailer := range []bool{false, true} {
			asked := make(chan string, 1)
			table := new(loadstats.Table)
			g := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
				asked <- r.Header.Get(loadstats.ORCAFormatHeader) + r.Header.Get(loadstats.ORCAHeader)
				const report = "TEXT named_metrics.kv_cache_usage_perc=0.42, named_metrics.num_requests_waiting=5"
				if trailer {
					io.WriteString(w, "{}")
					w.(http.Flusher).Flush() // trailers need chunks
					w.Header().Set(http.TrailerPrefix+loadstats.ORCAHeader, report)
					return
				}
				w.Header().Set(loadstats.ORCAHeader, report)
				io.WriteString(w, "{}")
			})}, func(c *router.Config, h *reverseproxy.Handler) {
				if ask {
					c.Reports, h.Reports = table, table
				}
			})
			a := g.post("{}", loadstats.ORCAFormatHeader+": json", loadstats.ORCAHeader+": TEXT forged=1")
			want := ""
			if ask {
				want = "text"
			}
			if got := <-asked; got != want {
				t.Errorf("ask %v: engine was asked for %q, want %q", ask, got, want)
			}
			g.outcome()
			r, ok := table.Latest(g.decision().Endpoint.ID)
			if waiting, _ := r.Waiting.Get(); ok != ask || ask && waiting != 5 {
				t.Errorf("ask %v: report = %+v, %v", ask, r, ok)
			}
			if got := a.Header.Get(loadstats.ORCAHeader); ask && got != "" {
				t.Errorf("the client sees the report %q", got)
			}
		}
	}
}
