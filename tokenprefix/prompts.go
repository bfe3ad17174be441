package tokenprefix

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// prompts writes a body that consists of one prompt or a list of them.
func (w *bodyWriter) prompts(prompt span) {
	w.message("system", w.top.system)
	w.named("context", w.top.context)
	w.medias(w.top.imageData)
	w.medias(w.top.images)
	if w.is(prompt, '[') {
		for v := range w.elements(prompt) {
			w.prompt(v)
		}
	} else {
		w.prompt(prompt)
	}
	w.named("suffix", w.top.suffix)
}

// prompt writes one prompt.
func (w *bodyWriter) prompt(v span) {
	if w.is(v, '"') {
		w.text(tagPrompt, v)
		return
	}
	w.raw(v)
}

// hasExtras reports whether something beside the prompt is part of it.
func (w *bodyWriter) hasExtras() bool {
	f := &w.top
	for _, v := range [...]span{f.system, f.context, f.imageData, f.images, f.suffix} {
		if w.present(v) {
			return true
		}
	}
	return false
}

// listsIDs reports whether the prompt looks like a list of token ids, or a list
// of such lists.
func (w *bodyWriter) listsIDs(prompt span) bool {
	if !w.is(prompt, '[') {
		return false
	}
	for v := range w.elements(prompt) {
		return w.isDigit(v) || w.is(v, '[')
	}
	return false
}

// idPrompts writes a list of token ids or a list of such lists, with a cut
// between two of them. It returns false, with a chain that is of no use, if
// something else is among them.
func (w *bodyWriter) idPrompts(prompt span) bool {
	if w.b[w.space(prompt.start+1)] != '[' {
		return w.ids(prompt)
	}
	first := true
	for v := range w.elements(prompt) {
		if !first {
			w.cut()
		}
		first = false
		if !w.is(v, '[') || !w.ids(v) {
			return false
		}
	}
	return true
}

// ids writes the token ids listed in v, and returns whether there are only such.
func (w *bodyWriter) ids(v span) bool {
	var buf [256]uint32
	n := 0
	for i := w.space(v.start + 1); i < v.end-1; {
		id, end := parseID(w.b, i)
		if end < 0 {
			return false
		}
		buf[n] = id
		if n++; n == len(buf) {
			w.writeIDs(buf[:])
			n = 0
		}
		if i = w.space(end); i < v.end-1 {
			if w.b[i] != ',' {
				return false
			}
			i = w.space(i + 1)
		}
	}
	w.writeIDs(buf[:n])
	return true
}

// parseID returns the token id in decimal digits at i and the index behind it,
// or an index of -1 if there is none. Ids of up to seven digits are read at once,
// as a loop over digits would hardly be predicted.
func parseID(b []byte, i int) (id uint32, end int) {
	const ones = 0x0101010101010101
	if i+8 <= len(b) {
		x := binary.LittleEndian.Uint64(b[i:]) ^ '0'*ones // 0 to 9 where a digit is
		other := (x + (0x7f-9)*ones | x) & (0x80 * ones)  // top bit of a byte: no digit
		n := bits.TrailingZeros64(other) &^ 7             // bits before the first such
		if 0 < n && n < 64 {
			x <<= 64 - n // first digit in the lowest byte that is left, zeros below
			x = x * (1 + 10<<8) >> 8 & 0x00ff00ff00ff00ff
			x = x * (1 + 100<<16) >> 16 & 0x0000ffff0000ffff
			return uint32(x * (1 + 10000<<32) >> 32), i + n>>3
		}
	}
	wide := uint64(0)
	for end = i; end < len(b) && b[end]-'0' <= 9; end++ {
		if wide = 10*wide + uint64(b[end]-'0'); wide > math.MaxUint32 {
			return 0, -1
		}
	}
	if end == i {
		return 0, -1
	}
	return uint32(wide), end
}
