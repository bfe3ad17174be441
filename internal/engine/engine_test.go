package engine_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmroute/warmroute/internal/engine"
)

func newEngine(t testing.TB, c engine.Config) *engine.Engine {
	t.Helper()
	e, err := engine.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func submit(t testing.TB, e *engine.Engine, at time.Duration, r engine.Request) {
	t.Helper()
	if err := e.Submit(at, r); err != nil {
		t.Fatal(err)
	}
}

// drain steps e until it is idle and returns all events.
func drain(e *engine.Engine) []engine.Event {
	var events []engine.Event
	for at, busy := e.Next(); busy; at, busy = e.Next() {
		events = e.Step(at, events)
	}
	return events
}

// find returns the event of the given kind and request.
func find(t testing.TB, events []engine.Event, k engine.Kind, id int64) engine.Event {
	t.Helper()
	for _, ev := range events {
		if ev.Kind == k && ev.ID == id {
			return ev
		}
	}
	t.Fatalf("no %v of request %d in %v", k, id, events)
	return engine.Event{}
}

func prompt(id int64, blocks []uint64, tokens, output int) engine.Request {
	return engine.Request{ID: id, Blocks: blocks, PromptTokens: tokens, OutputTokens: output}
}

func TestEngine_ColdPromptOf30000TokensTakesThreeSeconds(t *testing.T) {
	e := newEngine(t, engine.Config{})
	submit(t, e, 0, prompt(1, chained(nil, 0, 1875, 7), 30_000, 1))
	got := find(t, drain(e), engine.FirstToken, 1).At
	// 15 iterations of 15 ms, 30,000 tokens of 75 µs, 30,000²/2 pairs of 1.1 ns.
	want := 15*15*time.Millisecond + 30_000*75*time.Microsecond + 495*time.Millisecond
	if d := (got - want).Abs(); d > time.Microsecond { // each iteration rounds down
		t.Errorf("first token after %v, want %v", got, want)
	}
}

func TestEngine_WarmPromptComputesTheRestOnly(t *testing.T) {
	e := newEngine(t, engine.Config{})
	blocks := chained(nil, 0, 1875, 7)
	submit(t, e, 0, prompt(1, blocks, 30_000, 1))
	drain(e)
	submit(t, e, time.Minute, prompt(2, blocks, 30_000, 1))
	ev := find(t, drain(e), engine.FirstToken, 2)
	if want := 30_000 - 16; ev.CachedTokens != want {
		t.Errorf("cached tokens = %d, want %d: the last token is always computed", ev.CachedTokens, want)
	}
	pairs := 16 * (29_984 + 8)
	want := 15*time.Millisecond + 16*75*time.Microsecond + time.Duration(pairs)*1100/1000
	if got := ev.At - time.Minute; got != want {
		t.Errorf("first token after %v, want %v", got, want)
	}
}

func TestEngine_DecodeStepOfTenLongSequencesTakes20Milliseconds(t *testing.T) {
	e := newEngine(t, engine.Config{})
	for id := range int64(10) {
		submit(t, e, 0, prompt(id, chained(nil, 0, 750, uint64(id)), 12_000, 100))
	}
	var events []engine.Event
	for {
		at, _ := e.Next()
		events = e.Step(at, events[:0])
		if n := len(events); n > 0 && events[n-1].Kind == engine.FirstToken && events[n-1].ID == 9 {
			end, _ := e.Next()
			if got := end - at; got < 19500*time.Microsecond || got > 20*time.Millisecond {
				t.Errorf("decode step of ten sequences of 12,000 tokens = %v, want about 19.7ms", got)
			}
			return
		}
	}
}

func TestEngine_DecodeTakesPrecedenceOverPrefill(t *testing.T) {
	e := newEngine(t, engine.Config{BatchTokens: 8})
	submit(t, e, 0, prompt(1, nil, 8, 100))
	submit(t, e, 0, prompt(2, nil, 14, 1))
	events := drain(e)
	// Request 1 takes iteration 1 whole; then one token of eight is its own, so
	// that the 14 tokens of request 2 take two iterations more.
	first := find(t, events, engine.FirstToken, 2)
	if want := 3*15*time.Millisecond + 22*75*time.Microsecond; first.At < want || first.At > want+time.Millisecond {
		t.Errorf("first token of the second request at %v, want just after %v", first.At, want)
	}
}

func TestEngine_GoldenScenario(t *testing.T) {
	e := newEngine(t, engine.Config{
		KVTokens: 64, BlockTokens: 4, BatchTokens: 16, MaxRunning: 2,
		IterationTime: 10, PrefillTime: 1, AttentionTime: 1_000_000, SequenceTime: 3, ResidentTime: 1,
	})
	shared := []uint64{1, 2, 3}
	submit(t, e, 0, engine.Request{ID: 1, Blocks: shared, PromptTokens: 14, OutputTokens: 3, Stream: true})
	submit(t, e, 5, prompt(2, append(shared, 4, 5), 20, 2))
	submit(t, e, 6, prompt(3, []uint64{9}, 4, 1))
	want := []engine.Event{
		// Iteration 1: 10 + 14 + 14·7 pairs = 122.
		{Kind: engine.Admitted, ID: 1, At: 0},
		{Kind: engine.FirstToken, ID: 1, At: 122, OutputTokens: 1},
		// Iteration 2: request 2 finds 12 tokens and computes 8, beside a decode
		// with 15 tokens: 10 + 8 + 8·(12+4) + 3 + 15 = 164.
		{Kind: engine.Admitted, ID: 2, At: 122, CachedTokens: 12},
		{Kind: engine.Token, ID: 1, At: 286, OutputTokens: 2},
		{Kind: engine.FirstToken, ID: 2, At: 286, CachedTokens: 12, OutputTokens: 1},
		// Iteration 3: two decodes, 10 + 6 + 16 + 21 = 53; request 3 has no place yet.
		{Kind: engine.Done, ID: 1, At: 339, OutputTokens: 3},
		{Kind: engine.Done, ID: 2, At: 339, CachedTokens: 12, OutputTokens: 2},
		// Iteration 4: 10 + 4 + 4·2 = 22.
		{Kind: engine.Admitted, ID: 3, At: 339},
		{Kind: engine.FirstToken, ID: 3, At: 361, OutputTokens: 1},
		{Kind: engine.Done, ID: 3, At: 361, OutputTokens: 1},
	}
	if got := drain(e); !slices.Equal(got, want) {
		t.Errorf("events =\n%+v, want\n%+v", got, want)
	}
	total := engine.Stats{
		KVTokens: 64, IdleTokens: 24,
		PrefixQueries: 38, PrefixHits: 12, PromptTokens: 38, GenerationTokens: 6,
		Finished: 3, Iterations: 4, Busy: 361,
	}
	if got := e.Stats(); got != total {
		t.Errorf("Stats() =\n%+v, want\n%+v", got, total)
	}
}

func TestEngine_IdleBlocksGoLeastRecentlyReleasedFirstAndFromTheEnd(t *testing.T) {
	e := newEngine(t, engine.Config{KVTokens: 10, BlockTokens: 1})
	for i, head := range []uint64{10, 20} { // two prompts of four blocks
		submit(t, e, 0, prompt(int64(i), []uint64{head, head + 1, head + 2, head + 3}, 4, 1))
		drain(e)
	}
	cached := func(head uint64) int { return e.Cached([]uint64{head, head + 1, head + 2, head + 3}) }
	submit(t, e, 0, prompt(3, []uint64{30}, 1, 3)) // needs 4 of 10 blocks, 2 are free
	if got, want := [2]int{cached(10), cached(20)}, [2]int{2, 4}; got != want {
		t.Errorf("cached tokens = %v, want %v: the tail of the older prompt is gone", got, want)
	}
}

func TestEngine_NextTurnFindsTheAnswerCached(t *testing.T) {
	e := newEngine(t, engine.Config{})
	blocks := chained(nil, 0, 100, 7)
	submit(t, e, 0, prompt(1, blocks[:80], 1_000, 280)) // 1,280 tokens, of which the last is not computed
	drain(e)
	submit(t, e, time.Minute, prompt(2, blocks, 1_600, 1))
	if got, want := find(t, drain(e), engine.Admitted, 2).CachedTokens, 79*16; got != want {
		t.Errorf("cached tokens = %d, want %d", got, want)
	}
}

func TestEngine_CancelFreesPlaceAndMemory(t *testing.T) {
	e := newEngine(t, engine.Config{KVTokens: 100, BlockTokens: 1, BatchTokens: 10})
	submit(t, e, 0, prompt(1, chained(nil, 0, 50, 1), 50, 40))
	submit(t, e, 0, prompt(2, nil, 50, 40))
	submit(t, e, 0, prompt(3, nil, 5, 1))
	at, _ := e.Next()
	e.Step(at, nil)
	if s := e.Stats(); s.Running != 1 || s.Waiting != 2 || s.HeldTokens != 90 {
		t.Fatalf("Stats() = %+v, want 1 running, 2 waiting, 90 tokens held", s)
	}
	if !e.Cancel(at, 2) { // waiting, in the way of request 3
		t.Error("Cancel(waiting request) = false")
	}
	if !e.Cancel(at, 1) { // running, two chunks computed or in the making
		t.Error("Cancel(running request) = false")
	}
	if e.Cancel(at, 1) || e.Cancel(at, 99) {
		t.Error("Cancel(unknown request) = true")
	}
	if s := e.Stats(); s.Running != 0 || s.Waiting != 1 || s.HeldTokens != 0 || s.IdleTokens != 10 {
		t.Errorf("Stats() after Cancel = %+v, want only request 3 waiting and the first chunk idle", s)
	}
	events := drain(e)
	if got := len(events); got != 3 || events[0].ID != 3 {
		t.Errorf("events after Cancel = %v, want those of request 3", events)
	}
	submit(t, e, time.Hour, prompt(1, nil, 1, 1)) // the ID is free again
}

func TestEngine_LateStepsCatchUpWithoutStretchingIterations(t *testing.T) {
	run := func(late time.Duration) time.Duration {
		e := newEngine(t, engine.Config{})
		submit(t, e, 0, prompt(1, nil, 10_000, 20))
		var events []engine.Event
		for at, busy := e.Next(); busy; at, busy = e.Next() {
			events = e.Step(at+late, events)
		}
		return find(t, events, engine.Done, 1).At
	}
	if got, want := run(time.Second), run(0); got != want {
		t.Errorf("end with late steps = %v, want %v", got, want)
	}
}

func TestEngine_StepBeforeTheEndChangesNothing(t *testing.T) {
	e := newEngine(t, engine.Config{})
	if got := e.Step(time.Hour, nil); got != nil {
		t.Errorf("Step of an idle engine = %v, want none", got)
	}
	submit(t, e, time.Hour, prompt(1, nil, 10, 1))
	end, _ := e.Next()
	if got := e.Step(end-1, nil); got != nil {
		t.Errorf("Step before the end = %v, want none", got)
	}
	if after, busy := e.Next(); after != end || !busy {
		t.Errorf("Next() = %v, %v, want %v, true", after, busy, end)
	}
}

func TestSubmit_RefusesWhatCannotRun(t *testing.T) {
	e := newEngine(t, engine.Config{KVTokens: 160})
	submit(t, e, 0, prompt(1, nil, 10, 10))
	before := e.Stats()
	for _, tt := range []struct {
		name string
		r    engine.Request
		want string
	}{
		{"no prompt", prompt(2, nil, 0, 1), "request 2: 0 prompt tokens"},
		{"no output", prompt(3, nil, 1, -1), "request 3: -1 output tokens"},
		{"more blocks than prompt", prompt(4, []uint64{1}, 14, 1), "1 blocks of 16 tokens in 15 tokens of prompt and output"},
		{"too large", prompt(5, nil, 150, 11), "150 prompt and 11 output tokens: request exceeds the KV cache of 160"},
		{"sum beyond int", prompt(6, nil, math.MaxInt, math.MaxInt), "exceeds the KV cache"},
		{"ID in use", prompt(1, nil, 1, 1), "request 1 is already queued or running"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := e.Submit(0, tt.r)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Submit(%+v) = %v, want an error with %q", tt.r, err, tt.want)
			}
			if got, want := errors.Is(err, engine.ErrTooLarge), strings.Contains(tt.want, "exceeds"); got != want {
				t.Errorf("errors.Is(%v, ErrTooLarge) = %v, want %v", err, got, want)
			}
		})
	}
	if got := e.Stats(); got != before {
		t.Errorf("Stats() after refusals = %+v, want %+v", got, before)
	}
}

func TestNew_RefusesBadConfig(t *testing.T) {
	for _, tt := range []struct {
		c    engine.Config
		want string
	}{
		{engine.Config{KVTokens: -1}, "engine: KVTokens -1 is negative"},
		{engine.Config{BlockTokens: -1}, "engine: BlockTokens -1 is negative"},
		{engine.Config{BatchTokens: -5}, "engine: BatchTokens -5 is negative"},
		{engine.Config{MaxRunning: -2}, "engine: MaxRunning -2 is negative"},
		{engine.Config{KVTokens: 15}, "engine: KVTokens 15 is less than one block of 16 tokens"},
		{engine.Config{PrefillTime: -1}, "engine: PrefillTime -1ns is outside 0 to 1m"},
		{engine.Config{AttentionTime: time.Hour}, "engine: AttentionTime 1h0m0s is outside 0 to 1m"},
	} {
		if _, err := engine.New(tt.c); err == nil || err.Error() != tt.want {
			t.Errorf("New(%+v) = %v, want %q", tt.c, err, tt.want)
		}
	}
}

func TestEngine_SetSpeed(t *testing.T) {
	e, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := engine.Request{ID: 1, PromptTokens: 4096, OutputTokens: 1}
	if err := e.Submit(0, r); err != nil {
		t.Fatal(err)
	}
	full, _ := e.Next()
	if err := e.SetSpeed(0.5); err != nil {
		t.Fatal(err)
	}
	if got, _ := e.Next(); got != full {
		t.Errorf("the iteration under way ends at %v, before the engine got slower at %v", got, full)
	}
	e.Step(full, nil)
	end, _ := e.Next()
	r.ID = 2
	other, err := engine.New(engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Submit(0, r); err != nil {
		t.Fatal(err)
	}
	other.Step(full, nil)
	if normal, _ := other.Next(); end-full != 2*(normal-full) {
		t.Errorf("the next one takes %v, want twice %v", end-full, normal-full)
	}
	for _, speed := range []float64{0, -1, 0.001, 101, math.NaN(), math.Inf(1)} {
		if e.SetSpeed(speed) == nil {
			t.Errorf("SetSpeed(%v): no error", speed)
		}
	}
}
