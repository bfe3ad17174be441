// Package zstdbody decodes request bodies in the content coding zstd, which
// coding agents use for long ones, so that they are routed by their prefix like
// plain ones. It is a module of its own, for it needs a library that the rest
// does not.
//
//	handler.Decoders = map[string]reverseproxy.Decoder{"gzip": reverseproxy.Gzip, "zstd": zstdbody.New()}
package zstdbody

import (
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/warmroute/warmroute/examples/reverseproxy"
)

// maxWindow is the largest window that a decoder has to support according to
// RFC 8878, section 3.1.1.1.2. It bounds the memory of a decoder, whatever its
// frames claim.
const maxWindow = 8 << 20

// New returns a decoder for reverseproxy.Handler.Decoders.
func New() reverseproxy.Decoder {
	var decoders sync.Pool // *zstd.Decoder
	return func(dst, body []byte, limit int) ([]byte, error) {
		d, ok := decoders.Get().(*zstd.Decoder)
		if !ok {
			var err error
			// One at a time: without it a decoder has goroutines that only Close
			// ends.
			d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
			if err != nil {
				return nil, err
			}
		}
		defer decoders.Put(d)
		if err := d.Reset(bytes.NewReader(body)); err != nil {
			return nil, err
		}
		// The library's own limits are on windows and frames, not on the sum of
		// what comes out.
		out := bytes.NewBuffer(dst)
		n, err := io.Copy(out, io.LimitReader(d, int64(limit)+1))
		if err == nil && n > int64(limit) {
			err = reverseproxy.ErrTooLarge
		}
		d.Reset(nil) // lets go of the body
		return out.Bytes(), err
	}
}
