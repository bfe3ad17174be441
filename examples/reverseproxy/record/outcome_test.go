package record_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/examples/reverseproxy/record"
	"github.com/warmroute/warmroute/router"
)

// deaf is a client whose connection is broken.
type deaf struct{ *httptest.ResponseRecorder }

func (deaf) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// A client that closes its connection when it has the whole answer has not
// abandoned anything, whatever the handler makes of it; one that closes it before
// has, even if the handler answers all the same.
func TestRecorder_AbandonedOrWhole(t *testing.T) {
	abort := func() { panic(http.ErrAbortHandler) }
	length := func(w http.ResponseWriter, n int) { w.Header().Set("Content-Length", fmt.Sprint(n)) }
	for _, c := range []struct {
		name, want string
		deaf       bool
		serve      func(w http.ResponseWriter, leave func())
	}{
		{"whole, then left", "answered 200", false, func(w http.ResponseWriter, leave func()) {
			length(w, 10)
			io.WriteString(w, "01234")
			io.WriteString(w, "56789")
			leave()
		}},
		{"whole, then left before the engine said so", "answered 200", false, func(w http.ResponseWriter, leave func()) {
			length(w, 5)
			io.WriteString(w, "01234")
			leave()
			abort()
		}},
		{"refused, then left", "refused 429", false, func(w http.ResponseWriter, leave func()) {
			length(w, 5)
			w.WriteHeader(http.StatusTooManyRequests)
			io.WriteString(w, "01234")
			leave()
		}},
		{"stream, then left", "answered 200", false, func(w http.ResponseWriter, leave func()) {
			io.WriteString(w, "data: a\n\n")
			leave()
		}},
		{"no body, then left", "answered 200", false, func(w http.ResponseWriter, leave func()) {
			w.WriteHeader(http.StatusOK)
			leave()
		}},
		{"left before", "abandoned 0", false, func(_ http.ResponseWriter, leave func()) { leave() }},
		{"left before, answered by the gateway", "abandoned 502", false, func(w http.ResponseWriter, leave func()) {
			leave()
			length(w, 5)
			w.WriteHeader(http.StatusBadGateway)
			io.WriteString(w, "01234")
		}},
		{"left in the middle", "abandoned 200", false, func(w http.ResponseWriter, leave func()) {
			length(w, 10)
			io.WriteString(w, "01234")
			leave()
			io.WriteString(w, "56789")
		}},
		{"left before the rest", "abandoned 200", false, func(w http.ResponseWriter, leave func()) {
			length(w, 10)
			io.WriteString(w, "01234")
			leave()
		}},
		{"left in a stream", "abandoned 200", false, func(w http.ResponseWriter, leave func()) {
			io.WriteString(w, "data: a\n\n")
			leave()
			abort()
		}},
		{"does not take it", "abandoned 200", true, func(w http.ResponseWriter, _ func()) {
			length(w, 5)
			io.WriteString(w, "01234")
			abort()
		}},
		{"engine broke off", "broken 200", false, func(w http.ResponseWriter, _ func()) {
			length(w, 10)
			io.WriteString(w, "01234")
			abort()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRecorder(t, record.Config{})
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			h := r.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				r.Refine(req, nil, &router.Request{Prefix: tokens(256, 900)})
				c.serve(w, leave)
			}))
			w := http.ResponseWriter(httptest.NewRecorder())
			if c.deaf {
				w = deaf{httptest.NewRecorder()}
			}
			func() {
				defer func() { recover() }()
				h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
			}()
			l := parse(t, written(t, r))[0]
			if got := fmt.Sprint(l.Outcome, " ", l.Status); got != c.want {
				t.Errorf("recorded as %s, want %s", got, c.want)
			}
		})
	}
}

// filling is a disk that becomes full after some bytes, until there is room again.
type filling struct {
	bytes.Buffer
	room int
}

func (f *filling) Write(p []byte) (int, error) {
	n := min(len(p), f.room)
	f.room -= n
	f.Buffer.Write(p[:n])
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

// Half a line is the only one that is lost to a reader: the next Run begins
// another, and the lines before it count as recorded.
func TestRecorder_HalfALine(t *testing.T) {
	r := newRecorder(t, record.Config{Salt: []byte("sixteen bytes or more")})
	serve(r, tokens(256, 900), ok)
	size := len(written(t, r))
	disk := &filling{room: size + size/2}
	serve(r, tokens(256, 900), ok)
	serve(r, tokens(256, 900), ok)
	serve(r, tokens(256, 900), ok)
	require.ErrorIs(t, r.Run(t.Context(), disk), errFull)
	if got := r.Stats(); got != (record.Stats{Recorded: 2, Dropped: 2}) {
		t.Errorf("Stats() = %+v, want 2 recorded, 2 dropped", got)
	}
	serve(r, tokens(256, 900), ok)
	require.ErrorIs(t, r.Run(t.Context(), disk), errFull) // not even a newline fits
	disk.room = 1 << 20
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 { // the newline comes once
		serve(r, tokens(256, 900), ok)
		require.NoError(t, r.Run(ctx, disk))
	}
	if got := r.Stats(); got != (record.Stats{Recorded: 4, Dropped: 3}) {
		t.Errorf("Stats() = %+v, want 4 recorded, 3 dropped", got)
	}
	lines := strings.Split(strings.TrimSuffix(disk.String(), "\n"), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines, want 4: %s", len(lines), disk.String())
	}
	for i, text := range lines {
		if whole := strings.HasSuffix(text, "}"); whole != (i != 1) {
			t.Errorf("line %d is %s", i, text)
		}
	}
}
