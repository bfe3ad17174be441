package workload

import "time"

// Request is one turn of a conversation.
type Request struct {
	Tenant  string // who pays; empty if the source does not say
	Session string // the conversation; empty if the source does not say
	Turn    int    // within the session, from 0

	// Prompt is the whole conversation up to this turn. It stays as it is when
	// later turns are made, and must not be modified.
	Prompt       Prompt
	OutputTokens int
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

// next makes the next turn: a message of the user, to which the assistant
// will answer with the output.
func (c *conversation) next(user, output int) Request {
	c.segments = append(c.segments, Segment{identity(c.id, uint64(c.turn), uint64(User)), user, User})
	n := len(c.segments)
	r := Request{
		Tenant: c.tenant, Session: c.session, Turn: c.turn,
		Prompt:       Prompt{c.segments[:n:n]},
		OutputTokens: output,
	}
	c.segments = append(c.segments, Segment{identity(c.id, uint64(c.turn), uint64(Assistant)), output, Assistant})
	c.turn++
	return r
}
