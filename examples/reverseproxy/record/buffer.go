package record

import (
	"bytes"
	"context"
	"fmt"
	"io"
)

// add puts a line where Run finds it.
func (r *Recorder) add(text []byte) {
	r.mu.Lock()
	if len(r.lines)+len(text) > r.limit {
		r.stats.Dropped++
		r.mu.Unlock()
		return
	}
	r.lines = append(r.lines, text...)
	r.stats.Recorded++
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // it was told already
	}
}

// Run writes lines as they come, in the order in which requests end, until the
// context is done; then it writes what is left and returns. It returns the first
// error of the writer: what was being written may end in the middle of a line, and
// what comes later waits in the buffer until that is full. Another Run may follow,
// with this writer or another, which continues the trace: after half a line it
// begins with a newline, so that only the half line has to be taken out of the file.
// Two at a time must not.
//
// The writer needs no buffer of its own: it is called once for all lines that came
// while it was busy.
func (r *Recorder) Run(ctx context.Context, w io.Writer) error {
	for last := false; !last; {
		select {
		case <-r.wake:
		case <-ctx.Done():
			last = true
		}
		if err := r.writeTo(w); err != nil {
			return err
		}
	}
	return nil
}

// writeTo writes what has come. Requests that end meanwhile fill the other buffer.
func (r *Recorder) writeTo(w io.Writer) error {
	r.mu.Lock()
	lines := r.lines
	r.lines = r.spare
	r.mu.Unlock()
	r.spare = lines[:0]
	if len(lines) == 0 {
		return nil
	}
	n, err := r.write(w, lines)
	if err != nil {
		lost := int64(bytes.Count(lines[n:], []byte("\n")))
		r.mu.Lock()
		r.stats.Recorded -= lost
		r.stats.Dropped += lost
		r.mu.Unlock()
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// write writes lines, on a new one if the last one was left unfinished. It returns
// how many bytes of them were written.
func (r *Recorder) write(w io.Writer, lines []byte) (int, error) {
	if r.torn {
		if _, err := w.Write([]byte("\n")); err != nil {
			return 0, err
		}
		r.torn = false
	}
	n, err := w.Write(lines)
	r.torn = n > 0 && lines[n-1] != '\n'
	return n, err
}
