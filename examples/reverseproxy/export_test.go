package reverseproxy

import "github.com/warmroute/warmroute/loadstats"

// ReadUsage is what is found at the end of an answer that arrives in pieces.
func ReadUsage(pieces ...[]byte) (prompt, cached loadstats.Count) {
	var t usageTail
	for _, p := range pieces {
		t.add(p)
	}
	u := t.read()
	return u.prompt, u.cached
}

// FirstTokenIn is the number of the piece in which an event stream begins to say
// something, or -1.
func FirstTokenIn(pieces ...[]byte) int {
	f := firstToken{events: true}
	for i, p := range pieces {
		if f.in(p) {
			return i
		}
	}
	return -1
}

// FindID is the id found in an answer that arrives in pieces.
func FindID(pieces ...[]byte) string {
	var f idFinder
	for _, p := range pieces {
		f.add(p)
	}
	return f.id
}

// Remember and Find open the table for tests.
func (t *ResponseTable) Remember(tenant, id, endpoint string) { t.remember(tenant, id, endpoint) }
func (t *ResponseTable) Find(tenant, id string) string        { return t.find(tenant, id) }

// CopyBuffers lets the benchmark give the bare proxy the same buffers.
type CopyBuffers = copyBuffers
