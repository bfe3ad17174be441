// Package scrape reads the metrics page of an inference engine into a
// [loadstats.Report].
//
// A [Profile] says, as data, which metrics of a page mean what; there is one for
// each common engine, and [AnyEngine], the default, knows them all. A [Scraper]
// fetches pages over HTTP; it is a [loadstats.Reporter], for one question or for
// a [loadstats.Poller].
//
// A page is trusted as little as anything else in loadstats: names are compared
// whole, values that are NaN, infinite or negative are dropped, ranks that
// repeat each other's requests are counted once, and what is not on the page is
// unknown. The page is read line by line, in the Prometheus text format or
// OpenMetrics whatever its content type says, and only the lines that a profile
// asks for are parsed: a metric that is odd, but not asked for, can't spoil it.
package scrape
