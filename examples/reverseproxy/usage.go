package reverseproxy

import (
	"bytes"

	"github.com/warmroute/warmroute/loadstats"
)

// usageTail keeps the end of an answer, where engines put its usage: in the last
// object of a stream, or behind the choices of a whole one. It is read once, at
// the end, so that a long stream costs a copy a piece and no parsing.
type usageTail struct {
	// What is older than the window stays until there is no more room, so that not
	// every piece moves all of it.
	bytes [2 * usageWindow]byte
	n     int
}

// usageWindow is how much of the end of an answer is read, in bytes.
const usageWindow = 4 << 10

func (t *usageTail) reset() { t.n = 0 }

func (t *usageTail) add(piece []byte) {
	piece = piece[max(0, len(piece)-usageWindow):]
	if t.n+len(piece) > len(t.bytes) {
		t.n = copy(t.bytes[:], t.bytes[t.n-usageWindow:t.n])
	}
	t.n += copy(t.bytes[t.n:], piece)
}

// usage is what an answer says about its prompt.
type usage struct{ prompt, cached loadstats.Count }

// read finds the usage in OpenAI's form (prompt_tokens or input_tokens, with
// cached_tokens in their details) or Anthropic's (input_tokens, beside them
// cache_read_input_tokens and cache_creation_input_tokens).
func (t *usageTail) read() usage {
	text := t.bytes[max(0, t.n-usageWindow):t.n]
	// Most of the text is none of this, and quotes are everywhere in it.
	at := bytes.Index(text, []byte("_tokens"))
	if at < 0 {
		return usage{}
	}
	text = text[max(0, at-maxUsageName):]
	u := usage{
		prompt: lastNumber(text, `"prompt_tokens"`),
		cached: lastNumber(text, `"cached_tokens"`),
	}
	if _, ok := u.prompt.Get(); ok {
		return u
	}
	u.prompt = lastNumber(text, `"input_tokens"`)
	computed, ok := u.prompt.Get()
	if read, is := lastNumber(text, `"cache_read_input_tokens"`).Get(); ok && is {
		created, _ := lastNumber(text, `"cache_creation_input_tokens"`).Get()
		u.prompt, u.cached = loadstats.Known(computed+read+created), loadstats.Known(read)
	}
	return u
}

// maxUsageName is no shorter than what comes before "_tokens" in any of the names.
const maxUsageName = 32

// maxUsageDigits keeps numbers within an int64.
const maxUsageDigits = 15

// lastNumber returns the value of the last member with the quoted name, unknown
// if there is none or it is no count. What a model says about usage is inside of
// a string, where the quotes are escaped, and does not match.
func lastNumber(text []byte, name string) loadstats.Count {
	value := []byte(nil)
	for rest := text; ; {
		at := bytes.Index(rest, []byte(name))
		if at < 0 {
			break
		}
		rest = rest[at+len(name):]
		if after, ok := bytes.CutPrefix(bytes.TrimLeft(rest, " "), []byte(":")); ok {
			value = bytes.TrimLeft(after, " ")
		}
	}
	n := int64(0)
	for i, c := range value {
		switch {
		case '0' <= c && c <= '9' && i < maxUsageDigits:
			n = 10*n + int64(c-'0')
		case i == 0 || '0' <= c && c <= '9' || c == '.' || c == 'e' || c == 'E':
			return loadstats.Count{}
		default:
			return loadstats.Known(n)
		}
	}
	return loadstats.Count{} // cut off
}
