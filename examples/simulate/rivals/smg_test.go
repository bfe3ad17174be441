package rivals_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/router/routertest"
	"github.com/warmroute/warmroute/tokenprefix"
)

// A prompt whose engine is gone goes to the first one, which the tree is not told:
// each time anew.
func TestSMG_PrefixOfAGoneEngine(t *testing.T) {
	fleet, err := find(t, "smg_cache_aware").Router(&routertest.Gateway{
		Endpoints: []router.Endpoint{{ID: "a", Weight: 1}, {ID: "b", Weight: 1}, {ID: "c", Weight: 1}},
	})
	require.NoError(t, err)
	pick := func(first uint64) *router.Decision {
		d, err := fleet.Pick(router.Request{At: epoch, Prefix: &tokenprefix.Signature{Blocks: []uint64{first, first + 1}, Tokens: 40, BlockTokens: 16}})
		require.NoError(t, err)
		return d
	}
	pick(10)
	if d := pick(20); d.Endpoint.ID != "b" {
		t.Fatalf("the second prompt went to %s, want b, which is idle", d.Endpoint.ID)
	}
	if d := pick(20); d.Endpoint.ID != "b" || d.CachedTokens != 32 {
		t.Errorf("again: %s with %d tokens, want b with 32", d.Endpoint.ID, d.CachedTokens)
	}
	left := fleet.(interface {
		SetEndpointsAt(time.Time, []router.Endpoint) error
	})
	require.NoError(t, left.SetEndpointsAt(epoch, []router.Endpoint{{ID: "a", Weight: 1}, {ID: "c", Weight: 1}}))
	for range 2 {
		if d := pick(20); d.Endpoint.ID != "a" || d.CachedTokens != 0 {
			t.Errorf("without b: %s with %d tokens, want a with 0", d.Endpoint.ID, d.CachedTokens)
		}
	}
}
