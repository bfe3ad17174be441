package engine

import (
	"fmt"
	"time"
)

// Kind says what an Event reports.
type Kind uint8

// The events of a request, in the order in which they occur. A request that
// is cancelled has no more of them.
const (
	Admitted   Kind = iota // left the queue; its cache hit is known
	FirstToken             // prefill is over
	Token                  // a further token; only for requests with Stream, and not the last
	Done                   // the last token is out, memory and place are free
)

// String returns the name of k.
func (k Kind) String() string {
	names := [...]string{"Admitted", "FirstToken", "Token", "Done"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Event is something that happened to a request.
type Event struct {
	Kind         Kind
	ID           int64
	At           time.Duration // since the epoch of the engine's owner
	CachedTokens int           // prompt tokens that were not computed again
	OutputTokens int           // tokens produced so far, with this one
}
