package engine

import (
	"fmt"
	"time"
)

// Config holds the constants of an engine. The zero value of a field is its
// default; together the defaults describe roughly a 70 billion parameter
// model on four H100: 30,000 uncached tokens take 3 s alone, and one decode
// step of ten sequences with 12,000 tokens each takes 20 ms.
//
// All times are integers, so that a simulation gives the same answer on every
// architecture, whatever its floating point does. A term cannot be switched
// off, only made as small as 1 ns.
type Config struct {
	KVTokens    int // KV cache capacity in tokens, rounded down to whole blocks; 0 means 400,000
	BlockTokens int // size of a KV block in tokens; 0 means 16
	BatchTokens int // tokens an iteration may compute (max_num_batched_tokens); 0 means 2,048
	MaxRunning  int // sequences that may run at once (max_num_seqs); 0 means 256

	IterationTime time.Duration // fixed part of every iteration; 0 means 15 ms
	PrefillTime   time.Duration // per prompt token computed; 0 means 75 µs
	AttentionTime time.Duration // per million pairs of a prompt token and a token before it; 0 means 1.1 ms
	SequenceTime  time.Duration // per sequence that decodes; 0 means 50 µs
	ResidentTime  time.Duration // per KV token of a sequence that decodes; 0 means 35 ns
}

// WithDefaults returns c with each zero field replaced by its default.
func (c Config) WithDefaults() Config {
	c.KVTokens = orDefault(c.KVTokens, 400_000)
	c.BlockTokens = orDefault(c.BlockTokens, 16)
	c.BatchTokens = orDefault(c.BatchTokens, 2_048)
	c.MaxRunning = orDefault(c.MaxRunning, 256)
	c.IterationTime = orDefault(c.IterationTime, 15*time.Millisecond)
	c.PrefillTime = orDefault(c.PrefillTime, 75*time.Microsecond)
	c.AttentionTime = orDefault(c.AttentionTime, 1_100*time.Microsecond)
	c.SequenceTime = orDefault(c.SequenceTime, 50*time.Microsecond)
	c.ResidentTime = orDefault(c.ResidentTime, 35*time.Nanosecond)
	return c
}

func orDefault[T int | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// validate checks a Config whose defaults are filled in.
func (c Config) validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"KVTokens", c.KVTokens},
		{"BlockTokens", c.BlockTokens},
		{"BatchTokens", c.BatchTokens},
		{"MaxRunning", c.MaxRunning},
	} {
		if f.value < 0 {
			return fmt.Errorf("engine: %s %d is negative", f.name, f.value)
		}
	}
	if c.KVTokens < c.BlockTokens {
		return fmt.Errorf("engine: KVTokens %d is less than one block of %d tokens", c.KVTokens, c.BlockTokens)
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"IterationTime", c.IterationTime},
		{"PrefillTime", c.PrefillTime},
		{"AttentionTime", c.AttentionTime},
		{"SequenceTime", c.SequenceTime},
		{"ResidentTime", c.ResidentTime},
	} {
		// A minute is beyond any hardware and keeps the sums far from overflow.
		if f.value < 0 || f.value > time.Minute {
			return fmt.Errorf("engine: %s %v is outside 0 to 1m", f.name, f.value)
		}
	}
	return nil
}
