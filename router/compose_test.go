package router_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
)

// prefer is a policy that takes the endpoint with the given ID if it can.
func prefer(id string) balancer.Policy {
	return policyFunc(func(info *balancer.PickInfo) (balancer.Choice, error) {
		for i := range info.Candidates {
			if info.Candidates[i].ID == id {
				return balancer.Choice{Index: i}, nil
			}
		}
		return balancer.Choice{}, nil
	})
}

// What goes wrong at an endpoint says nothing about the one that the shadow chose
// instead, and all about it if the shadow chose the same.
func TestShadow_BlamesOnlyForItsOwnChoice(t *testing.T) {
	for _, c := range []struct {
		shadow  string
		cooling bool
	}{{"e0", true}, {"e1", false}} {
		candidate := newPool(t, router.Config{Endpoints: fleet(2), Policy: prefer(c.shadow)})
		s := &router.Shadow{
			Router:    newPool(t, router.Config{Endpoints: fleet(2), Policy: prefer("e0")}),
			Candidate: candidate,
		}
		for range 5 {
			pick(t, s, only("e0", start)).ReleaseAt(start, router.Outcome{Abandoned: true})
			pick(t, s, router.Request{}).ReleaseAt(start, refused)
		}
		for i, want := range []bool{c.cooling, false} {
			if got := candidate.StatsAt(start)[i]; got.Cooling != want || (got.Load.FailureShare > 0) != want {
				t.Errorf("shadow on %s: e%d cools %v, fails %v, want both %v", c.shadow, i, got.Cooling, got.Load.FailureShare, want)
			}
		}
		require.NoError(t, candidate.CheckInvariants(nil))
	}
}

// What the engines had cached follows from the real decisions, and must not teach
// the shadow that its predictions were wrong.
func TestShadow_LearnsNoCapacity(t *testing.T) {
	var predicted []int
	s := &router.Shadow{
		Router:    newPool(t, router.Config{Endpoints: fleet(1)}),
		Candidate: newPool(t, router.Config{Endpoints: fleet(1)}),
		Compare:   func(_, c *router.Decision) { predicted = append(predicted, c.CachedTokens) },
	}
	for range 5 { // three misses are a restart
		pick(t, s, router.Request{Prefix: prompt(1, 50)}).ReleaseAt(start, router.Outcome{CachedTokens: loadstats.Known(0)})
	}
	if want := []int{0, 12800, 12800, 12800, 12800}; !slices.Equal(predicted, want) {
		t.Errorf("the shadow predicted %v, want %v", predicted, want)
	}
}

func TestShadow_ErrorsOfTheRouterAreErrors(t *testing.T) {
	candidate := newPool(t, router.Config{Endpoints: fleet(2)})
	s := &router.Shadow{Router: newPool(t, router.Config{}), Candidate: candidate}
	if _, err := s.Pick(router.Request{}); !errors.Is(err, router.ErrNoEndpoints) {
		t.Errorf("Pick = %v, want ErrNoEndpoints", err)
	}
	require.NoError(t, candidate.CheckInvariants(nil))
}

// Whose fault it was, and who did well.
func TestPrefillDecode_OutcomesGoWhereTheyBelong(t *testing.T) {
	for _, c := range []struct {
		name            string
		firstToken      bool
		outcome         router.Outcome
		prefill, decode bool // fails
	}{
		{"dial error", false, refused, true, false},
		{"broken stream", true, refused, false, true},
		{"client left during prefill", false, router.Outcome{Abandoned: true}, false, false},
		{"client left during decode", true, router.Outcome{Abandoned: true}, false, false},
		{"well", true, router.Outcome{StatusCode: 200}, false, false},
	} {
		prefill, decode := newPool(t, router.Config{Endpoints: fleet(1)}), newPool(t, router.Config{Endpoints: fleet(1)})
		r := &router.PrefillDecode{Prefill: prefill, Decode: decode}
		pair, err := r.Pick(router.Request{Prefix: prompt(1, 10)})
		require.NoError(t, err)
		if c.firstToken {
			pair.FirstToken()
		}
		pair.Release(c.outcome)
		pair.Release(refused) // late
		fails := func(p *router.Pool) bool { return p.Stats()[0].Load.FailureShare > 0 }
		if fails(prefill) != c.prefill || fails(decode) != c.decode {
			t.Errorf("%s: prefill fails %v, decode fails %v, want %v and %v", c.name, fails(prefill), fails(decode), c.prefill, c.decode)
		}
		require.NoError(t, errors.Join(prefill.CheckInvariants(nil), decode.CheckInvariants(nil)), c.name)
	}
}

// An answer that came in one piece, without a first token of its own, ends a row
// of failures of the decode endpoint too.
func TestPrefillDecode_AnswersInOnePieceSpeakForBoth(t *testing.T) {
	prefill, decode := newPool(t, router.Config{Endpoints: fleet(1)}), newPool(t, router.Config{Endpoints: fleet(1)})
	r := &router.PrefillDecode{Prefill: prefill, Decode: decode}
	for i := range 12 {
		pair, err := r.Pick(router.Request{At: start})
		require.NoError(t, err)
		if i%4 == 3 {
			pair.ReleaseAt(start, router.Outcome{StatusCode: 200})
			continue
		}
		pair.FirstTokenAt(start)
		pair.ReleaseAt(start, refused)
	}
	if decode.StatsAt(start)[0].Cooling {
		t.Error("never more than three failures in a row, and the breaker is open")
	}
}
