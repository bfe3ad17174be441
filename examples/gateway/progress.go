package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress shows on a terminal how far a run is. Elsewhere it shows nothing.
type progress struct {
	terminal io.Writer // nil: none
	name     string
}

func newProgress(w io.Writer, name string) *progress {
	p := &progress{name: name}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.terminal = f
		}
	}
	return p
}

// progressEvery is the time between two looks at a run.
const progressEvery = 500 * time.Millisecond

// follow shows the progress of a run until the function that it returns is
// called.
func (p *progress) follow(c clock, l load, m *measurement) (stop func()) {
	if p.terminal == nil {
		return func() {}
	}
	done := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() {
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				fmt.Fprint(p.terminal, "\r\x1b[K")
				return
			case <-ticker.C:
				fmt.Fprint(p.terminal, "\r\x1b[K", p.line(c.elapsed(), l, m))
			}
		}
	})
	return func() {
		close(done)
		shown.Wait()
	}
}

// recent is how many of the latest requests the live figures are about.
const recent = 500

func (p *progress) line(now time.Duration, l load, m *measurement) string {
	share := 100 * l.progress(now, m)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.samples) == 0 {
		return fmt.Sprintf("%-12s %3.0f %%  warming up, %d requests", p.name, share, m.total)
	}
	var ttft time.Duration
	prompt, cached := 0, 0
	latest := m.samples[max(0, len(m.samples)-recent):]
	for _, s := range latest {
		ttft += s.ttft
		prompt += s.promptTokens
		cached += s.cachedTokens
	}
	return fmt.Sprintf("%-12s %3.0f %%  %d requests, lately TTFT %v, hit rate %.1f %%", p.name, share, m.total,
		(ttft / time.Duration(len(latest))).Round(time.Millisecond), 100*ratio(float64(cached), float64(prompt)))
}
