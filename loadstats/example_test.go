package loadstats_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/warmroute/warmroute/loadstats"
)

// A report of an engine that does not say how many requests it runs.
func ExampleTable() {
	var table loadstats.Table
	table.Report("http://10.0.0.1:8000", loadstats.Report{
		At:           start,
		Waiting:      loadstats.Known(0),
		KVCacheUsage: loadstats.Ratio(0.42),
	})

	r, _ := table.Latest("http://10.0.0.1:8000")
	fmt.Println("running:", r.Running, "waiting:", r.Waiting, "usage:", r.KVCacheUsage)
	fmt.Println("a second later:", r.FreshAt(start.Add(time.Second), 3*time.Second))
	fmt.Println("a minute later:", r.FreshAt(start.Add(time.Minute), 3*time.Second))
	// Output:
	// running: unknown waiting: 0 usage: 0.42
	// a second later: true
	// a minute later: false
}

// A gateway asks for reports on the requests it forwards, and takes them from
// the answers.
func ExampleReadORCA() {
	toEngine := http.Header{}
	loadstats.RequestORCA(toEngine)
	fmt.Println(toEngine)

	answer := http.Header{}
	answer.Set("endpoint-load-metrics", "TEXT named_metrics.kv_cache_usage_perc=0.42, named_metrics.num_requests_waiting=5.0")
	r, err := loadstats.ReadORCA(start, answer)
	fmt.Println(r.KVCacheUsage, r.Waiting, r.Running, err)

	loadstats.RemoveORCA(answer)
	_, err = loadstats.ReadORCA(start, answer)
	fmt.Println(err)
	// Output:
	// map[Endpoint-Load-Metrics-Format:[text]]
	// 0.42 5 unknown <nil>
	// loadstats: no reading: no ORCA header
}

func ExampleAverage() {
	ttft := loadstats.Average{HalfLife: 10 * time.Second}
	ttft.Add(start, 0.2)
	ttft.Add(start.Add(10*time.Second), 0.8)
	mean, weight := ttft.Value(start.Add(10 * time.Second))
	fmt.Printf("%.1f s from %.1f samples\n", mean, weight)
	// Output: 0.6 s from 1.5 samples
}

// How many tokens of Llama-3.3-70B fit beside its weights on four devices that
// have 40 GB each to spare.
func ExampleKVCache() {
	k, err := loadstats.KVCacheOf("meta-llama/Llama-3.3-70B-Instruct")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(k.BytesPerToken(), "bytes a token")
	fmt.Println(k.Shard(4).Tokens(40e9), "tokens")
	k.BytesPerValue = 1 // the cache in FP8
	fmt.Println(k.Shard(4).Tokens(40e9), "tokens in FP8")
	// Output:
	// 327680 bytes a token
	// 488281 tokens
	// 976562 tokens in FP8
}
