package tokenprefix

import (
	"errors"
	"fmt"
)

// Errors that [Hasher.Body] wraps; match them with [errors.Is].
var (
	// ErrSyntax says that the body is not JSON: it has a byte where none such
	// can be. Not all that is not JSON is noticed, see [Hasher.Body].
	ErrSyntax = errors.New("tokenprefix: body is not JSON")
	// ErrTruncated says that the body ends before its object, list or string
	// does, as when a gateway has read only the first part of it.
	ErrTruncated = errors.New("tokenprefix: body ends early")
)

// A fault is a kind of defect in a body.
type fault uint8

const (
	faultNone fault = iota
	faultSyntax
	faultTruncated
)

// error returns the error for the fault that the scanner found, or nil.
func (s *scanner) error() error {
	switch s.err {
	case faultNone:
		return nil
	case faultTruncated:
		return fmt.Errorf("%w: after %d bytes", ErrTruncated, len(s.b))
	default:
		return fmt.Errorf("%w: unexpected %q at byte %d", ErrSyntax, s.b[s.errAt], s.errAt)
	}
}
