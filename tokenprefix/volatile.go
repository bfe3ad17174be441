package tokenprefix

import "bytes"

// volatileWindow is how much of a text the Volatile hook is shown, in bytes.
const volatileWindow = 4 << 10

// skipVolatile returns how many bytes of the text the hook leaves out.
func (h *Hasher) skipVolatile(text []byte) int {
	if h.Volatile == nil {
		return 0
	}
	return min(max(h.Volatile(text), 0), len(text))
}

// afterVolatile shows the hook the beginning of a string's content and returns
// what is left of it, as spelled, or nil if the whole text is left out.
func (e *encoder) afterVolatile(content []byte) []byte {
	e.window = appendDecoded(e.window[:0], content, volatileWindow)
	skip := e.hasher.skipVolatile(e.window)
	e.skipped += skip
	rest := content[spelledLen(content, skip):]
	if len(rest) == 0 && skip > 0 {
		return nil
	}
	e.leading = false
	return rest
}

// SkipVolatile is a hook for Hasher.Volatile that knows the volatile beginnings
// seen most: the billing header that some coding clients put in front as a part
// of its own (a line that starts with "x-anthropic-billing-header:"), and first
// lines of up to 200 bytes with a date (2026-11-30) or a time of day (21:04:05).
// It leaves out such lines up to the first one that is neither.
func SkipVolatile(text []byte) (skip int) {
	for skip < len(text) {
		line := text[skip:]
		if n := bytes.IndexByte(line, '\n'); n >= 0 {
			line = line[:n+1]
		}
		if !bytes.HasPrefix(line, []byte("x-anthropic-billing-header:")) && !(len(line) <= 200 && hasClock(line)) {
			break
		}
		skip += len(line)
	}
	return skip
}

// hasClock reports whether the line holds a date or a time of day in digits.
func hasClock(line []byte) bool {
	for i := range line {
		if matches(line[i:], "dddd-dd-dd") || matches(line[i:], "dd:dd:dd") {
			return true
		}
	}
	return false
}

// matches reports whether s starts with the pattern, in which d is a digit and
// everything else itself.
func matches(s []byte, pattern string) bool {
	if len(s) < len(pattern) {
		return false
	}
	for i := range len(pattern) {
		digit := '0' <= s[i] && s[i] <= '9'
		if pattern[i] == 'd' && !digit || pattern[i] != 'd' && s[i] != pattern[i] {
			return false
		}
	}
	return true
}
