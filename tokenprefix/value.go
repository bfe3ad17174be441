package tokenprefix

import (
	"bytes"
	"iter"
	"math"
)

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
