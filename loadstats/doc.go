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
// the gateway with [Table.Report], read from the headers of an engine's answers
// with [ReadORCA], or asked for by a [Poller] through a [Reporter], of which
// loadstats/scrape has one for metrics pages. [Ledger] is the gateway's own
// account, and [Load] is both together, as a policy sees them; [Load.Requests]
// has the rule that joins them. [KVCache] computes how much an engine can cache
// where it does not say so.
package loadstats
