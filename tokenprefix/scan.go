package tokenprefix

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
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
	for {
		q := bytes.IndexByte(b[i:], '"')
		if q < 0 {
			return -1
		}
		q += i
		i = q + 1
		if b[q-1] != '\\' || !isEscaped(b, q) {
			return i
		}
	}
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

// members yields the keys and values of the object v, up to the first fault.
func (s *scanner) members(v span) iter.Seq2[span, span] {
	return func(yield func(key, val span) bool) {
		for i := v.start + 1; ; {
			k := s.item(v, i, '}')
			if k < 0 {
				return
			}
			if s.b[k] != '"' {
				s.fail(faultSyntax, k)
				return
			}
			key := span{k, s.skipString(k)}
			if key.end < 0 {
				return
			}
			c := s.space(key.end)
			if c >= len(s.b) || s.b[c] != ':' {
				s.failAt(c)
				return
			}
			val := span{start: s.space(c + 1)}
			if val.end = s.skip(val.start); val.end < 0 || !yield(key, val) {
				return
			}
			i = val.end
		}
	}
}

// elements yields the elements of the array v, up to the first fault.
func (s *scanner) elements(v span) iter.Seq[span] {
	return func(yield func(span) bool) {
		for i := v.start + 1; ; {
			k := s.item(v, i, ']')
			if k < 0 {
				return
			}
			if i = s.skip(k); i < 0 || !yield(span{k, i}) {
				return
			}
		}
	}
}

// item returns the start of the next item of the container v at or behind i,
// which is v.start+1 or the end of the item before. It returns -1 behind the last
// item and at a fault.
func (s *scanner) item(v span, i int, closing byte) int {
	first := i == v.start+1
	i = s.space(i)
	if i < len(s.b) && s.b[i] == closing {
		return -1
	}
	if !first {
		if i >= len(s.b) || s.b[i] != ',' {
			return s.failAt(i)
		}
		i = s.space(i + 1)
	}
	if i >= len(s.b) {
		return s.failAt(i)
	}
	return i
}

// failAt notes that the byte at i, or the end of the body there, is not what
// the grammar asks for.
func (s *scanner) failAt(i int) int {
	if i >= len(s.b) {
		return s.fail(faultTruncated, i)
	}
	return s.fail(faultSyntax, i)
}

// is reports whether the value v is there and starts with c, which tells its
// type: '"', '{', '[', or the first letter of a literal.
func (s *scanner) is(v span, c byte) bool {
	return v.end > 0 && s.b[v.start] == c
}

// isDigit reports whether the value v is there and starts with a digit.
func (s *scanner) isDigit(v span) bool {
	return v.end > 0 && s.b[v.start]-'0' <= 9
}

// present reports whether the value v is there and is not null.
func (s *scanner) present(v span) bool {
	return v.end > 0 && s.b[v.start] != 'n'
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// isNumeric reports whether c is one of , - . / 0 to 9.
func isNumeric(c byte) bool { return ',' <= c && c <= '9' }

// isScalar reports whether c can be part of a number or a literal.
func isScalar(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '-' || c == '.' || c == '+'
}

// stringOf returns the text of v, or nil if v is not a string.
func (s *scanner) stringOf(v span) []byte {
	if !s.is(v, '"') {
		return nil
	}
	return s.plain(v)
}

// intOf returns the number v, or 0 if v is not a whole number from 0 to 2³¹-1.
func (s *scanner) intOf(v span) int {
	if v.end == 0 || v.end-v.start > 10 {
		return 0
	}
	n := int64(0)
	for _, c := range s.b[v.start:v.end] {
		if c < '0' || c > '9' {
			return 0
		}
		n = 10*n + int64(c-'0')
	}
	if n > math.MaxInt32 {
		return 0
	}
	return int(n)
}

// memberOf returns the last member of the object v with the given name. It is
// absent if v is not an object.
func (s *scanner) memberOf(v span, name string) (found span) {
	if !s.is(v, '{') {
		return span{}
	}
	for key, val := range s.members(v) {
		if string(s.plain(key)) == name {
			found = val
		}
	}
	return found
}
