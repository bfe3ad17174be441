package reverseproxy

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
)

// A Decoder appends the plain form of a body to dst. It must not make more of it
// than the limit, in bytes, and a little: a few kilobytes can become gigabytes.
// What it returns with an error is not used. It is called from many goroutines.
type Decoder func(dst, body []byte, limit int) ([]byte, error)

// ErrTooLarge says that a body is larger than the limit when it is decoded.
var ErrTooLarge = errors.New("reverseproxy: decoded body is too large")

// Gzip is the Decoder of the content codings gzip and x-gzip.
func Gzip(dst, body []byte, limit int) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	plain, whole, err := readUpTo(dst, z, limit, -1)
	if err == nil && !whole {
		err = ErrTooLarge
	}
	return plain, err
}

// decoder returns what decodes a content coding, nil if nothing does.
func (h *Handler) decoder(coding string) Decoder {
	coding = strings.ToLower(coding)
	if h.Decoders != nil {
		return h.Decoders[coding]
	}
	if coding == "gzip" || coding == "x-gzip" {
		return Gzip
	}
	return nil
}
