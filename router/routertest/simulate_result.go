package routertest

import (
	"slices"
	"time"

	"github.com/warmroute/warmroute/internal/workload"
)

// Result is what became of the requests of a simulation. Requests sent in the
// warm-up of the workload count only in Series and Endpoints, those without an
// answer at the end of a closed loop nowhere. Times are those that a client sees,
// from the moment it first sends, with everything that it tried again.
type Result struct {
	// Requests is the number of requests that were answered.
	Requests int
	// HitRate is the share of their prompt tokens that the engines had cached, 0
	// to 1, and Predicted the share that the routers believed cached.
	HitRate, Predicted float64
	// TTFT is the time to the first token, E2E that to the last, TPOT the mean
	// time of each token after the first.
	TTFT, E2E Quantiles
	TPOT      time.Duration
	// TTFTs are the times to the first token of all requests, ascending.
	TTFTs []time.Duration
	// Rate is the number of requests answered per second.
	Rate float64
	// Imbalance is the busy time of the busiest engine relative to the mean.
	Imbalance float64

	// Greedy is the time to the first token of the greedy tenant's requests (see
	// SwarmConfig), and GreedyRate their number per second. All of the above is of
	// the others.
	Greedy     Quantiles
	GreedyRate float64

	// Timeouts counts the attempts that clients gave up.
	Timeouts int
	// Lost counts the requests that got an error or an answer that broke off.
	Lost int
	// LaterTurns counts the requests of conversations that had sent one before.
	// Moved counts those that went to another endpoint than the one before, and
	// Displaced those that had to, because that one was gone or draining.
	LaterTurns, Moved, Displaced int
	// OverLimit counts the decisions that brought an endpoint above the
	// Decision.Limit that the router gave, as the router counts, and with a
	// single gateway also as the simulator does.
	OverLimit int
	// Leaked is what routers still count as in flight after the last release,
	// and LeakedTokens the cache that they still believe in use.
	Leaked, LeakedTokens int

	// Endpoints are the sums of each endpoint, by number.
	Endpoints []EndpointResult
	// Series is how the simulation went, in intervals.
	Series []Sample
}

// Quantiles of a time.
type Quantiles struct{ Mean, P50, P90, P99, Max time.Duration }

// EndpointResult is what an endpoint did in a simulation.
type EndpointResult struct {
	ID string
	// Requests counts those that were sent there, PeakInFlight the most at a
	// time.
	Requests, PeakInFlight int
	// Busy is the time in which the engine computed something.
	Busy time.Duration
}

// Sample is an interval of a simulation.
type Sample struct {
	// At is the end of the interval.
	At time.Duration
	// Requests counts those that were sent in it and answered at some time, of
	// which are the following figures.
	Requests int
	HitRate  float64
	TTFT     time.Duration // mean
	// Moved and Displaced are as in Result.
	Moved, Displaced int
	// Timeouts and Lost are those of requests sent in it.
	Timeouts, Lost int
	// Endpoints are by number. Those that join later are missing at first.
	Endpoints []EndpointSample
}

// EndpointSample is the state of an endpoint at the end of an interval.
type EndpointSample struct {
	// Sent counts the requests sent to it in the interval.
	Sent int
	// InFlight counts those that gateways wait for, Running and Waiting those
	// that the engine computes and has not begun; they are zero for an engine
	// that is gone.
	InFlight, Running, Waiting int
}

// finish ends the simulation and sums it up.
func (c *cluster) finish() *Result {
	until := c.scenario.Workload.until
	end := c.now
	if until > 0 {
		end = until
	}
	for c.tally.sampled <= end {
		c.sample()
	}
	if c.tally.sampled-c.scenario.Interval < end {
		c.tally.sampled = end
		c.sample()
	}
	r := &Result{Timeouts: c.tally.timeouts, Lost: c.tally.losses, OverLimit: c.tally.overLimit, Series: c.tally.series}
	c.addCalls(r, until)
	c.addEndpoints(r)
	c.addLeaks(r)
	return r
}

// addCalls sums up the requests.
func (c *cluster) addCalls(r *Result, until time.Duration) {
	warmUp := c.scenario.Workload.warmUp
	var e2e, greedy []time.Duration
	var tpot, last time.Duration
	var prompt, cached, predicted, decoded int
	for _, k := range c.calls {
		c.addToSeries(k)
		if k.sent < warmUp || k.end == 0 {
			continue
		}
		if k.request.Tenant == workload.GreedyTenant {
			greedy = append(greedy, k.first-k.sent)
			continue
		}
		r.TTFTs = append(r.TTFTs, k.first-k.sent)
		e2e = append(e2e, k.end-k.sent)
		if n := k.request.Answer.Tokens; n > 1 {
			tpot += (k.end - k.first) / time.Duration(n-1)
			decoded++
		}
		prompt += k.prompt
		cached += k.cached
		predicted += k.predicted
		last = max(last, k.end)
		if k.moved != firstTurn {
			r.LaterTurns++
		}
		switch k.moved {
		case moved:
			r.Moved++
		case displaced:
			r.Displaced++
		}
	}
	for i := range r.Series {
		c.tally.sums[i].finish(&r.Series[i])
	}
	if len(greedy) > 0 { // in closed loops only
		r.Greedy, r.GreedyRate = quantiles(greedy), float64(len(greedy))/(until-warmUp).Seconds()
	}
	r.Requests = len(r.TTFTs)
	if r.Requests == 0 {
		return
	}
	r.HitRate = float64(cached) / float64(prompt)
	r.Predicted = float64(predicted) / float64(prompt)
	r.TTFT, r.E2E = quantiles(r.TTFTs), quantiles(e2e)
	if decoded > 0 {
		r.TPOT = tpot / time.Duration(decoded)
	}
	if until > 0 {
		last = until
	}
	r.Rate = float64(r.Requests) / (last - warmUp).Seconds()
}

func (c *cluster) addEndpoints(r *Result) {
	var busiest, sum time.Duration
	for _, e := range c.engines {
		busy := e.totalBusy()
		busiest = max(busiest, busy)
		sum += busy
		r.Endpoints = append(r.Endpoints, EndpointResult{
			ID: e.endpoint.ID, Requests: e.requests, PeakInFlight: e.peak, Busy: busy,
		})
	}
	if sum > 0 {
		r.Imbalance = float64(busiest) * float64(len(c.engines)) / float64(sum)
	}
}

// addLeaks gives everything back and looks what is left.
func (c *cluster) addLeaks(r *Result) {
	for _, a := range c.waited {
		if a.held != nil {
			a.held.CancelAt(c.time())
		}
	}
	for i := 0; i < len(c.attempts); i++ { // a release may be what one more was waiting for
		if a := c.attempts[i]; !a.released {
			c.release(a, abandoned)
		}
	}
	// An error here is one that Simulate would have returned before.
	_ = c.deliverAnnouncements(c.now + c.scenario.Gateways.AnnounceDelay)
	c.now += c.scenario.Gateways.AnnounceDelay
	for _, g := range c.gateways {
		requests, tokens := g.held()
		r.Leaked += requests
		r.LeakedTokens += tokens
	}
}

// quantiles sorts the times.
func quantiles(d []time.Duration) Quantiles {
	slices.Sort(d)
	var sum time.Duration
	for _, v := range d {
		sum += v
	}
	at := func(q int) time.Duration { return d[(len(d)-1)*q/100] }
	return Quantiles{sum / time.Duration(len(d)), at(50), at(90), at(99), at(100)}
}
