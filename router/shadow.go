package router

import (
	"time"

	"github.com/warmroute/warmroute/loadstats"
)

// Shadow is a Router that asks a candidate for its answer beside the real one,
// so that a new policy sees production traffic before it decides anything. The
// candidate's books follow the life of the real requests. It is safe for
// concurrent use if both routers are.
type Shadow struct {
	// Router decides. It is required.
	Router Router
	// Candidate is asked too. It is required, and needs a pool of its own over the
	// same endpoints. Its errors cost nothing.
	Candidate Router
	// Compare is told both answers before Pick returns; candidate is nil if it
	// had none. It must not release either. Nil means nobody is told.
	Compare func(decided, candidate *Decision)
}

// seenBy is what the outcome of a decision says about the choice of its shadow:
// the engine is to blame or to praise only if the shadow chose it too, and what
// it had cached follows from the real decisions.
func (o *Outcome) seenBy(d, shadow *Decision) Outcome {
	if shadow.Endpoint.ID != d.Endpoint.ID {
		return Outcome{Abandoned: true}
	}
	seen := *o
	seen.CachedTokens = loadstats.Count{}
	return seen
}

// Pick returns the decision of Router.
func (s *Shadow) Pick(req Request) (*Decision, error) {
	if req.At.IsZero() {
		req.At = time.Now()
	}
	d, err := s.Router.Pick(req)
	if err != nil {
		return nil, err
	}
	answered := false
	defer func() {
		if !answered {
			d.withdraw(req.At) // and with it what shadows it
		}
	}()
	c, err := s.Candidate.Pick(req)
	if err != nil {
		c = nil
	}
	// Either may be shadowed itself already.
	last := d
	for last.shadow != nil {
		last = last.shadow
	}
	last.shadow = c
	if s.Compare != nil {
		s.Compare(d, c)
	}
	answered = true
	return d, nil
}
