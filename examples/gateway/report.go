package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// writeJSON writes a result as one line.
func writeJSON(w io.Writer, r *result) error { return json.NewEncoder(w).Encode(r) }

// writeTable writes the results for people.
func writeTable(w io.Writer, o *options, results []result) error {
	load := fmt.Sprintf("%d agents, seed %d", o.streams, o.seed)
	if o.trace != "" {
		load = fmt.Sprintf("%s at %v times its speed", o.trace, o.speedup)
	}
	fmt.Fprintf(w, "%s, %d engines, %v times faster than real. Times in milliseconds of the engines' time.\n\n", load, o.engines, o.speed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\trequests\tlost\thit rate\tTTFT mean\tp50\tp90\tp99\tE2E p50\tp99\treq/s\tbusy max/mean\t")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.1f %%\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t\n",
			r.Policy, r.Requests, r.Lost, 100*r.HitRate, r.TTFT.Mean, r.TTFT.P50, r.TTFT.P90, r.TTFT.P99,
			r.E2E.P50, r.E2E.P99, r.RequestsPerSecond, r.Imbalance)
	}
	return t.Flush()
}
