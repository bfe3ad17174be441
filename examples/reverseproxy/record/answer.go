package record

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// answer watches an answer on its way to the client and changes nothing.
type answer struct {
	http.ResponseWriter
	now    func() time.Time
	client context.Context // done when the client has left

	status  int       // zero: none
	missed  bool      // some of it was written when the client had left, or in vain
	first   time.Time // when its body began
	size    int       // of the body in bytes
	events  int       // in a stream of events
	matched int       // how much of dataField the line under way begins with, -1: it doesn't
	end     [4 << 10]byte
	kept    int // bytes of end
}

// dataField begins the lines of an event stream that say something.
const dataField = "data:"

// Unwrap is for http.ResponseController: flushing, deadlines and hijacking are
// those of the writer inside.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if status >= http.StatusOK { // informational ones come before
		a.begin(status)
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(piece []byte) (int, error) {
	if a.status == 0 {
		a.begin(http.StatusOK)
	}
	a.missed = a.missed || a.client.Err() != nil
	if len(piece) > 0 && a.size == 0 {
		a.first = a.now()
	}
	a.size += len(piece)
	if a.isStream() {
		a.count(piece)
	}
	a.keep(piece)
	n, err := a.ResponseWriter.Write(piece)
	if err != nil && !errors.Is(err, http.ErrBodyNotAllowed) { // which is not about the client
		a.missed = true
	}
	return n, err
}

// begin is told the status.
func (a *answer) begin(status int) {
	a.status = status
	a.missed = a.client.Err() != nil
}

// whole says whether the client was there for all of the answer, so that nothing
// is lost if it is not there any more. An answer that does not tell its length is
// over when the handler has ended.
func (a *answer) whole(ended bool) bool {
	if a.status == 0 || a.missed {
		return false
	}
	if length := a.Header().Get("Content-Length"); length != "" {
		return length == strconv.Itoa(a.size)
	}
	return ended
}

func (a *answer) isStream() bool {
	return strings.HasPrefix(a.Header().Get("Content-Type"), "text/event-stream")
}

// count counts the lines with data.
func (a *answer) count(piece []byte) {
	for _, c := range piece {
		switch {
		case c == '\n':
			a.matched = 0
		case a.matched >= 0 && c == dataField[a.matched]:
			if a.matched++; a.matched == len(dataField) {
				a.events++
				a.matched = -1
			}
		default:
			a.matched = -1
		}
	}
}

// keep keeps the end of an answer, where its usage is.
func (a *answer) keep(piece []byte) {
	piece = piece[max(0, len(piece)-len(a.end)):]
	if over := a.kept + len(piece) - len(a.end); over > 0 {
		copy(a.end[:], a.end[over:a.kept])
		a.kept -= over
	}
	a.kept += copy(a.end[a.kept:], piece)
}

// bytesPerToken is that of answers which don't tell their usage.
const bytesPerToken = 4

// outputTokens is what the answer says in its usage, or else an estimate: an event
// of a stream is a token, and so are four bytes of anything else. It is at least 1.
func (a *answer) outputTokens() int {
	if n, ok := a.usage("completion_tokens", "output_tokens"); ok {
		return max(1, n)
	}
	if a.events > 0 {
		return a.events
	}
	return max(1, a.size/bytesPerToken)
}

// promptTokens is the size of the prompt as the engine counts it.
func (a *answer) promptTokens() (int, bool) {
	if n, ok := a.usage("prompt_tokens"); ok {
		return n, true
	}
	n, ok := a.usage("input_tokens")
	if read, is := a.usage("cache_read_input_tokens"); ok && is { // Anthropic's, which leaves them out
		created, _ := a.usage("cache_creation_input_tokens")
		n += read + created
	}
	return n, ok
}

// cachedTokens is how much of the prompt was cached.
func (a *answer) cachedTokens() (int, bool) {
	return a.usage("cached_tokens", "cache_read_input_tokens")
}

// usage returns the last value in the answer of the first of the names that it
// has. In what a model says quotes are escaped, so that it can't match.
func (a *answer) usage(names ...string) (int, bool) {
	for _, name := range names {
		text := a.end[:a.kept]
		i := bytes.LastIndex(text, []byte(`"`+name+`"`))
		if i < 0 {
			continue
		}
		text, colon := bytes.CutPrefix(bytes.TrimLeft(text[i+len(name)+2:], " "), []byte(":"))
		if n, ok := leadingNumber(bytes.TrimLeft(text, " ")); ok && colon {
			return n, true
		}
	}
	return 0, false
}

// leadingNumber reads a count that something else follows.
func leadingNumber(text []byte) (n int, ok bool) {
	const most = 1 << 28 // the sum of a few fits an int of 32 bits
	for i, c := range text {
		if c < '0' || c > '9' {
			return n, i > 0 && c != '.' && c != 'e' && c != 'E'
		}
		if n = 10*n + int(c-'0'); n > most {
			return 0, false
		}
	}
	return 0, false
}
