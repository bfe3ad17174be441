package workload

import "time"

// Request is one turn of a conversation.
type Request struct {
	Tenant  string // who pays; empty if the source does not say
	Session string // the conversation; empty if the source does not say
	Turn    int    // within the session, from 0

	// Prompt is the whole conversation up to this turn. It stays as it is when
	// later turns are made, and must not be modified.
	Prompt Prompt
	Answer Segment // what comes back; the next turn's prompt holds it
}

// EngineBlocks appends the hashes of the full blocks of the prompt and the
// answer after it to dst and returns it: what an engine will have cached when
// it is done.
func (r Request) EngineBlocks(dst []uint64, blockTokens int) []uint64 {
	c := newChain(dst, blockTokens)
	c.add(r.Prompt.Segments...)
	c.add(r.Answer)
	return c.blocks
}

// Arrival is a request that comes at a given time whatever became of those
// before it.
type Arrival struct {
	At time.Duration // since the start of the workload
	Request
}

// conversation is a session in progress. Prompts of its turns share the
// segments, to which turns are only ever appended.
type conversation struct {
	tenant, session string
	id              uint64
	segments        []Segment
	turn, turns     int
}

func (c *conversation) over() bool { return c.turn == c.turns }

// next makes the next turn: a message of the user and the answer to it.
func (c *conversation) next(user, answer int) Request {
	c.segments = append(c.segments,
		Segment{identity(c.id, uint64(c.turn), uint64(User)), user, User},
		Segment{identity(c.id, uint64(c.turn), uint64(Assistant)), answer, Assistant})
	n := len(c.segments) - 1
	r := Request{
		Tenant: c.tenant, Session: c.session, Turn: c.turn,
		Prompt: Prompt{c.segments[:n:n]},
		Answer: c.segments[n],
	}
	c.turn++
	return r
}
