package router

import (
	"time"

	"github.com/warmroute/warmroute/loadstats"
)

// Outcome says how a request ended. The zero value is success about which
// nothing more is known. A prompt whose answer has not begun when it ends with an
// error or a status from 400 on is not believed to be cached at the endpoint.
type Outcome struct {
	// Err is the error on the way to the endpoint, such as a failed dial or a
	// broken connection, in the middle of the answer too, of which
	// httputil.ReverseProxy tells nobody. It counts against the endpoint.
	Err error
	// Abandoned says that the client left before the end. It says nothing about
	// the endpoint, so nothing is learned, whatever the other fields say.
	Abandoned bool
	// StatusCode is the HTTP status of the answer, zero if there was none. 502,
	// 503 and 504 count against the endpoint in its breaker, every status from 500
	// on in its loadstats.Load.FailureShare. 429, and 503 with a RetryAfter, mean
	// that the endpoint has enough, and it is left alone for a while. Others from
	// 400 to 499 say nothing about it.
	StatusCode int
	// RetryAfter is the time for which an endpoint that answered 429 or 503
	// asked to be left alone, zero if it did not ask. It counts from one second, as
	// for a 429 that does not ask, to 30 s.
	RetryAfter time.Duration
	// PromptTokens and CachedTokens are what the answer says about its usage. Give
	// both: sizes of prompts are estimates, and what was cached can be compared
	// with what was predicted only as a share of the prompt.
	PromptTokens, CachedTokens loadstats.Count
}

// The statuses that say something about an endpoint, as in net/http, which the
// router does without.
const (
	statusTooManyRequests    = 429
	statusBadGateway         = 502
	statusServiceUnavailable = 503
	statusGatewayTimeout     = 504
)

// verdict is what an outcome means for the endpoint.
type verdict uint8

const (
	silent verdict = iota // says nothing about the endpoint
	good
	busy // back-pressure: the endpoint works, and has enough
	poor // an answer that may be the request's fault or the endpoint's
	bad  // the endpoint's fault
)

func (o *Outcome) verdict() verdict {
	switch {
	case o.Abandoned:
		return silent
	case o.Err != nil:
		return bad
	case o.StatusCode == statusTooManyRequests,
		o.StatusCode == statusServiceUnavailable && o.RetryAfter > 0:
		return busy
	case o.StatusCode == statusBadGateway,
		o.StatusCode == statusServiceUnavailable,
		o.StatusCode == statusGatewayTimeout:
		return bad
	case o.StatusCode >= 500:
		return poor
	case o.StatusCode >= 400:
		return silent
	}
	return good
}

// cachedOf is how many tokens were cached of a prompt whose size was estimated:
// the share that the answer tells, in the measure of the estimate. An estimate
// that is off by a fifth would otherwise look like a cache that lost a fifth of
// every prompt.
func (o *Outcome) cachedOf(estimate int) int {
	cached, _ := o.CachedTokens.Get()
	if prompt, _ := o.PromptTokens.Get(); prompt > 0 {
		share := min(1, float64(cached)/float64(prompt))
		return int(share * float64(estimate))
	}
	return int(cached)
}
