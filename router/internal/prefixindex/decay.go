package prefixindex

// halfLife is the time in which a counted branch loses half its weight, in
// nanoseconds: one minute.
const halfLife = int64(60e9)

// decaying is a count whose events fade.
type decaying struct {
	count float64
	asOf  int64 // UnixNano
}

func (d *decaying) add(now int64) { d.count, d.asOf = d.at(now)+1, max(d.asOf, now) }

func (d *decaying) at(now int64) float64 {
	if d.count == 0 {
		return 0
	}
	return faded(d.count, now-d.asOf)
}

// faded returns v after it has decayed for the given time: halved for each whole
// half-life, linear in between, so that it is the same on every architecture.
func faded(v float64, elapsed int64) float64 {
	if elapsed <= 0 {
		return v
	}
	for ; elapsed >= halfLife; elapsed -= halfLife {
		if v < 1e-6 {
			return 0
		}
		v /= 2
	}
	return v * (1 - float64(elapsed)/float64(2*halfLife))
}
