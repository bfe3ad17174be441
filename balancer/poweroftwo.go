package balancer

// PowerOfTwo takes the less loaded of two pseudo-random candidates
// (Mitzenmacher, "The power of two choices in randomized load balancing", IEEE
// TPDS 12(10), 2001).
type PowerOfTwo struct{}

// Choose returns the less loaded of two distinct candidates drawn by p.Random.
func (PowerOfTwo) Choose(p *PickInfo) (Choice, error) {
	n := uint64(len(p.Candidates))
	if n == 0 {
		return Choice{}, ErrNoCandidates
	}
	a := int(p.Random % n)
	if n > 1 {
		b := int((p.Random >> 32) % (n - 1))
		if b >= a {
			b++
		}
		if lessLoaded(&p.Candidates[b], &p.Candidates[a]) {
			a = b
		}
	}
	return Choice{Index: a, Reason: Balanced}, nil
}
