package workload

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"
)

// traceBlock is the size in tokens of the blocks that a trace's hash_ids name.
const traceBlock = 512

// TraceConfig says how to replay a trace.
type TraceConfig struct {
	Speedup float64 // divides all times; 0 means 1
	Limit   int     // keeps the first so many requests; 0 means all
}

// OpenTrace reads the trace in a file, see [ReadTrace].
func OpenTrace(path string, c TraceConfig) ([]Arrival, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	defer f.Close()
	arrivals, err := ReadTrace(f, c)
	if err != nil {
		return nil, fmt.Errorf("%w (in %s)", err, path)
	}
	return arrivals, nil
}

// ReadTrace reads a trace in the JSONL format that Mooncake publishes
// (https://github.com/kvcache-ai/Mooncake), plain or gzipped: a line a
// request, with its timestamp in milliseconds, input_length and output_length
// in tokens, and hash_ids, one for each 512 tokens of the prompt. The last one
// may cover less. Other fields are ignored, lines may come in any order.
//
// Such traces have coarse clocks. Requests with equal timestamps are spread
// evenly up to the next timestamp, those of the last one over as long as those
// of the one before; the first is at 0. The trace does not say who wrote
// what, so that all text is the user's; and it does not name the answers, so
// that no prompt holds one of them. Nor does it name conversations: a request
// belongs to that of the latest earlier request whose full blocks, two at
// least, it begins with.
func ReadTrace(r io.Reader, c TraceConfig) ([]Arrival, error) {
	if c.Speedup == 0 {
		c.Speedup = 1
	}
	if !(c.Speedup >= 1e-6 && c.Speedup <= 1e6) {
		return nil, fmt.Errorf("workload: Speedup %v is outside 1e-6 to 1e6", c.Speedup)
	}
	if c.Limit < 0 {
		return nil, fmt.Errorf("workload: Limit %d is negative", c.Limit)
	}
	lines, err := readLines(r)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(lines, func(a, b traceLine) int { return cmp.Compare(a.at, b.at) })
	spread(lines)
	if c.Limit > 0 && c.Limit < len(lines) {
		lines = lines[:c.Limit]
	}
	if span := lines[len(lines)-1].at - lines[0].at; float64(span)/c.Speedup > 1<<62 {
		return nil, fmt.Errorf("workload: Speedup %v stretches a trace of %v beyond 146 years", c.Speedup, span)
	}
	arrivals := make([]Arrival, len(lines))
	var s sessions
	for i, l := range lines {
		session, turn := s.continued(l)
		arrivals[i] = Arrival{
			At: time.Duration(float64(l.at-lines[0].at) / c.Speedup),
			Request: Request{
				Session: "session-" + strconv.Itoa(session), Turn: turn,
				Prompt: l.prompt(),
				Answer: Segment{identity(uint64(i), uint64(Assistant)), l.OutputLength, Assistant},
			},
		}
	}
	return arrivals, nil
}

// sessions finds out which requests of a trace belong together.
type sessions struct {
	byEnd map[uint64]int // by the last full block of a prompt, of which there is the hash of all before
	turns []int
}

// continued returns the session of a request, and its turn in it.
func (s *sessions) continued(l traceLine) (session, turn int) {
	full := l.HashIDs[:l.InputLength/traceBlock]
	session = -1
	for i := len(full) - 1; i > 0 && session < 0; i-- {
		if earlier, ok := s.byEnd[full[i]]; ok {
			session = earlier
		}
	}
	if session < 0 {
		session = len(s.turns)
		s.turns = append(s.turns, 0)
	}
	if len(full) > 1 {
		if s.byEnd == nil {
			s.byEnd = make(map[uint64]int)
		}
		s.byEnd[full[len(full)-1]] = session
	}
	turn = s.turns[session]
	s.turns[session]++
	return session, turn
}

type traceLine struct {
	Timestamp    float64  `json:"timestamp"` // milliseconds
	InputLength  int      `json:"input_length"`
	OutputLength int      `json:"output_length"`
	HashIDs      []uint64 `json:"hash_ids"`

	at time.Duration
}

func readLines(r io.Reader) ([]traceLine, error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("workload: trace: %w", err)
		}
		in = bufio.NewReader(z)
	}
	var lines []traceLine
	for number := 1; ; number++ {
		text, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("workload: trace line %d: %w", number, err)
		}
		if len(bytes.TrimSpace(text)) > 0 {
			l, bad := parseLine(text)
			if bad != nil {
				return nil, fmt.Errorf("workload: trace line %d: %w", number, bad)
			}
			lines = append(lines, l)
		}
		if err != nil {
			break
		}
	}
	if len(lines) == 0 {
		return nil, errors.New("workload: trace has no requests")
	}
	return lines, nil
}

func parseLine(text []byte) (traceLine, error) {
	var l traceLine
	if err := json.Unmarshal(text, &l); err != nil {
		return l, err
	}
	switch {
	case l.Timestamp < 0 || l.Timestamp > 4e12: // Unix time up to the year 2096 is fine
		return l, fmt.Errorf("timestamp %v is outside 0 to 4e12 milliseconds", l.Timestamp)
	case l.InputLength < 1:
		return l, fmt.Errorf("input_length %d, want at least 1", l.InputLength)
	case l.OutputLength < 1:
		return l, fmt.Errorf("output_length %d, want at least 1", l.OutputLength)
	case len(l.HashIDs) != (l.InputLength-1)/traceBlock+1:
		return l, fmt.Errorf("%d hash_ids for an input_length of %d, want one for each %d tokens",
			len(l.HashIDs), l.InputLength, traceBlock)
	}
	l.at = time.Duration(l.Timestamp * float64(time.Millisecond))
	return l, nil
}

// spread separates equal times of sorted lines.
func spread(lines []traceLine) {
	var gap time.Duration
	for from := 0; from < len(lines); {
		tick := lines[from].at
		to := from + 1
		for to < len(lines) && lines[to].at == tick {
			to++
		}
		if to < len(lines) {
			gap = lines[to].at - tick
		}
		step := gap / time.Duration(to-from)
		for i := from; i < to; i++ {
			lines[i].at += step * time.Duration(i-from)
		}
		from = to
	}
}

func (l traceLine) prompt() Prompt {
	segments := make([]Segment, len(l.HashIDs))
	left := l.InputLength
	for i, id := range l.HashIDs {
		n := min(left, traceBlock)
		segments[i] = Segment{identity(id), n, User}
		left -= n
	}
	return Prompt{segments}
}
