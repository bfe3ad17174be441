package balancer

// BoundedLoad is consistent hashing with bounded loads: the first candidate in
// home order that is below the bound. When every candidate is at its bound, the
// least loaded takes the request.
type BoundedLoad struct {
	// Bound is the limit; a zero Factor means 1.25 with no gap.
	Bound Bound
}

// Choose returns the first candidate in home order below the bound.
func (b BoundedLoad) Choose(p *PickInfo) (Choice, error) {
	if !p.Keyed {
		return LeastLoad{}.Choose(p)
	}
	if b.Bound.Factor == 0 {
		b.Bound = Bound{Factor: 1.25}
	}
	total, weight := 0, 0
	for i := range p.Candidates {
		total += p.Candidates[i].Load.InFlight
		weight += p.Candidates[i].Weight
	}
	for i := range p.Candidates {
		c := &p.Candidates[i]
		if c.Load.InFlight < b.Bound.Limit(total, c.Weight, weight) {
			return Choice{Index: i, Reason: warmth(p, i, p.Deepest())}, nil
		}
	}
	c, err := LeastLoad{}.Choose(p)
	c.Reason = Spillover
	return c, err
}
