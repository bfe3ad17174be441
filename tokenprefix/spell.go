package tokenprefix

import (
	"bytes"
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
	for i := 0; ; {
		k := bytes.IndexByte(s[i:], '\\')
		if k < 0 || i+k+1 >= len(s) {
			break
		}
		i += k
		if c := s[i+1]; c != 'u' && c != '/' {
			i += 2
			continue
		}
		e.write(s[run:i])
		i = e.respell(s, i)
		run = i
	}
	e.write(s[run:])
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

// hex4 returns the number in the escape \uXXXX at the start of s, or -1.
func hex4(s []byte) rune {
	if len(s) < 6 {
		return -1
	}
	var r rune
	for _, c := range s[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
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

// plain returns the text of the string v: a part of the body, or a new slice if
// the string holds escapes.
func (s *scanner) plain(v span) []byte {
	content := s.content(v)
	if bytes.IndexByte(content, '\\') < 0 {
		return content
	}
	return appendDecoded(make([]byte, 0, len(content)), content, len(content))
}

// content returns the string v as spelled, without its quotes.
func (s *scanner) content(v span) []byte { return s.b[v.start+1 : v.end-1] }
