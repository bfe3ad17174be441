package tokenprefix

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// The canonical spelling of a string is the one that most clients send: every
// character as itself in UTF-8, except \" and \\, \b \f \n \r \t, and \u00xx
// (lower case) for the other control characters. A lone surrogate, which UTF-8
// cannot express, stays \udxxx. Bytes that are not UTF-8 stay as they are. A
// quote in a canonical spelling is always escaped, and so ends it.

// spell writes the string content s, the part between the quotes, in canonical
// spelling. Only \u and \/ have to be respelled; all between is hashed in place.
func (e *encoder) spell(s []byte) {
	run := 0
	for i := nextRespelled(s, 0); i >= 0; i = nextRespelled(s, run) {
		e.write(s[run:i])
		run = e.respell(s, i)
	}
	e.write(s[run:])
}

// nextRespelled returns the index of the first \u or \/ at or behind i, which
// must not be inside of an escape, or -1.
//
// Text has a backslash every 15 to 80 bytes, too often for IndexByte to be fast.
// But of all bytes that may follow one, only u and / are odd, so that eight bytes
// at a time tell whether one of them may start such an escape.
func nextRespelled(s []byte, i int) int {
	k := bytes.IndexByte(s[i:], '\\')
	if k < 0 {
		return -1
	}
	for i += k; len(s)-i > 32; {
		b := (*[33]byte)(s[i:])
		if (oddEscape(b, 0)|oddEscape(b, 8)|oddEscape(b, 16)|oddEscape(b, 24))&0x8080808080808080 == 0 {
			i += 32
			continue
		}
		for end := i + 32; i < end; i++ {
			if isRespelled(s, i) {
				return i
			}
		}
	}
	for ; i < len(s)-1; i++ {
		if isRespelled(s, i) {
			return i
		}
	}
	return -1
}

// oddEscape returns a word with the top bit of a byte set if one of the eight
// bytes of b from k on is a backslash with an odd byte behind it, and seldom
// else.
func oddEscape(b *[33]byte, k int) uint64 {
	const ones = 0x0101010101010101
	x := binary.LittleEndian.Uint64(b[k:k+8]) ^ '\\'*ones
	return (x - ones) &^ x & (binary.LittleEndian.Uint64(b[k+1:k+9]) << 7)
}

// isRespelled reports whether a \u or \/ starts at i, rather than the second
// backslash of an escaped one being followed by u or /.
func isRespelled(s []byte, i int) bool {
	if s[i] != '\\' || s[i+1] != 'u' && s[i+1] != '/' {
		return false
	}
	k := i
	for k > 0 && s[k-1] == '\\' {
		k--
	}
	return (i-k)&1 == 0
}

// respell writes the canonical spelling of s from the escape at i on, and
// returns the index it has come to. It goes on through plain text as long as
// escapes are close together, so that text escaped throughout is written in
// pieces of a useful size.
func (e *encoder) respell(s []byte, i int) int {
	var buf [512]byte
	out := buf[:0]
	for plain := 0; i < len(s) && plain < 16 && len(out) < len(buf)-utf8.UTFMax-2; {
		if s[i] != '\\' {
			out = append(out, s[i])
			i++
			plain++
			continue
		}
		r, n := escape(s[i:])
		out = appendSpelled(out, s[i:i+n], r)
		i += n
		plain = 0
	}
	e.write(out)
	return i
}

// Results of escape beside a character.
const (
	runeBad  rune = -1 // not an escape that JSON knows
	runeLone rune = -2 // a surrogate without its other half
)

// escape decodes the escape that s starts with and returns the character and
// the length of the escape, at least 1.
func escape(s []byte) (rune, int) {
	if len(s) < 2 {
		return runeBad, len(s)
	}
	switch s[1] {
	case '"', '\\', '/':
		return rune(s[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
	default:
		return runeBad, 2
	}
	r := hex4(s)
	if r < 0 {
		return runeBad, 2
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(s[6:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return runeLone, 6
}

// hex4 returns the number in the escape \uXXXX at the start of s, or -1. The four
// digits are read at once, as branches on them would hardly be predicted.
func hex4(s []byte) rune {
	if len(s) < 6 {
		return -1
	}
	w := binary.BigEndian.Uint32(s[2:])
	letters := w >> 6 & 0x01010101
	n := w&0x0f0f0f0f + 9*letters
	big := (n + 0x06060606) >> 4 & 0x01010101
	if n&0xf0f0f0f0 != 0 || n+0x30303030+39*big != w|letters<<5 {
		return -1 // writing n in hexadecimal does not give w
	}
	return rune(n>>12&0xf000 | n>>8&0xf00 | n>>4&0xf0 | n&0xf)
}

// appendSpelled appends the canonical spelling of the character r, which the
// escape esc stands for.
func appendSpelled(dst, esc []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case runeBad:
		return append(dst, esc...)
	case runeLone:
		dst = append(dst, '\\', 'u')
		for _, c := range esc[2:] {
			dst = append(dst, c|0x20) // digits stay as they are
		}
		return dst
	}
	if r < ' ' {
		return append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
	}
	return utf8.AppendRune(dst, r)
}

// appendDecoded appends the text that the string content s stands for, up to
// limit bytes of it and a character more. Lone surrogates and escapes that JSON
// does not know are left as spelled.
func appendDecoded(dst, s []byte, limit int) []byte {
	for end := len(dst) + limit; len(s) > 0 && len(dst) < end; {
		if s[0] != '\\' {
			k := bytes.IndexByte(s, '\\')
			if k < 0 {
				k = len(s)
			}
			k = min(k, end-len(dst))
			dst = append(dst, s[:k]...)
			s = s[k:]
			continue
		}
		r, n := escape(s)
		if r < 0 {
			dst = append(dst, s[:n]...)
		} else {
			dst = utf8.AppendRune(dst, r)
		}
		s = s[n:]
	}
	return dst
}

// spelledLen returns how many bytes of the string content s stand for the first
// n bytes of its text; a character that n cuts through is counted as a whole.
func spelledLen(s []byte, n int) int {
	i := 0
	for n > 0 && i < len(s) {
		if s[i] != '\\' {
			i++
			n--
			continue
		}
		r, m := escape(s[i:])
		if r < 0 {
			n -= m
		} else {
			n -= utf8.RuneLen(r)
		}
		i += m
	}
	return i
}
