package tokenprefix

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// A span is the place of a JSON value in a body: body[start:end]. An end of 0
// stands for an absent value.
type span struct{ start, end int }

const (
	// shortValue is the size in bytes up to which values are not noted, as it is
	// cheaper to read them again.
	shortValue = 128
	// notedDepth is how deep inside a field of the body containers are noted.
	notedDepth = 8
)

// A scanner finds values in a JSON body (RFC 8259) without reading more of them
// than it needs. It follows strings and brackets; it does not check that what it
// skips is well-formed beyond that, since the engine will. It uses constant stack
// whatever the nesting.
//
// Values are skipped once to find the fields of the body, and again inside of
// those fields. So that the bulk of the body is still read only once for its
// structure, the first pass notes the ends of long strings and containers.
type scanner struct {
	b     []byte
	long  []span // noted values in ascending order
	noted bool   // the first pass is over
	err   fault  // first fault found
	errAt int    // where
}

// fail notes the first fault and returns -1, which is no index.
func (s *scanner) fail(f fault, at int) int {
	if s.err == faultNone {
		s.err, s.errAt = f, at
	}
	return -1
}

// space returns the index of the first byte at or behind i that is not JSON
// white space, which may be len(s.b).
func (s *scanner) space(i int) int {
	for i < len(s.b) && isSpace(s.b[i]) {
		i++
	}
	return i
}

// skip returns the index behind the value that starts at i, or -1.
func (s *scanner) skip(i int) int {
	if i >= len(s.b) {
		return s.fail(faultTruncated, i)
	}
	switch s.b[i] {
	case '"':
		return s.skipString(i)
	case '{', '[':
		return s.skipContainer(i)
	}
	return s.skipScalar(i)
}

// skipScalar returns the index behind the number or literal at i, or -1.
func (s *scanner) skipScalar(i int) int {
	start := i
	for i < len(s.b) && isScalar(s.b[i]) {
		i++
	}
	if i == start {
		return s.fail(faultSyntax, i)
	}
	return i
}

// skipString returns the index behind the string whose opening quote is at i,
// or -1.
func (s *scanner) skipString(i int) int {
	if end := closingQuoteNext(s.b, i+1); end > 0 {
		return end
	}
	near := min(i+1+shortValue, len(s.b))
	if end := closingQuote(s.b[:near], i+1); end > 0 {
		return end
	}
	if s.noted {
		if end := s.notedEnd(i); end > 0 {
			return end
		}
	}
	end := closingQuote(s.b, near)
	if end < 0 {
		return s.fail(faultTruncated, len(s.b))
	}
	if !s.noted {
		s.long = append(s.long, span{i, end})
	}
	return end
}

// closingQuote returns the index behind the first quote at or behind i that no
// backslash escapes, or -1. Some quote must come before i.
func closingQuote(b []byte, i int) int {
	for dense := 0; ; dense++ {
		q := bytes.IndexByte(b[i:], '"')
		if q < 0 {
			return -1
		}
		if q >= 32 {
			dense = 0
		}
		q += i
		i = q + 1
		if b[q-1] != '\\' || !isEscaped(b, q) {
			return i
		}
		if dense == 4 { // JSON within the string: stop at fewer of its quotes
			i = skipEscapedQuotes(b, i)
			dense = 0
		}
	}
}

// skipEscapedQuotes returns an index at or behind i with no closing quote in
// between. It goes on 32 bytes at a time, however many quotes are among them, as
// long as each has one backslash in front, and stops after 1 KiB, since where
// quotes are rare IndexByte is faster.
func skipEscapedQuotes(b []byte, i int) int {
	for stop := min(len(b), i+1024); stop-i >= 32; {
		c := (*[34]byte)(b[i-2:])
		if (mayClose(c, 2)|mayClose(c, 10)|mayClose(c, 18)|mayClose(c, 26))&0x8080808080808080 != 0 {
			break
		}
		i += 32
	}
	return i
}

// mayClose returns a word with the top bit of a byte set if one of the eight
// bytes of c from k on is a quote with no backslash in front, or two, and seldom
// else.
func mayClose(c *[34]byte, k int) uint64 {
	const ones, low = 0x0101010101010101, 0x7f7f7f7f7f7f7f7f
	q := binary.LittleEndian.Uint64(c[k:k+8]) ^ '"'*ones
	one := binary.LittleEndian.Uint64(c[k-1:k+7]) ^ '\\'*ones
	two := binary.LittleEndian.Uint64(c[k-2:k+6]) ^ '\\'*ones
	return (q - ones) &^ q & ((one&low + low) | one | (two-ones)&^two)
}

// closingQuoteNext is closingQuote for strings of at most seven bytes, as many
// keys are, and returns -1 for others and for those with a backslash in front of
// the quote.
func closingQuoteNext(b []byte, i int) int {
	const ones = 0x0101010101010101
	if i+8 > len(b) {
		return -1
	}
	x := binary.LittleEndian.Uint64(b[i:]) ^ '"'*ones
	hit := (x - ones) &^ x & (0x80 * ones)
	if hit == 0 {
		return -1
	}
	i += bits.TrailingZeros64(hit) >> 3
	if b[i-1] == '\\' {
		return -1
	}
	return i + 1
}

// isEscaped reports whether an odd number of backslashes come before b[q]. There
// must be some other byte before them.
func isEscaped(b []byte, q int) bool {
	k := q - 1
	for b[k] == '\\' {
		k--
	}
	return (q-k)&1 == 0
}

// skipContainer returns the index behind the object or array at i, or -1.
func (s *scanner) skipContainer(i int) int {
	var open [notedDepth]int // places in s.long of the containers around
	if s.noted {
		if end := s.notedEnd(i); end > 0 {
			return end
		}
	}
	b, depth := s.b, 0
	for i < len(b) {
		switch c := b[i]; {
		case c == '"':
			if i = s.skipString(i); i < 0 {
				return -1
			}
			continue
		case c == '{' || c == '[':
			if !s.noted && depth < notedDepth {
				open[depth] = len(s.long)
				s.long = append(s.long, span{start: i})
			}
			depth++
		case c == '}' || c == ']':
			depth--
			if !s.noted && depth < notedDepth && !s.note(open[depth], i) {
				return s.fail(faultSyntax, i)
			}
			if depth == 0 {
				return i + 1
			}
		case '0' <= c && c <= '9':
			i = skipNumeric(b, i)
			continue
		case !isScalar(c) && !isSpace(c) && c != ':' && c != ',':
			return s.fail(faultSyntax, i)
		}
		i++
	}
	return s.fail(faultTruncated, i)
}

// note sets the end of the container noted at place k, whose closing bracket is
// at i, and returns whether that is of the right kind. A short container is
// dropped: it is the last one noted, since whatever it holds is short too.
func (s *scanner) note(k, i int) bool {
	start := s.long[k].start
	if i+1-start <= shortValue {
		s.long = s.long[:k]
	} else {
		s.long[k].end = i + 1
	}
	return s.b[i] == s.b[start]+2 // '{' and '}', '[' and ']' are two apart
}

// notedEnd returns the index behind the long value that starts at i, or -1 if
// none was noted.
func (s *scanner) notedEnd(i int) int {
	lo, hi := 0, len(s.long)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if s.long[mid].start < i {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(s.long) || s.long[lo].start != i {
		return -1
	}
	return s.long[lo].end
}

// skipNumeric returns the first index at or behind i of a byte that isNumeric
// does not hold for. It makes lists of numbers cheap, eight bytes at a step.
func skipNumeric(b []byte, i int) int {
	const ones = 0x0101010101010101
	for i+8 <= len(b) {
		x := binary.LittleEndian.Uint64(b[i:])
		// The top bit of each byte: set if it is below ',', above '9' or not ASCII.
		if ((x-','*ones)|(x+(0x7f-'9')*ones)|x)&(0x80*ones) != 0 {
			break
		}
		i += 8
	}
	for i < len(b) && isNumeric(b[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// isNumeric reports whether c is one of , - . / 0 to 9.
func isNumeric(c byte) bool { return ',' <= c && c <= '9' }

// isScalar reports whether c can be part of a number or a literal.
func isScalar(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '-' || c == '.' || c == '+'
}
