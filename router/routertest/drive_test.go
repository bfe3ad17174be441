package routertest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/router/routertest"
)

// Nobody is served before they came, however late the driver is: what is over by
// the time of a request is completed first.
func TestEngine_LateDriverServesNobodyEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := routertest.NewLateEngine()
		for range 3 {
			if err := e.Submit(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // many iterations
		}
		// Each has an iteration of its own: 15 ms, and 75 µs for the token.
		mean, count := e.MeanTTFT()
		if want := 0.015075; count != 3 || mean < want-1e-6 || mean > want+1e-6 {
			t.Errorf("mean TTFT %v s of %d requests, want %v s of 3", mean, count, want)
		}
	})
}
