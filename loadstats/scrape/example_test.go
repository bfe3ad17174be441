package scrape_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/loadstats/scrape"
)

func ExampleScraper() {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, `vllm:num_requests_running{engine="0"} 3`)
		fmt.Fprintln(w, `vllm:num_requests_waiting{engine="0"} 0`)
		fmt.Fprintln(w, `vllm:cache_config_info{block_size="16",num_gpu_blocks="27400"} 1`)
	}))
	defer engine.Close()

	var scraper scrape.Scraper
	r, err := scraper.Report(context.Background(), engine.URL)
	fmt.Println(r.Running, r.Waiting, r.KVCacheUsage, r.KVCacheTokens, err)
	// Output: 3 0 unknown 438400 <nil>
}

// A poller keeps a table of reports filled for as long as its context lasts.
func ExampleScraper_poller() {
	var table loadstats.Table
	poller := &loadstats.Poller{
		Reporter:  new(scrape.Scraper),
		Table:     &table,
		Endpoints: func() []string { return []string{"http://10.0.0.1:8000", "http://10.0.0.2:8000"} },
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a gateway would run until it shuts down
	fmt.Println(poller.Run(ctx))
	// Output: <nil>
}

func ExampleProfile() {
	p := scrape.Profile{
		Running:       []scrape.Metric{{Name: "acme_active", Engines: []string{"rank"}}},
		KVCacheTokens: []scrape.Metric{{Name: "acme_blocks", Times: &scrape.Metric{Name: "acme_block_size"}}},
	}
	r, err := p.Parse(start, []byte(`
acme_active{rank="0"} 3
acme_active{rank="1"} 4
acme_blocks 1000
acme_block_size 64
`))
	fmt.Println(r.Running, r.Waiting, r.KVCacheTokens, err)
	// Output: 7 unknown 64000 <nil>
}
