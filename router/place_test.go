package router_test

import (
	"math"
	"testing"
	"time"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
)

func TestQueue_AllowanceIsFifteenTimesThePrefillUpToHalfAMinute(t *testing.T) {
	for _, c := range []struct {
		own  int
		rate float64
		want time.Duration
	}{
		{0, 10_000, 0},
		{1_000, 10_000, 1500 * time.Millisecond},
		{10_000, 10_000, 15 * time.Second},
		{20_000, 10_000, 30 * time.Second},
		{1 << 30, 10_000, 30 * time.Second},
		{10_000, 100_000, 1500 * time.Millisecond},
		{1 << 30, math.SmallestNonzeroFloat64, 30 * time.Second},
	} {
		if got := router.Allowance(c.own, c.rate); got != c.want {
			t.Errorf("Allowance(%d, %v) = %v, want %v", c.own, c.rate, got, c.want)
		}
	}
}

func TestQueue_HoldRule(t *testing.T) {
	load := func(change func(*loadstats.Load)) loadstats.Load {
		l := loadstats.Load{InFlight: 3, PrefillRate: 10_000, CapacityTokens: 100_000, PinnedTokens: 50_000}
		change(&l)
		return l
	}
	backlog := func(n int) loadstats.Load { return load(func(l *loadstats.Load) { l.Backlog = n }) }
	for _, c := range []struct {
		name              string
		load              loadstats.Load
		planned, uncached int
		unknown, untold   bool
		want              router.Hold
	}{
		{"nothing ahead", backlog(0), 0, 40_000, false, false, router.NotHeld},
		{"both fit into a step", backlog(1024), 0, 1024, false, false, router.NotHeld},
		{"one token more", backlog(1024), 0, 1025, false, false, router.HeldForPrefill},
		{"all of it cached, much ahead", backlog(2049), 0, 0, false, false, router.HeldForPrefill},
		{"others are planned", backlog(2000), 2000, 100, false, false, router.HeldForPrefill},
		{"no rate was measured", load(func(l *loadstats.Load) { l.Backlog, l.PrefillRate = 90_000, 0 }), 0, 40_000, false, false, router.NotHeld},
		{"it should be over", load(func(l *loadstats.Load) { l.Backlog, l.Overdue = 90_000, true }), 0, 40_000, false, false, router.NotHeld},
		{"first tokens are not told", backlog(90_000), 0, 40_000, false, true, router.NotHeld},
		{"it should be over, but others are planned", load(func(l *loadstats.Load) { l.Backlog, l.Overdue = 90_000, true }), 3000, 40_000, false, false, router.HeldForPrefill},
		{"memory just suffices", backlog(0), 0, 45_000, false, false, router.NotHeld},
		{"memory does not", backlog(0), 0, 45_001, false, false, router.HeldForMemory},
		{"nobody knows the memory", backlog(0), 0, 45_001, true, false, router.NotHeld},
		{"too large for any memory, but nobody is there", load(func(l *loadstats.Load) { l.InFlight, l.PinnedTokens = 0, 0 }), 0, 200_000, false, false, router.NotHeld},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := router.HoldFor(&balancer.Candidate{Load: c.load}, c.planned, c.uncached, !c.unknown, c.untold)
			if got != c.want {
				t.Errorf("HoldFor(%+v, %d planned, %d uncached) = %v, want %v", c.load, c.planned, c.uncached, got, c.want)
			}
		})
	}
}

func TestHold_Text(t *testing.T) {
	for h, want := range map[router.Hold]string{
		router.NotHeld: "not held", router.HeldForPrefill: "prefill", router.HeldForMemory: "memory",
		router.HeldForRoom: "room", 99: "unknown",
	} {
		if text, err := h.MarshalText(); h.String() != want || string(text) != want || err != nil {
			t.Errorf("Hold(%d) = %v, %s, %v, want %q", h, h, text, err, want)
		}
	}
}
