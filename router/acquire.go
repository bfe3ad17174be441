package router

import (
	"context"
	"time"
)

// Acquire is Pick that may wait: as long as the request is better off with an
// endpoint that is at work than elsewhere, it is held here, bound to nothing,
// and where it goes is decided anew whenever something changes. An engine's own
// queue is first come first served, and what is in it can't be taken back; this
// one lets short prompts pass long ones, within limits (see Queue), and leaves no
// engine without work that another would do no better.
//
// The errors are those of Pick and ctx.Err. ErrSaturated means that the queue is
// full, or that the request has waited for Queue.MaxWait. What was cancelled
// leaves nothing behind. Request.Prefix and the functions of the request are used
// until Acquire returns. If one of them, the policy or Hooks.Decided panics while the
// request is looked at, wherever that is, Acquire panics.
//
// Those who make room look at the queue: Decision.FirstToken and Release, Apply and
// SetEndpoints take longer while requests wait, up to a tenth of a millisecond for 64
// endpoints. Pick does not look at it: requests that must not wait go before those
// that do. Pools that announce to each other keep one order among them all.
func (p *Pool) Acquire(ctx context.Context, r Request) (*Decision, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.At.IsZero() {
		r.At = time.Now()
	}
	began := time.Now()
	d, h, err := p.enter(&r)
	if h == nil {
		return d, err
	}
	answers := make(chan answer, 1)
	h.ready = func(d *Decision, err error) { answers <- answer{d, err} }
	// Callers may have a clock that runs faster than time, so what the pool has
	// heard since counts too.
	now := func() time.Time { return p.queue.latest(r.At.Add(time.Since(began))) }
	returns := false
	defer func() {
		if !returns && !h.CancelAt(now()) { // a hook panicked in a pass that this call made
			if a := <-answers; a.d != nil {
				a.d.withdraw(now())
			}
		}
	}()
	err = p.keep(h)
	if err != nil {
		returns = true
		return nil, err
	}
	a, ok := p.await(ctx, answers, now)
	returns = true
	switch {
	case ok:
		return a.result()
	case !h.CancelAt(now()):
		a = <-answers // it was just sent
		return a.result()
	}
	return nil, ctx.Err()
}

// answer is what became of a request that was held.
type answer struct {
	d   *Decision
	err error
}

func (a answer) result() (*Decision, error) {
	if p, ok := a.err.(*panicked); ok {
		panic(p)
	}
	return a.d, a.err
}

// await waits for the answer to a request, as long as its context lets it. One of
// those who wait, whoever takes the watch, looks at the queue when nothing
// happens, so that the pool needs no goroutine of its own.
func (p *Pool) await(ctx context.Context, answers <-chan answer, now func() time.Time) (answer, bool) {
	watch := p.queue.watch
	var tick <-chan time.Time
	for {
		select {
		case a := <-answers:
			return a, true
		case <-ctx.Done():
			return answer{}, false
		case <-watch:
			timer := time.NewTicker(passInterval)
			defer timer.Stop()
			defer func() { p.queue.watch <- struct{}{} }()
			watch, tick = nil, timer.C
		case <-tick:
			p.dispatch(now())
		}
	}
}

// Enqueue is Acquire without a goroutine that waits and without a clock, for
// event loops and simulations. The pool calls ready once with what Acquire would
// return, unless the request is cancelled: from Enqueue itself if the request need
// not wait, and then the result is nil, else from whatever call makes room for it.
// That is done with no lock held, but others wait for it, so ready must not wait for
// anything. If it is nil nothing is done, since nobody could release the decision.
// While anything is held, DispatchAt must be called when it says. A panic that is for
// a held request is an error for ready.
func (p *Pool) Enqueue(r Request, ready func(*Decision, error)) *Held {
	if ready == nil {
		return nil
	}
	if r.At.IsZero() {
		r.At = time.Now()
	}
	d, h, err := p.enter(&r)
	if h != nil {
		h.ready = ready
		if err = p.keep(h); err == nil {
			if h.over.Load() {
				return nil
			}
			return h
		}
	}
	ready(d, err)
	return nil
}

// CancelAt takes the request out of the queue. It is false if the request is not
// there any more: its ready has been or is being called.
func (h *Held) CancelAt(now time.Time) bool {
	h.mu.Lock()
	over := h.over.Swap(true)
	h.mu.Unlock()
	if over {
		return false
	}
	h.pool.dispatch(now) // others may take the place that it was going to have
	return true
}

// enter sends a request at once if nobody waits and there is room; else it makes
// the one to hold.
func (p *Pool) enter(r *Request) (*Decision, *Held, error) {
	if err := p.admit(r, r.At); err != nil {
		return nil, nil, err
	}
	s := p.scratch.Get().(*scratch)
	defer p.release(s)
	s.describe(r, r.At)
	p.number(s)
	why := HeldForPrefill // those who came before
	if p.queue.count.Load() == 0 {
		var err error
		var d *Decision
		if d, why, err = p.send(s, r); err != nil {
			return nil, nil, err
		}
		if d != nil {
			p.decided(d, s)
			return d, nil, nil
		}
	} else {
		p.index.Match(&s.match, s.chain, s.nano)
	}
	h := &Held{pool: p, arrived: r.At, head: r.HeadStart, seq: s.info.Seq, request: *r, why: why}
	rate, _ := p.prefillRate()
	h.place(s.own(r), rate)
	return nil, h, nil
}

// keep puts a request into the queue, and looks at it there: what made it wait
// may have gone in the meantime, unseen by the one who could have sent it.
func (p *Pool) keep(h *Held) error {
	if !p.queue.add(h, &p.config.Queue) {
		return p.overfull()
	}
	p.dispatch(h.arrived)
	return nil
}

// overfull is the error for a request that can't wait, or not any longer. The
// hint is the time in which the endpoints could do what is held now.
func (p *Pool) overfull() error {
	mean, n := p.prefillRate()
	seconds := float64(p.queue.tokens.Load()) / (mean * float64(max(1, n)))
	wait := time.Duration(min(seconds, maxBackPressure.Seconds()) * float64(time.Second))
	return &SaturatedError{RetryAfter: max(time.Second, wait)}
}
