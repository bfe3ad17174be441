package reverseproxy

import (
	"net/http"
	"time"
)

// extendDeadline gives the client the stall timeout to take what is written
// next. A writer without deadlines does without.
func (x *exchange) extendDeadline() {
	if d := x.handler.shared.stall; d > 0 {
		http.NewResponseController(x.writer).SetWriteDeadline(time.Now().Add(d))
	}
}

// clearDeadline lifts the deadline while nothing is being written: on HTTP/2 its
// passing would end the stream.
func (x *exchange) clearDeadline() {
	if x.handler.shared.stall > 0 {
		http.NewResponseController(x.writer).SetWriteDeadline(time.Time{})
	}
}
