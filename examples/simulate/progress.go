package main

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// progress tells a terminal how far the simulations are, in one line that is
// overwritten.
type progress struct {
	w io.Writer // nil: nobody is there

	mu        sync.Mutex
	all, over int
}

func newProgress(w io.Writer, quiet bool) *progress {
	f, ok := w.(*os.File)
	if quiet || !ok {
		return &progress{}
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return &progress{}
	}
	return &progress{w: w}
}

func (p *progress) start(simulations int) { p.all = simulations }

func (p *progress) done(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over++
	if p.w != nil {
		fmt.Fprintf(p.w, "\r\x1b[K%d of %d simulated, last %s", p.over, p.all, name)
	}
}

func (p *progress) end() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
