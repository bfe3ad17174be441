package reverseproxy

import (
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/warmroute/warmroute/tokenprefix"
)

const (
	defaultMaxPeek      = 1 << 20
	defaultStallTimeout = time.Minute
)

// shared is what the requests of one handler have in common.
type shared struct {
	transport http.RoundTripper
	buffers   copyBuffers
	bodies    sync.Pool // *[]byte
	log       *log.Logger
	maxPeek   int
	stall     time.Duration // zero: leave the server's deadlines alone
}

func (h *Handler) prepare() {
	h.shared.transport = h.Transport
	if h.Transport == nil {
		h.shared.transport = NewTransport()
	}
	// ReverseProxy would log every client that leaves; hooks of the router see
	// the same with more of it.
	h.shared.log = log.New(io.Discard, "", 0)
	h.shared.maxPeek = min(h.MaxPeek, math.MaxInt-1) // a decoder may look one byte further
	if h.MaxPeek <= 0 {
		h.shared.maxPeek = defaultMaxPeek
	}
	h.shared.stall = max(0, h.StallTimeout)
	if h.StallTimeout == 0 {
		h.shared.stall = defaultStallTimeout
	}
	h.shared.bodies.New = func() any { return new([]byte) }
	h.scratch.New = func() any { return new(scratch) }
}

func (h *Handler) now() time.Time {
	if h.Now != nil {
		return h.Now()
	}
	return time.Now()
}

// scratch is memory that one request after the other uses.
type scratch struct {
	signature tokenprefix.Signature
	usage     usageTail
}

// NewTransport returns a transport with settings for inference engines. It is
// the caller's: change it before its first use.
func NewTransport() *http.Transport {
	return &http.Transport{
		DialContext: (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		// Engines that run under uvicorn, such as vLLM, close idle connections
		// after 5 s. The gateway has to close them first: a POST on a connection
		// that the engine is closing fails, and can't be repeated safely.
		IdleConnTimeout: 4 * time.Second,
		// The default of 2 would open a connection for almost every request.
		MaxIdleConnsPerHost:   1024,
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   5 * time.Second,
		ExpectContinueTimeout: time.Second,
		// An Accept-Encoding that the client didn't send would come back as a
		// changed answer.
		DisableCompression: true,
	}
}

// copyBuffers is the BufferPool of the proxies.
type copyBuffers struct{ pool sync.Pool }

const copyBufferSize = 32 << 10

// Get returns a buffer.
func (c *copyBuffers) Get() []byte {
	if b, ok := c.pool.Get().(*[copyBufferSize]byte); ok {
		return b[:]
	}
	return new([copyBufferSize]byte)[:]
}

// Put takes a buffer that Get returned.
func (c *copyBuffers) Put(b []byte) { c.pool.Put((*[copyBufferSize]byte)(b)) }
