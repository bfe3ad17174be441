package ring

import "math/bits"

// scorer is a member of positive weight as the ranking of a slot sees it.
type scorer struct {
	seed   uint64 // hash of the ID
	weight uint32
	index  uint32 // position of the member
}

// contender is a scorer in the contest for one slot. It loses a race whose time
// is exponentially distributed with the weight as its rate: the least loss/weight
// wins, so a member wins in proportion to its weight, and one that leaves does
// not change the order of the others.
type contender struct {
	loss   uint64 // -ln of the hash as a fraction of 2^64; fixed point, see negLog
	hash   uint64
	weight uint32
	index  uint32
}

// beats reports whether c ranks before d: by loss/weight, compared without
// division, then by hash. The caller asks in the order of IDs, so that equal
// contenders stay in that order.
func (c *contender) beats(d *contender) bool {
	ch, cl := bits.Mul64(c.loss, uint64(d.weight))
	dh, dl := bits.Mul64(d.loss, uint64(c.weight))
	if ch != dh {
		return ch < dh
	}
	if cl != dl {
		return cl < dl
	}
	return c.hash > d.hash
}

// rank fills ranked with the best members for the slot, best first, and returns
// how many there are.
func (r *Ring) rank(ranked []contender, slot uint64) int {
	if r.equal {
		return rankEqual(ranked, r.scorers, slot)
	}
	return rankWeighted(ranked, r.scorers, slot, nil)
}

// rankEqual is rankWeighted for scorers of equal weight. As negLog never rises
// with the hash, their order is that of the hashes, and takes no logarithm.
func rankEqual(ranked []contender, scorers []scorer, slot uint64) int {
	n := 0
	worst := uint64(0) // hash of the last of a full ranking
	base := mix(slot + 1)
	for i := range scorers {
		hash := mix(base ^ scorers[i].seed)
		if hash <= worst && n == len(ranked) {
			continue
		}
		if n < len(ranked) {
			n++
		}
		at := n - 1
		for ; at > 0 && hash > ranked[at-1].hash; at-- {
			ranked[at] = ranked[at-1]
		}
		ranked[at] = contender{hash: hash, index: scorers[i].index}
		worst = ranked[n-1].hash
	}
	return n
}

// rankWeighted fills ranked with the best scorers of the slot, best first,
// leaving out those that skip reports, and returns how many there are. A nil skip
// leaves out nobody.
//
// Almost no member needs the logarithm. As -ln(1-x) >= x, one whose hash is too
// far from the top for that cheap bound can't beat the last of those ranked so
// far; the bound is rounded down by far more than negLog errs.
func rankWeighted(ranked []contender, scorers []scorer, slot uint64, skip func(*scorer) bool) int {
	const bound = fraction - 32 // fixed-point bits that the bound leaves out: it has 32
	n := 0
	worst := uint64(1) << 32 // loss/weight of the last of a full ranking, rounded up
	base := mix(slot + 1)
	for i := range scorers {
		s := &scorers[i]
		hash := mix(base ^ s.seed)
		if ^hash>>32 > worst*uint64(s.weight) || skip != nil && skip(s) {
			continue
		}
		c := contender{negLog(hash), hash, s.weight, s.index}
		if n < len(ranked) {
			n++
		} else if !c.beats(&ranked[n-1]) {
			continue
		}
		at := n - 1
		for ; at > 0 && c.beats(&ranked[at-1]); at-- {
			ranked[at] = ranked[at-1]
		}
		ranked[at] = c
		if n == len(ranked) {
			last := &ranked[n-1]
			worst = last.loss/uint64(last.weight)>>bound + 1
		}
	}
	return n
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable
// pseudorandom number generators", OOPSLA 2014) with the constants of Stafford's
// variant 13: a bijection in which every input bit changes every output bit with a
// probability near one half.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
