package reverseproxy_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/examples/reverseproxy"
)

// C13, with an end: an engine that is not told fails the test, instead of keeping
// it until the test binary runs out of time.
func TestC13_AbortReachesTheEngineOrFails(t *testing.T) {
	var arrived, finish chan struct{}
	var canceled chan time.Time
	inTime(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(arrived)
		select {
		case <-r.Context().Done():
			canceled <- time.Now()
		case <-finish:
		}
	}), func(*timed, *http.Server, *reverseproxy.Handler) {
		arrived, finish, canceled = make(chan struct{}), make(chan struct{}), make(chan time.Time, 1) // of the bubble
	}, func(g *timed) {
		ctx, leave := context.WithCancel(g.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway/", strings.NewReader(chat("x", 10)))
			must(g.T, err)
			if res, err := g.client.Do(r); err == nil {
				res.Body.Close()
			}
		}()
		<-arrived
		left := time.Now()
		leave()
		select {
		case at := <-canceled:
			if d := at.Sub(left); d > 100*time.Millisecond {
				g.Errorf("the engine knew after %v, want at once", d)
			}
		case <-time.After(time.Second):
			g.Error("the engine was not told within a second")
		}
		close(finish)
		<-g.outcome
		<-done
	})
}
