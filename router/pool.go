package router

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/router/internal/prefixindex"
)

// Pool is a Router over a set of endpoints that may change. [New] makes one; the
// zero value can't be used. It is safe for concurrent use and must not be copied.
// It starts no goroutine and needs no Close.
type Pool struct {
	config  Config
	index   *prefixindex.Index
	members atomic.Pointer[snapshot]
	setting sync.Mutex // one membership change at a time

	seq        atomic.Uint64 // picks so far
	retries    retryBudget
	duplicates duplicates
	scratch    sync.Pool // *scratch

	leavingMu sync.Mutex    // held to change members and leaving together
	leaving   []entry       // left, with requests in flight
	idled     chan struct{} // closed when an endpoint becomes idle
	waiting   atomic.Bool   // somebody waits for that

	remote remote // decisions of other pools

	queue queue // of Acquire
}

// New returns a pool, or what is wrong with its configuration.
func New(c Config) (*Pool, error) {
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	p := &Pool{config: c, index: prefixindex.New()}
	p.scratch.New = func() any { return new(scratch) }
	p.queue.watch = make(chan struct{}, 1)
	p.queue.watch <- struct{}{}
	p.members.Store(&snapshot{})
	if err := p.SetEndpointsAt(time.Time{}, c.Endpoints); err != nil {
		return nil, err
	}
	p.config.Endpoints = nil
	return p, nil
}

// Pick chooses an endpoint and reserves a place there, in one step. It never
// blocks. The errors are ErrNoEndpoints, ErrSaturated (a *SaturatedError) and
// ErrRetryBudget, whatever the policy returns, and another one for a prefix whose
// blocks are not of BlockTokens or a policy that breaks its rules. Then nothing is
// reserved.
func (p *Pool) Pick(r Request) (*Decision, error) {
	now := r.At
	if now.IsZero() {
		now = time.Now()
	}
	if err := p.admit(&r, now); err != nil {
		return nil, err
	}
	s := p.scratch.Get().(*scratch)
	defer p.release(s)
	s.describe(&r, now)
	p.number(s)
	for {
		p.index.Match(&s.match, s.chain, s.nano)
		choice, err := p.choose(s, &r)
		if err != nil {
			return nil, err
		}
		d := p.reserve(s, &r, choice)
		if d == nil {
			continue // somebody else was faster, perhaps with the same prefix
		}
		p.decided(d, s)
		return d, nil
	}
}

// admit checks a request and counts it.
func (p *Pool) admit(r *Request, now time.Time) error {
	if r.Prefix != nil && len(r.Prefix.Blocks) > 0 && r.Prefix.BlockTokens != BlockTokens {
		return fmt.Errorf("router: Request.Prefix has BlockTokens %d, want %d", r.Prefix.BlockTokens, BlockTokens)
	}
	p.dropOldRemote(now)
	if len(r.Exclude) == 0 {
		p.retries.earn()
	} else if !p.retries.take() {
		return ErrRetryBudget
	}
	return nil
}

// number gives a request its number and with it its pseudo-random one.
func (p *Pool) number(s *scratch) {
	s.info.Seq = p.seq.Add(1) - 1
	s.info.Random = p.random(s.info.Seq)
}

func (p *Pool) random(seq uint64) uint64 { return mix(p.config.Seed ^ mix(seq)) }

// choose collects the candidates and asks the policy.
func (p *Pool) choose(s *scratch, r *Request) (balancer.Choice, error) {
	if err := p.collect(s, r); err != nil {
		return balancer.Choice{}, err
	}
	s.plan.apply(s)
	if i, ok := p.duplicate(s, r); ok {
		return balancer.Choice{Index: i, Reason: balancer.Duplicate}, nil
	}
	choice, err := p.config.Policy.Choose(&s.info)
	if err != nil {
		return choice, err
	}
	if err := s.checkChoice(&choice); err != nil {
		return choice, err
	}
	return choice, nil
}

// checkChoice finds what would break the books in the answer of a policy.
func (s *scratch) checkChoice(c *balancer.Choice) error {
	n := len(s.entries)
	if len(s.info.Candidates) != n {
		return fmt.Errorf("router: policy made %d candidates of %d", len(s.info.Candidates), n)
	}
	if c.Index < 0 || c.Index >= n {
		return fmt.Errorf("router: policy chose candidate %d of %d", c.Index, n)
	}
	if got, want := s.info.Candidates[c.Index].ID, s.entries[c.Index].id; got != want {
		return fmt.Errorf("router: policy moved candidates: %q is where %q was", got, want)
	}
	if c.NumOthers < 0 || c.NumOthers > len(c.Others) {
		return fmt.Errorf("router: policy ranked %d others, want 0 to %d", c.NumOthers, len(c.Others))
	}
	for _, o := range c.Others[:c.NumOthers] {
		if o.Index < 0 || o.Index >= n {
			return fmt.Errorf("router: policy ranked candidate %d of %d", o.Index, n)
		}
	}
	return nil
}

// duplicate finds the candidate where the same prompt is being computed.
func (p *Pool) duplicate(s *scratch, r *Request) (int, bool) {
	if r.Prefix == nil || len(r.Prefix.Blocks) == 0 || r.Prefix.Tail == 0 {
		return 0, false
	}
	m := p.duplicates.find(r.Prefix.Tail)
	if m == nil {
		return 0, false
	}
	for i, e := range s.entries {
		if e.member == m {
			return i, true
		}
	}
	return 0, false
}

// reserve takes the chosen place, unless it has changed since it was looked at.
func (p *Pool) reserve(s *scratch, r *Request, choice balancer.Choice) *Decision {
	c := &s.info.Candidates[choice.Index]
	e := s.entries[choice.Index]
	uncached := max(0, s.info.PromptTokens-c.CachedTokens)
	if !e.ledger.Reserve(s.now, s.seen[choice.Index], uncached) {
		return nil
	}
	probe, ok := e.circuit.begin(s.nano)
	if e.closed.Load() || !ok && !s.broken {
		if probe {
			e.circuit.end(s.nano, s.nano, silent, true, &p.config.Breaker)
		}
		e.ledger.Release(s.now, uncached, true)
		p.becameIdle(e.member)
		return nil
	}
	d := newDecision(p, s, r, choice, e)
	l := &d.lease
	l.sent, l.uncached, l.probe = s.now, uncached, probe
	l.pin = p.index.Pin(&s.match, &e.slot, s.chain, s.ownBlocks(), s.nano, !s.info.Continues)
	if e.capacity.learns() {
		l.distance = int32(p.index.Distance(&l.pin))
	}
	if r.Prefix != nil && len(r.Prefix.Blocks) > 0 && r.Prefix.Tail != 0 && p.duplicates.begin(r.Prefix.Tail, e.member) {
		l.tail = r.Prefix.Tail
	}
	e.picks.Add(1)
	return d
}

// decided calls the hooks for a new decision. If one panics, nobody gets the decision
// to release it.
func (p *Pool) decided(d *Decision, s *scratch) {
	told := false
	defer func() {
		if !told {
			d.withdraw(d.At)
		}
	}()
	p.announceSent(d, s)
	if f := p.config.Hooks.Decided; f != nil {
		f(d)
	}
	told = true
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood, "Fast splittable
// pseudorandom number generators", OOPSLA 2014).
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
