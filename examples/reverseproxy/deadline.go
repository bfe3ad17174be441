package reverseproxy

import (
	"net/http"
	"time"
)

// extendDeadline gives the client the stall timeout to take what is written
// next, or nearly: a deadline that has most of it left will do. A writer without
// deadlines does without.
func (x *exchange) extendDeadline() {
	stall := x.handler.shared.stall
	if stall == 0 {
		return
	}
	now := time.Now()
	if now.Before(x.extendAfter) {
		return
	}
	x.extendAfter = now.Add(stall / 8)
	http.NewResponseController(x.writer).SetWriteDeadline(now.Add(stall))
}

// clearDeadline lifts the deadline while nothing is being written: on HTTP/2 its
// passing would end the stream. On HTTP/1 one that has passed is just replaced.
func (x *exchange) clearDeadline() {
	if x.client.ProtoMajor < 2 || x.handler.shared.stall == 0 {
		return
	}
	x.extendAfter = time.Time{}
	http.NewResponseController(x.writer).SetWriteDeadline(time.Time{})
}
