// Package loadstats holds what is known about each endpoint now.
//
// There are two sources, and neither is trusted alone. The gateway's own
// accounting (requests picked and not yet released) is exact but sees only this
// gateway. The engine's reports (its running and waiting counts, its KV cache)
// see everything but arrive late, partly, or not at all. So every reading here
// has an age, and every value may be unknown: a metric that is missing, renamed,
// NaN or negative never reads as zero, and a report that is too old is no report.
//
// Reports arrive in one of three ways, all of which end in a [Table]: pushed by
// the gateway with [Table.Report], read from the response headers of an engine
// with [ParseORCA], or pulled through a [Reporter] such as the Prometheus
// scraper in the nested module loadstats/scrape.
package loadstats
