package router_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/router"
)

// FuzzSetEndpoints reads endpoints from lines of an ID and a byte for the
// weight. A set is taken as a whole or not at all.
func FuzzSetEndpoints(f *testing.F) {
	f.Add("a\x01\nb\x01", "b\x02\na\x01\nc\x00")
	f.Add("w1\x01\nw11\x01", "w1\x01")
	f.Add("", "a\x01\na\x01")
	f.Add("a\x00", "\xff\xff\n\x80")
	f.Fuzz(func(t *testing.T, first, second string) {
		p := newPool(t, router.Config{})
		var want []router.Endpoint
		for _, text := range []string{first, second} {
			endpoints, good := parseLines(text)
			err := p.SetEndpointsAt(start, endpoints)
			if good != (err == nil) {
				t.Fatalf("SetEndpoints(%q) = %v, want an error: %v", text, err, !good)
			}
			if good {
				want = slices.SortedFunc(slices.Values(endpoints), func(a, b router.Endpoint) int { return cmp.Compare(a.ID, b.ID) })
			}
			var got []router.Endpoint
			able := 0
			for _, s := range p.StatsAt(start) {
				got = append(got, s.Endpoint)
				able += min(1, s.Endpoint.Weight)
			}
			require.Equal(t, want, got)
			require.NoError(t, p.CheckInvariants(nil))
			for _, r := range []router.Request{{At: start}, {At: start, Key: text}, {At: start, Prefix: prompt(1, 3)}} {
				d, err := p.Pick(r)
				if (err == nil) != (able > 0) {
					t.Fatalf("Pick = %v with %d endpoints of some weight", err, able)
				}
				if err == nil {
					d.ReleaseAt(start, router.Outcome{})
				}
			}
		}
	})
}

// parseLines also says whether a pool should take the endpoints.
func parseLines(text string) (endpoints []router.Endpoint, good bool) {
	good = true
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			continue
		}
		id, weight := line[:len(line)-1], int(int8(line[len(line)-1]))
		endpoints = append(endpoints, router.Endpoint{ID: id, Weight: weight})
		good = good && id != "" && !seen[id] && weight >= 0
		seen[id] = true
	}
	return endpoints, good
}
