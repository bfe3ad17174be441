package policytest_test

import (
	"testing"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/examples/policytest"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/router/routertest"
)

func TestOvernight_IsAPolicy(t *testing.T) {
	routertest.TestPolicy(t, policytest.Overnight{})
}

func TestOvernight_LaterTurnsStay(t *testing.T) {
	f := routertest.NewFleet(t, 4, router.Config{Policy: policytest.Overnight{}})
	home := f.Serve(routertest.Prompt(1, 8192, 1024)).Endpoint.ID
	if got := f.Pick(routertest.Prompt(1, 8192, 2048)); got.Endpoint.ID != home || got.Reason != balancer.Warm {
		t.Errorf("second turn: %v, want it warm on %s", got, home)
	}
}

func TestOvernight_SpillsOver(t *testing.T) {
	f := routertest.NewFleet(t, 4, router.Config{Policy: policytest.Overnight{}})
	prompt := routertest.Prompt(1, 8192, 1024)
	home := f.Serve(prompt).Endpoint.ID
	f.SetInFlight(home, 100)
	if got := f.Pick(prompt); got.Reason != balancer.Spillover || got.Endpoint.ID == home {
		t.Errorf("hot prompt: %v, want spillover from %s", got, home)
	}
}

func TestOvernight_LongAnswersGoByLoad(t *testing.T) {
	f := routertest.NewFleet(t, 4, router.Config{Policy: policytest.Overnight{}})
	prompt := routertest.Prompt(1, 8192, 1024)
	home := f.Serve(prompt).Endpoint.ID
	f.SetInFlight(home, 1)
	got := f.PickRequest(router.Request{Prefix: prompt, MaxOutputTokens: 8192})
	if got.Reason != balancer.Balanced || got.Endpoint.ID == home {
		t.Errorf("long answer: %v, want the least loaded", got)
	}
}
