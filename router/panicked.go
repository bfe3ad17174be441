package router

import (
	"fmt"
	"runtime/debug"
)

// panicked is a panic of user code that was called for a request by somebody else:
// whoever made room while the request was held. It is the request's caller who
// has to see it; the others who wait must not suffer from it.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string {
	return fmt.Sprintf("router: panic while a request was held: %v\n\n%s", p.value, p.stack)
}

// Unwrap returns the value of the panic if it is an error.
func (p *panicked) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// caught calls f and returns its panic.
func caught(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{v, debug.Stack()}
		}
	}()
	f()
	return nil
}
