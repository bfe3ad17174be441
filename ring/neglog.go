package ring

import "math/bits"

// fraction is the number of fractional bits of negLog.
const fraction = 58

// ln2 is the natural logarithm of 2 with fraction bits after the point.
const ln2 = 0x2c5c85fdf473de7

// negLog returns -ln((u+1)/2^64) in fixed point with 58 fractional bits; the
// largest value, for 0, is 64·ln 2 = 44.4. The error is below 2^-53, and far smaller
// for the winners of a contest.
//
// It is computed in integers because the logarithm of package math differs
// between architectures in the last bit, and so would placement. With
// u+1 = 2^(64-k)·(1-v), 0 <= v <= 1/2, the value is k·ln 2 + 2·artanh(z) for
// z = v/(2-v), whose series converges by a factor of 9 or more a term, and much
// faster for the winners of a contest, whose hashes are close to 2^64.
func negLog(u uint64) uint64 {
	u++
	if u == 0 {
		return 0
	}
	k := bits.LeadingZeros64(u)
	u <<= k
	v := -u
	z, _ := bits.Div64(v>>1, v<<63, 1<<63|u>>1)
	square, _ := bits.Mul64(z, z)
	sum, power := z, z
	for d := uint64(3); ; d += 2 {
		power, _ = bits.Mul64(power, square)
		if power == 0 {
			break
		}
		sum += power / d
	}
	return uint64(k)*ln2 + sum>>(63-fraction)
}
