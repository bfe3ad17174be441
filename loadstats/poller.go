package loadstats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
)

const (
	defaultPollInterval = time.Second
	// defaultPollTimeout is longer than the interval: an engine too busy to
	// answer at once is the one whose report matters most.
	defaultPollTimeout = 5 * time.Second
)

// Poller asks a [Reporter] about every endpoint at intervals and puts the
// reports into a [Table]. It never has more than one question open for an
// endpoint, however slow the answer, and it spreads its questions over the
// interval. It only ever writes reports: an endpoint that does not answer is
// left to its old report, which ages, and no answer changes the membership.
//
// Set the fields, then call [Poller.Run]; they must not be changed while it
// runs. The methods are safe for concurrent use. A Poller must not be copied.
type Poller struct {
	// Reporter is asked. It is called from several goroutines, each with the
	// context of Run, limited by Timeout. A report without a time gets that of
	// the question.
	Reporter Reporter
	// Table takes the reports.
	Table *Table
	// Endpoints returns the endpoints to ask about. Run calls it at the start
	// and then once in an Interval from its own goroutine; so an endpoint that
	// left is asked about for at most that long.
	Endpoints func() []string
	// Interval is the pause between the end of one question about an endpoint
	// and the next one, give or take a tenth. Zero means one second.
	Interval time.Duration
	// Timeout is the longest time an answer may take. Zero means five seconds.
	Timeout time.Duration
	// Seed varies the moments of asking; gateways that start together should
	// have different ones.
	Seed uint64

	loops   sync.WaitGroup
	mu      sync.Mutex
	running bool
	polls   map[string]*poll
}

// PollStatus counts what happened with the questions about one endpoint since
// it was first seen.
type PollStatus struct {
	Reports  int64 // answers with a reading
	Failures int64 // everything else: no answer, a wrong answer, no reading in it

	LastError   error // of the last failure, nil if there was none
	LastErrorAt time.Time
}

// poll is the loop of one endpoint.
type poll struct {
	cancel context.CancelFunc
	status PollStatus // guarded by Poller.mu
}

// Run polls until ctx is done, waits until no question is open any more, and
// returns nil. The error is not nil only if a field is missing or negative, or
// the Poller is running already.
func (p *Poller) Run(ctx context.Context) error {
	if err := p.start(); err != nil {
		return err
	}
	defer p.stop()
	ticker := time.NewTicker(p.interval())
	defer ticker.Stop()
	for {
		p.follow(ctx, p.Endpoints())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (p *Poller) start() error {
	switch {
	case p.Reporter == nil:
		return errors.New("loadstats: Poller.Reporter is nil")
	case p.Table == nil:
		return errors.New("loadstats: Poller.Table is nil")
	case p.Endpoints == nil:
		return errors.New("loadstats: Poller.Endpoints is nil")
	case p.Interval < 0:
		return fmt.Errorf("loadstats: Poller.Interval %v is negative", p.Interval)
	case p.Timeout < 0:
		return fmt.Errorf("loadstats: Poller.Timeout %v is negative", p.Timeout)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running {
		return errors.New("loadstats: Poller is already running")
	}
	p.running = true
	return nil
}

func (p *Poller) stop() {
	p.follow(context.Background(), nil)
	p.loops.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
}

// follow ends the loops of endpoints that left and begins those of new ones.
func (p *Poller) follow(ctx context.Context, endpoints []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	polls := make(map[string]*poll, len(endpoints))
	for _, endpoint := range endpoints {
		one := p.polls[endpoint]
		switch {
		case polls[endpoint] != nil: // named twice
			continue
		case one == nil:
			ctx, cancel := context.WithCancel(ctx)
			one = &poll{cancel: cancel}
			p.loops.Go(func() { p.loop(ctx, endpoint, one) })
		}
		polls[endpoint] = one
	}
	for endpoint, one := range p.polls {
		if polls[endpoint] == nil {
			one.cancel()
		}
	}
	p.polls = polls
}

func (p *Poller) loop(ctx context.Context, endpoint string, one *poll) {
	rng := rand.New(rand.NewPCG(p.Seed, xxhash.Sum64String(endpoint)))
	interval := float64(p.interval())
	for wait := rng.Float64() * interval; sleep(ctx, time.Duration(wait)); {
		p.ask(ctx, endpoint, one)
		wait = (0.9 + 0.2*rng.Float64()) * interval
	}
}

func (p *Poller) ask(ctx context.Context, endpoint string, one *poll) {
	asking, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	asked := time.Now()
	r, err := p.Reporter.Report(asking, endpoint)
	if ctx.Err() != nil {
		return // the endpoint left, or Run is over: nobody wants the answer
	}
	if err == nil {
		if r.At.IsZero() {
			r.At = asked
		}
		p.Table.Report(endpoint, r)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		one.status.Reports++
		return
	}
	one.status.Failures++
	one.status.LastError = err
	one.status.LastErrorAt = time.Now()
}

// interval leaves room for a tenth more: an overflow would ask without a pause.
func (p *Poller) interval() time.Duration { return min(cmp.Or(p.Interval, defaultPollInterval), 1<<62) }
func (p *Poller) timeout() time.Duration  { return cmp.Or(p.Timeout, defaultPollTimeout) }

// Status returns the counts of an endpoint; false if it is not being polled.
func (p *Poller) Status(endpoint string) (PollStatus, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.polls[endpoint]
	if one == nil {
		return PollStatus{}, false
	}
	return one.status, true
}

// sleep waits, and reports whether ctx is still in force.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
