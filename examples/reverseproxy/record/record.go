// Package record writes down a gateway's traffic without its content, so that
// tomorrow's policy can be simulated on today's requests: sizes, times, outcomes
// and salted hashes of prompts, in the JSONL format of Mooncake's traces.
//
//	recorder, err := record.New(record.Config{})
//	...
//	go func() { done <- recorder.Run(ctx, file) }()
//	handler := &reverseproxy.Handler{Router: pool, Hasher: hasher, Refine: recorder.Refine}
//	http.ListenAndServe(":8080", recorder.Handler(handler))
//
// And later:
//
//	go run ./examples/simulate -trace file.jsonl -endpoints 8
//
// A request goes through these files in this order: record.go, prompt.go (what is
// asked), answer.go (what comes back), line.go (what is written), buffer.go
// (when).
//
// A line tells nobody's words, tenant, model or address. A hash in it can be
// compared with others of the same salt and with nothing else: who knows a prompt
// can't look for it. What remains visible is who shares how much of a prompt with
// whom, how long prompts and answers are, and when they came.
//
// Requests that were refused or broke off are traffic, too, and have a line with
// their outcome. If clients send them again, they are in the trace again.
package record

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Config configures a Recorder. Its zero value is a good default.
type Config struct {
	// Salt is a secret of at least 16 bytes that the hashes in the trace depend
	// on. Recorders with the same salt write the same hash for the same prefix,
	// so that the traces of several gateways can be put together. Nil means a
	// random one that ends with the Recorder.
	Salt []byte
	// MaxBuffer is how many bytes of lines may wait to be written; what does not
	// fit is dropped and counted. As many more may be on their way to a slow disk.
	// Zero means 1 MiB, about a thousand requests.
	MaxBuffer int
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

const (
	minSalt          = 16
	defaultMaxBuffer = 1 << 20
)

// Recorder records the requests that go through its Handler and whose prompts go
// through its Refine. It holds no lock while anything is written. It is safe for
// concurrent use and must not be copied.
type Recorder struct {
	key   [sha256.Size]byte
	now   func() time.Time
	start time.Time // 0 in the trace
	limit int
	wake  chan struct{} // there are lines

	mu    sync.Mutex
	lines []byte
	stats Stats

	spare []byte // of Run
	torn  bool   // what Run wrote last ends in the middle of a line
}

// Stats counts requests.
type Stats struct {
	// Recorded have a line, or will have.
	Recorded int64
	// Skipped are those without a signature of blocks that 512 tokens are a
	// multiple of: nothing could be said about their prompts.
	Skipped int64
	// Dropped found no room in the buffer, or could not be written.
	Dropped int64
}

// New returns a recorder. Time begins for its trace.
func New(c Config) (*Recorder, error) {
	r := &Recorder{now: c.Now, limit: c.MaxBuffer, wake: make(chan struct{}, 1)}
	switch {
	case len(c.Salt) > 0 && len(c.Salt) < minSalt:
		return nil, fmt.Errorf("record: Config.Salt has %d bytes, want at least %d", len(c.Salt), minSalt)
	case c.MaxBuffer < 0:
		return nil, fmt.Errorf("record: Config.MaxBuffer %d is negative", c.MaxBuffer)
	case c.MaxBuffer == 0:
		r.limit = defaultMaxBuffer
	}
	if len(c.Salt) > 0 {
		r.key = sha256.Sum256(c.Salt)
	} else {
		rand.Read(r.key[:]) // never fails
	}
	if r.now == nil {
		r.now = time.Now
	}
	r.start = r.now()
	return r, nil
}

// Stats returns what was counted so far.
func (r *Recorder) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

// entryKey is the key of a recorder's entry in the context of a request.
type entryKey struct{ *Recorder }

// Handler returns a handler that records what goes through next: a
// reverseproxy.Handler with this recorder's Refine.
func (r *Recorder) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		at := r.now()
		p := new(prompt)
		a := &answer{ResponseWriter: w, now: r.now, client: req.Context()}
		ended := false
		// Deferred, because an answer that breaks off ends in a panic.
		defer func() { r.record(at, p, a, outcomeOf(a, ended)) }()
		next.ServeHTTP(a, req.WithContext(context.WithValue(req.Context(), entryKey{r}, p)))
		ended = true
	})
}

// outcomeOf says in a word how a request ended. Clients close their connections
// as soon as they have all that they want, often before the handler has ended.
func outcomeOf(a *answer, ended bool) string {
	whole := a.whole(ended)
	switch {
	case !whole && (a.missed || a.client.Err() != nil):
		return "abandoned" // by the client
	case !whole && !ended:
		return "broken"
	case a.status >= http.StatusBadRequest:
		return "refused"
	}
	return "answered"
}
