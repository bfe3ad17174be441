package record

import (
	"encoding/json"
	"math"
	"time"
)

// line is a request in a trace. The first four fields are those of Mooncake's
// traces (https://github.com/kvcache-ai/Mooncake), with fractions of a
// millisecond; readers of such traces ignore the others. Times are in
// milliseconds.
type line struct {
	Timestamp    float64  `json:"timestamp"` // since the recorder was made
	InputLength  int      `json:"input_length"`
	OutputLength int      `json:"output_length"`
	HashIDs      []uint64 `json:"hash_ids"`

	Outcome string  `json:"outcome"`          // answered, refused, broken, abandoned
	Status  int     `json:"status,omitempty"` // of HTTP
	TTFT    float64 `json:"ttft,omitempty"`   // until the answer's body began
	E2E     float64 `json:"e2e"`              // until it ended

	// What the engine says in its usage, if it does. Input lengths are estimates:
	// a token there is as long as tokenprefix.Hasher.BytesPerToken says.
	PromptTokens *int `json:"prompt_tokens,omitempty"`
	CachedTokens *int `json:"cached_tokens,omitempty"`
}

// record writes down a request that has ended.
func (r *Recorder) record(at time.Time, p *prompt, a *answer, outcome string) {
	if len(p.hashes) == 0 {
		r.mu.Lock()
		r.stats.Skipped++
		r.mu.Unlock()
		return
	}
	l := line{
		Timestamp: millis(at.Sub(r.start)), InputLength: p.tokens, OutputLength: a.outputTokens(), HashIDs: p.hashes,
		Outcome: outcome, Status: a.status, E2E: millis(r.now().Sub(at)),
	}
	if !a.first.IsZero() {
		l.TTFT = millis(a.first.Sub(at))
	}
	if n, ok := a.promptTokens(); ok {
		l.PromptTokens = &n
	}
	if n, ok := a.cachedTokens(); ok {
		l.CachedTokens = &n
	}
	text, _ := json.Marshal(&l) // numbers always have a JSON form
	r.add(append(text, '\n'))
}

// millis is a time in milliseconds, to the microsecond.
func millis(d time.Duration) float64 {
	return math.Round(float64(max(0, d))/1e3) / 1e3
}
