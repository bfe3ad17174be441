package reverseproxy

import (
	"bytes"
	"strings"
	"sync"

	"github.com/warmroute/warmroute/tokenprefix"
)

// ResponseTable remembers which endpoint holds which response. Requests of the
// Responses API that continue an earlier one name it by an id; its history is in
// the memory of the engine that made it, and no hash of the id leads there. A
// request that names an unknown response is routed like any other. If the holder
// has left, so is one that names a known response: the engine that gets it will
// not find it.
//
// Ids of conversations are remembered in the same way. A tenant finds only its
// own. The table forgets the least recently used, roughly. The zero value is
// ready to use and remembers about 65,536 ids. It is safe for concurrent use and
// must not be copied.
type ResponseTable struct {
	// Size is about how many ids are remembered. Zero means 65,536.
	Size int

	mu         sync.Mutex
	young, old map[responseKey]string
}

type responseKey struct{ tenant, id string }

const defaultResponses = 1 << 16

// maxResponseID bounds what a table keeps of one id.
const maxResponseID = 128

func (t *ResponseTable) remember(tenant, id, endpoint string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(responseKey{tenant, id}, endpoint)
}

// put works on two generations: when the young one has half the size, it becomes
// the old one, and what nobody has asked for since is gone.
func (t *ResponseTable) put(k responseKey, endpoint string) {
	size := t.Size
	if size <= 0 {
		size = defaultResponses
	}
	if t.young == nil || len(t.young) >= size-size/2 {
		t.old, t.young = t.young, make(map[responseKey]string)
	}
	t.young[k] = endpoint
}

// find returns the ID of the endpoint that holds what has the given id, or "".
func (t *ResponseTable) find(tenant, id string) string {
	if id == "" || len(id) > maxResponseID {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	k := responseKey{tenant, id}
	if e := t.young[k]; e != "" {
		return e
	}
	e := t.old[k]
	if e != "" {
		t.put(k, e)
	}
	return e
}

// holder returns the ID of the endpoint that a request depends on, or "".
func (t *ResponseTable) holder(tenant, path string, meta *tokenprefix.Meta) string {
	for _, id := range [...]string{string(meta.PreviousResponseID), string(meta.Conversation), idInPath(path)} {
		if e := t.find(tenant, id); e != "" {
			return e
		}
	}
	return ""
}

// idInPath returns the id in paths such as /v1/responses/resp_1/cancel, or "".
func idInPath(path string) string {
	for _, resource := range [...]string{"/responses/", "/conversations/"} {
		if _, rest, ok := strings.Cut(path, resource); ok {
			id, _, _ := strings.Cut(rest, "/")
			return id
		}
	}
	return ""
}

// idFinder finds the id at the beginning of an answer: in the object itself, or
// in the first event of its stream.
type idFinder struct {
	head []byte
	id   string
}

// idWindow is how much of an answer is searched for its id, which engines put
// first or close to it.
const idWindow = 2 << 10

// newIDFinder returns a finder for the answers to requests that create something
// with an id, else nil.
func newIDFinder(path string) *idFinder {
	path = strings.TrimSuffix(path, "/")
	if strings.HasSuffix(path, "/responses") || strings.HasSuffix(path, "/conversations") {
		return new(idFinder)
	}
	return nil
}

// add looks at a piece of the answer, and says if the id has been found in it.
func (f *idFinder) add(piece []byte) bool {
	if f.id != "" || len(f.head) >= idWindow {
		return false
	}
	f.head = append(f.head, piece[:min(len(piece), idWindow-len(f.head))]...)
	_, rest, ok := bytes.Cut(f.head, []byte(`"id"`))
	if !ok {
		return false
	}
	rest = bytes.TrimLeft(rest, " :")
	if len(rest) == 0 || rest[0] != '"' {
		return false
	}
	id, _, ok := bytes.Cut(rest[1:], []byte(`"`))
	if !ok || len(id) == 0 || len(id) > maxResponseID {
		return false
	}
	f.id = string(id)
	return true
}
