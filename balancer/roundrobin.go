package balancer

// RoundRobin takes the endpoints in turn. It is blind to load and prefix; a pool
// does not ask it about prompts that are in flight already (router.Config.Policy).
type RoundRobin struct{}

// Choose returns the first candidate at or after this pick's turn, in the
// pool's fixed order.
func (RoundRobin) Choose(p *PickInfo) (Choice, error) {
	n := 0 // the turns go over the endpoints of the whole pool as far as they can be seen
	for i := range p.Candidates {
		n = max(n, p.Candidates[i].Ordinal+1)
	}
	if n == 0 {
		return Choice{}, ErrNoCandidates
	}
	turn := int(p.Seq % uint64(n))
	best, distance := 0, n
	for i := range p.Candidates {
		d := p.Candidates[i].Ordinal - turn
		if d < 0 {
			d += n
		}
		if d < distance {
			best, distance = i, d
		}
	}
	return Choice{Index: best, Reason: Balanced}, nil
}
