package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router/routertest"
)

// faults are what can be wrong with the reports of engines.
var faults = map[string]func(*routertest.Reports){
	"missing": altered(everySecond(func(*loadstats.Report) bool { return false })),
	"stopped": altered(func(_ int, r *loadstats.Report) bool { return sinceStart(r) < time.Minute }),
	"late":    func(r *routertest.Reports) { r.Late = 4 * time.Second },
	"idle":    altered(everySecond(claim(0, 0, 0))),
	"full":    altered(everySecond(claim(256, 50, 1))),
	"random":  altered(meaningless),
	"mixed":   altered(mixed),
}

// aboutFaults explains them, for -h.
const aboutFaults = `what is wrong with the engines' reports: "missing" or "full" or "idle", said by every second engine, "stopped" after a minute, ` +
	`"late" by 4 s, "random" numbers, or "mixed" of these`

// alteration changes a report of the engine with a number, or loses it.
type alteration func(engine int, r *loadstats.Report) bool

func altered(how alteration) func(*routertest.Reports) {
	return func(r *routertest.Reports) {
		r.Alter = func(endpoint string, report *loadstats.Report) bool {
			n, _ := strconv.Atoi(strings.TrimPrefix(endpoint, "e")) // as routertest names them
			return how(n, report)
		}
	}
}

func everySecond(how func(*loadstats.Report) bool) alteration {
	return func(n int, r *loadstats.Report) bool { return n%2 == 0 || how(r) }
}

func claim(running, waiting int64, usage float64) func(*loadstats.Report) bool {
	return func(r *loadstats.Report) bool {
		r.Running, r.Waiting, r.KVCacheUsage = loadstats.Known(running), loadstats.Known(waiting), loadstats.Ratio(usage)
		return true
	}
}

// sinceStart is the time of a report in the simulation.
func sinceStart(r *loadstats.Report) time.Duration { return r.At.Sub(time.Unix(1_000_000, 0)) }

// meaningless makes numbers of the engine's number and the time, and loses a
// quarter of the reports.
func meaningless(n int, r *loadstats.Report) bool {
	x := xxhash.Sum64String(fmt.Sprint(n, sinceStart(r)))
	claim(int64(x%256), int64(x>>8%64), float64(x>>16%100)/100)(r)
	r.KVCacheTokens = loadstats.Known(int64(x >> 24 % 1_000_000))
	return x>>62 > 0
}

// mixed is something else for each of four engines; the others tell the truth.
func mixed(n int, r *loadstats.Report) bool {
	switch n % 8 {
	case 1:
		return false
	case 3:
		return claim(0, 0, 0)(r)
	case 5:
		return claim(256, 50, 1)(r)
	case 7:
		return meaningless(n, r)
	}
	return true
}

func faultNames() string { return strings.Join(slices.Sorted(maps.Keys(faults)), ", ") }
