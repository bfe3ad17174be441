package reverseproxy

import "bytes"

// firstToken finds the moment at which a streamed answer begins to say
// something. Headers come before it, and in an event stream so may comments
// (sent to keep connections alive) and events that only announce the answer.
type firstToken struct {
	events bool // text/event-stream, else any byte will do

	line     [32]byte // beginning of the line under way
	length   int      // of it, as far as kept
	announce bool     // the event under way is an announcement
}

// announcements are events that engines send before they have computed
// anything.
var announcements = [...]string{"ping", "response.created", "response.queued", "response.in_progress"}

// in says whether the answer has begun with or before this piece.
func (f *firstToken) in(piece []byte) bool {
	if !f.events {
		return len(piece) > 0
	}
	for _, c := range piece {
		switch {
		case c == '\n':
			f.endLine()
		case f.length < len(f.line):
			f.line[f.length] = c
			f.length++
			if !f.announce && f.length == len("data:") && string(f.line[:f.length]) == "data:" {
				return true
			}
		}
	}
	return false
}

func (f *firstToken) endLine() {
	line := bytes.TrimSpace(f.line[:f.length])
	f.length = 0
	if name, ok := bytes.CutPrefix(line, []byte("event:")); ok {
		f.announce = isAnnouncement(bytes.TrimSpace(name))
	} else if len(line) == 0 {
		f.announce = false
	}
}

func isAnnouncement(event []byte) bool {
	for _, a := range announcements {
		if string(event) == a {
			return true
		}
	}
	return false
}
