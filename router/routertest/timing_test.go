package routertest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/internal/engine"
)

// The delays of an engine are tested exactly: in a bubble, where time is virtual
// and nothing takes any, and without a network, which bubbles don't have.

// unserved starts an engine that listens nowhere and ends with the test.
func unserved(t *testing.T, c EngineConfig) *Engine {
	t.Helper()
	m, err := engine.New(engine.Config{KVTokens: c.KVCacheTokens})
	require.NoError(t, err)
	e := &Engine{
		config: c, wake: make(chan struct{}, 1), quit: make(chan struct{}),
		server: new(http.Server), model: m, epoch: time.Now(), jobs: make(map[int64]*job),
	}
	e.done.Go(e.drive)
	t.Cleanup(func() {
		close(e.quit)
		e.done.Wait()
	})
	return e
}

// piece is what a client receives at one moment.
type piece struct {
	at     time.Duration // since the request
	tokens int           // in total
}

func (p piece) String() string { return fmt.Sprintf("%d tokens at %v", p.tokens, p.at) }

// client notes when it receives something.
type client struct {
	*httptest.ResponseRecorder
	sent   time.Time
	pieces []piece
}

func (c *client) Write(b []byte) (int, error) {
	n, err := c.ResponseRecorder.Write(b)
	c.pieces = append(c.pieces, piece{time.Since(c.sent), strings.Count(c.Body.String(), answerToken)})
	return n, err
}

// Unwrap is for http.ResponseController.
func (c *client) Unwrap() http.ResponseWriter { return c.ResponseRecorder }

// ask sends a completion and returns what the client received when, and its text.
func ask(ctx context.Context, e *Engine, body string) ([]piece, string) {
	c := &client{ResponseRecorder: httptest.NewRecorder(), sent: time.Now()}
	e.handler().ServeHTTP(c, httptest.NewRequestWithContext(ctx, "POST", "/v1/completions", strings.NewReader(body)))
	return c.pieces, c.Body.String()
}

// tokenTimes returns when an idle engine generates the tokens of an answer, in
// model time.
func tokenTimes(t *testing.T, promptTokens, outputTokens int) []time.Duration {
	t.Helper()
	m, err := engine.New(engine.Config{})
	require.NoError(t, err)
	require.NoError(t, m.Submit(0, engine.Request{PromptTokens: promptTokens, OutputTokens: outputTokens, Stream: true}))
	var times []time.Duration
	for {
		end, busy := m.Next()
		if !busy {
			return times
		}
		for _, ev := range m.Step(end, nil) {
			if ev.OutputTokens > len(times) {
				times = append(times, ev.At)
			}
		}
	}
}

// real is the real time, in whole nanoseconds, after which model time has come.
func real(model time.Duration, speed int) time.Duration {
	return (model + time.Duration(speed) - 1) / time.Duration(speed)
}

// pieces returns what a client of a stream should receive: the first token at
// once, then what has come together in 10 ms, or the next token if none has, and
// the last token at once.
func pieces(times []time.Duration, speed int) []piece {
	last := real(times[len(times)-1], speed)
	want := []piece{{real(times[0], speed), 1}}
	for n := 1; n < len(times); {
		at := max(want[len(want)-1].at+10*time.Millisecond, real(times[n], speed))
		at = min(at, last)
		for n < len(times) && real(times[n], speed) <= at {
			n++
		}
		want = append(want, piece{at, n})
	}
	return want
}

func completionBody(promptTokens, outputTokens int, stream bool) string {
	return fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"stream":%v}`, strings.Repeat("four", promptTokens), outputTokens, stream)
}

func TestEngine_StreamsAtTheTimesOfTheModel(t *testing.T) {
	for _, c := range []struct{ speed, prompt, output int }{
		{1, 30_000, 20},  // each token by itself
		{10, 30_000, 60}, // six or seven tokens together
		{1000, 100, 300},
		{1000, 100, 2}, // the last token does not wait for 10 ms
	} {
		synctest.Test(t, func(t *testing.T) {
			e := unserved(t, EngineConfig{Speed: float64(c.speed)})
			got, text := ask(t.Context(), e, completionBody(c.prompt, c.output, true))
			require.Equal(t, pieces(tokenTimes(t, c.prompt, c.output), c.speed), got, "%+v", c)
			require.True(t, strings.HasSuffix(text, "\n\ndata: [DONE]\n\n"), text)
		})
	}
}

// The only token is the first and the last at once; whichever the answer notices
// first, a client gets all of it.
func TestEngine_StreamsOfOneTokenEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := unserved(t, EngineConfig{Speed: 10})
		for range 50 {
			got, text := ask(t.Context(), e, completionBody(1, 1, true))
			require.Equal(t, pieces(tokenTimes(t, 1, 1), 10), got)
			require.Contains(t, text, `"finish_reason":"length"`)
			require.True(t, strings.HasSuffix(text, "\n\ndata: [DONE]\n\n"), text)
		}
	})
}

func TestEngine_AnswersAtTheTimeOfTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := unserved(t, EngineConfig{Speed: 10})
		got, _ := ask(t.Context(), e, completionBody(5000, 30, false))
		times := tokenTimes(t, 5000, 30)
		if want := (piece{real(times[29], 10), 30}); len(got) != 1 || got[0] != want {
			t.Errorf("received %v, want %v", got, want)
		}
	})
}

// Model time goes on while there is nothing to do, and is not made up for.
func TestEngine_StaysIdleBetweenRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := unserved(t, EngineConfig{Speed: 10})
		first, _ := ask(t.Context(), e, completionBody(1, 5, false))
		time.Sleep(time.Hour)
		second, _ := ask(t.Context(), e, completionBody(1, 5, false))
		if second[0] != first[0] {
			t.Errorf("an hour later an equal request takes %v, want %v", second[0], first[0])
		}
		if s := e.Stats(); s.Busy != 2*tokenTimes(t, 1, 5)[4] {
			t.Errorf("busy for %v, want %v", s.Busy, 2*tokenTimes(t, 1, 5)[4])
		}
	})
}

func TestEngine_CancelsAtOnce(t *testing.T) {
	for _, stream := range []bool{true, false} {
		for _, after := range []time.Duration{time.Second, 5 * time.Second} { // in the prefill, in the decoding
			synctest.Test(t, func(t *testing.T) {
				e := unserved(t, EngineConfig{Speed: 1})
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				sent := time.Now()
				ask(ctx, e, completionBody(30_000, 10_000, stream))
				if took := time.Since(sent); took != after {
					t.Errorf("stream %v: the handler returned after %v, want %v", stream, took, after)
				}
				if s := e.Stats(); s.Running != 0 || s.KVCacheUsage != 0 {
					t.Errorf("stream %v, cancelled after %v: %+v, want nothing running", stream, after, s)
				}
			})
		}
	}
}
