package router

import "time"

// PrefillDecode routes to engines that are separated into a prefill and a
// decode pool: one call, two endpoints. Both fields are required. It is safe for
// concurrent use if both routers are.
type PrefillDecode struct {
	// Prefill chooses where the prompt is computed; prefix affinity belongs
	// here.
	Prefill Router
	// Decode chooses where the answer is generated. It is asked without prefix
	// and key, so that it goes by load.
	Decode Router
}

// Pair is a decision for both phases, from [PrefillDecode.Pick]. It must be
// released. Its methods are safe for concurrent use.
type Pair struct{ Prefill, Decode *Decision }

// Pick chooses both endpoints. If one can't be had, neither is taken, and the
// error is that of the one. Request.Exclude applies to both.
func (r *PrefillDecode) Pick(req Request) (*Pair, error) {
	if req.At.IsZero() {
		req.At = time.Now()
	}
	prefill, err := r.Prefill.Pick(req)
	if err != nil {
		return nil, err
	}
	req.Prefix, req.Key = nil, ""
	decode, err := r.Decode.Pick(req)
	if err != nil {
		prefill.withdraw(req.At)
		return nil, err
	}
	return &Pair{prefill, decode}, nil
}

// FirstToken says that the prompt is computed: the place at the prefill endpoint
// is given back.
func (p *Pair) FirstToken() { p.FirstTokenAt(time.Now()) }

// FirstTokenAt is FirstToken at a given time.
func (p *Pair) FirstTokenAt(now time.Time) {
	p.Prefill.FirstTokenAt(now)
	p.Prefill.ReleaseAt(now, Outcome{})
	p.Decode.FirstTokenAt(now)
}

// Release gives both places back. What went wrong before the first token is laid
// to the prefill endpoint, what came later to the decode endpoint; a request that
// ended well speaks for both, and its cached tokens for the prefill endpoint.
func (p *Pair) Release(o Outcome) { p.ReleaseAt(time.Now(), o) }

// ReleaseAt is Release at a given time.
func (p *Pair) ReleaseAt(now time.Time, o Outcome) {
	ended, well := p.Prefill.ReleaseAt(now, o), o.verdict() == good
	switch {
	case ended && !well:
		o = Outcome{Abandoned: true}
	case !ended && well && p.Decode.lease.state.Load() != released:
		p.Prefill.learnCached(now, &o) // the first token came before the usage
	}
	p.Decode.ReleaseAt(now, o)
}
