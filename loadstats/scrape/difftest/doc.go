// Package difftest compares the page reader of loadstats/scrape with the parser
// of the Prometheus project. It is a module of its own so that nobody else needs
// that parser.
package difftest
