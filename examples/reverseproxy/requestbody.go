package reverseproxy

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// requestBody is the body of a client's request: a beginning that was read for
// the signature and can be sent as often as needed, and a rest that streams from
// the client once.
//
// A transport may read a body after its RoundTrip has returned; only Close says
// that it is done (net/http.RoundTripper). So the memory of the beginning goes
// back to its pool when the handler and every reader given out have let go of it,
// which is usually long before the answer ends.
type requestBody struct {
	peeked []byte
	rest   io.Reader // nil: there is none

	touched  atomic.Bool // something of the rest was read
	ended    atomic.Bool // all of the rest was read
	broken   atomic.Bool // reading the rest failed: the client's fault
	finished atomic.Bool // the handler has returned

	buffer *[]byte
	pool   *sync.Pool
	refs   atomic.Int32 // of whom the buffer is kept for: readers, and the handler
	kept   bool         // by the handler
}

// peek reads the beginning of the body of r. The body belongs to the handler
// until release.
func (h *Handler) peek(r *http.Request) (*requestBody, error) {
	b := &requestBody{pool: &h.shared.bodies, kept: true}
	b.refs.Store(1)
	if r.Body == nil || r.Body == http.NoBody {
		return b, nil
	}
	if h.Hasher == nil || r.ContentLength > int64(h.shared.maxPeek) || isMultipart(r.Header) {
		b.rest = r.Body // no signature to be had
		return b, nil
	}
	b.buffer = h.shared.bodies.Get().(*[]byte)
	data, whole, err := readUpTo((*b.buffer)[:0], r.Body, h.shared.maxPeek, int(r.ContentLength))
	*b.buffer, b.peeked = data, data
	if err != nil {
		b.release()
		return nil, err
	}
	if !whole {
		b.rest = r.Body
	}
	return b, nil
}

func isMultipart(h http.Header) bool { return strings.HasPrefix(h.Get("Content-Type"), "multipart/") }

// maxAhead is the most memory, in bytes, that a body gets because it says that it
// is so long. Beyond that it grows with what comes.
const maxAhead = 16 << 20

// readUpTo appends to dst what r has until its end, which must be seen for whole
// to be true, or until there is more than limit. The size is a guess, or
// negative.
func readUpTo(dst []byte, r io.Reader, limit, size int) (data []byte, whole bool, err error) {
	if need := min(size, maxAhead) + 1; cap(dst) < need { // one more, to see the end without growing
		dst = make([]byte, 0, need)
	}
	for len(dst) <= limit {
		if len(dst) == cap(dst) {
			dst = append(dst, make([]byte, max(4<<10, len(dst)))...)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if err == io.EOF {
			return dst, len(dst) <= limit, nil
		}
		if err != nil {
			return dst, false, err
		}
	}
	return dst, false, nil
}

// underWay says whether there may be more to come from the client.
func (b *requestBody) underWay() bool { return b.rest != nil && !b.ended.Load() }

// whole returns the body if all of it was read, else nil.
func (b *requestBody) whole() []byte {
	if b.rest != nil {
		return nil
	}
	return b.peeked
}

var (
	errSpent    = errors.New("reverseproxy: the request's body has been sent and was not kept")
	errFinished = errors.New("reverseproxy: request body read after the handler returned")
)

// open returns a reader of the body from its beginning, errSpent if part of it
// is gone. It has the form of http.Request.GetBody.
func (b *requestBody) open() (io.ReadCloser, error) {
	if b.touched.Load() || !b.ref() {
		return nil, errSpent
	}
	return &bodyReader{body: b, left: b.peeked}, nil
}

// ref is false if the buffer may be somebody else's already.
func (b *requestBody) ref() bool {
	for {
		n := b.refs.Load()
		if n == 0 {
			return false
		}
		if b.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// letGo says that the handler will make no further attempt.
func (b *requestBody) letGo() {
	if b.kept {
		b.kept = false
		b.unref()
	}
}

// release ends the use of the body by the handler.
func (b *requestBody) release() {
	b.finished.Store(true)
	b.letGo()
}

func (b *requestBody) unref() {
	if b.refs.Add(-1) == 0 && b.buffer != nil {
		b.pool.Put(b.buffer)
	}
}

// bodyReader reads a requestBody once. Close may come while a Read is under way.
type bodyReader struct {
	body *requestBody

	mu     sync.Mutex
	left   []byte // of what was peeked
	closed bool
}

// Read implements io.Reader.
func (r *bodyReader) Read(p []byte) (int, error) {
	n, err := r.readPeeked(p)
	if n > 0 || err != nil {
		return n, err
	}
	b := r.body
	if b.rest == nil || b.ended.Load() {
		// Asked again, the client's body might say something else: the server
		// closes it when it likes, once all of it was read. A transport does ask
		// again, and for anything but io.EOF gives up the connection together with
		// the answer (golang.org/issue/40747).
		return 0, io.EOF
	}
	if b.finished.Load() {
		return 0, errFinished
	}
	b.touched.Store(true)
	n, err = b.rest.Read(p)
	switch err {
	case nil:
	case io.EOF:
		b.ended.Store(true)
	default:
		b.broken.Store(true)
	}
	return n, err
}

// readPeeked is apart because the lock must not be held while a slow client is
// waited for.
func (r *bodyReader) readPeeked(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// Close implements io.Closer. The client's own body is the server's to close.
func (r *bodyReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed, r.left = true, nil
		r.body.unref()
	}
	return nil
}
