package workload

// TokenBytes is the length of the text of one token.
const TokenBytes = 4

// AppendText appends the text of s to dst: for each token a word of three
// letters and a space, determined by the ID and the position.
func (s Segment) AppendText(dst []byte) []byte {
	const (
		consonants = "bcdfghjklmnprstv" // 4 bits
		vowels     = "aeiouaei"         // 3 bits
		perDraw    = 5                  // tokens of 11 bits from 64
	)
	for at := 0; at < s.Tokens; {
		bits := mix(s.ID, uint64(at))
		for range min(perDraw, s.Tokens-at) {
			dst = append(dst, consonants[bits&15], vowels[bits>>4&7], consonants[bits>>7&15], ' ')
			bits >>= 11
			at++
		}
	}
	return dst
}
