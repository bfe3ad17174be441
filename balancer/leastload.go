package balancer

// LeastLoad takes the endpoint with the fewest requests for its weight, the
// effective number of loadstats.Load.Requests. Ties go to a pseudo-random one
// of the tied, so that an idle fleet is used evenly.
type LeastLoad struct{}

// Choose returns a least loaded candidate.
func (LeastLoad) Choose(p *PickInfo) (Choice, error) {
	if len(p.Candidates) == 0 {
		return Choice{}, ErrNoCandidates
	}
	start := int(p.Random % uint64(len(p.Candidates)))
	best := start
	for k := 1; k < len(p.Candidates); k++ {
		i := start + k
		if i >= len(p.Candidates) {
			i -= len(p.Candidates)
		}
		if lessLoaded(&p.Candidates[i], &p.Candidates[best]) {
			best = i
		}
	}
	return Choice{Index: best, Reason: Balanced}, nil
}

// lessLoaded compares requests per weight, counting the request to place.
// An endpoint that fails its requests is free for a bad reason: its load counts
// as if the failed share of its work were still there.
func lessLoaded(a, b *Candidate) bool {
	return effort(a)*float64(b.Weight) < effort(b)*float64(a.Weight)
}

func effort(c *Candidate) float64 {
	return float64(c.Load.Requests()+1) + float64(failurePenalty*c.Load.FailureShare)
}

// failurePenalty is how many requests in flight an endpoint that fails
// everything counts in addition to those it has. Without it an endpoint that
// answers 500 within a millisecond looks idle and draws all traffic.
const failurePenalty = 32
