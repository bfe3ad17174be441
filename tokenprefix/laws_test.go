package tokenprefix_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmroute/warmroute/tokenprefix"
)

const rounds = 500

var secret = []byte("0123456789abcdef0123456789abcdef")

func TestBody_EqualsReference(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for i := range rounds {
		q := randomRequest(r)
		h := &tokenprefix.Hasher{BlockTokens: []int{1, 3, 16, 256}[r.IntN(4)]}
		if i%4 == 0 {
			h.Key = secret
		}
		scope := tokenprefix.Scope{Tenant: randomText(r, 5)}
		if i%3 == 0 {
			scope.Model = "other"
		}
		want, _ := reference(h.BlockTokens, h.Key, scope, q)
		if got, _ := signed(t, h, scope, q.plain()); !same(got, want) {
			t.Fatalf("round %d: Body(%s) = %+v, want %+v", i, q.plain(), got, want)
		}
	}
}

func TestBody_SpellingDoesNotMatter(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for i := range rounds {
		q := randomRequest(r)
		want, _ := signed(t, fine(), tokenprefix.Scope{}, q.plain())
		body := respelled(r, q.value(r))
		if got, _ := signed(t, fine(), tokenprefix.Scope{}, body); !same(got, want) {
			t.Fatalf("round %d: Body(%s) = %+v, want %+v as of %s", i, body, got, want, q.plain())
		}
	}
}

func TestBody_NextTurnExtends(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	for i := range rounds {
		q := randomRequest(r)
		before, _ := signed(t, fine(), tokenprefix.Scope{}, respelled(r, q.value(r)))
		more := randomTurns(r, 3)
		q.Messages = append(slices.Clone(q.Messages), more[1], more[2])
		after, _ := signed(t, fine(), tokenprefix.Scope{}, respelled(r, q.value(r)))
		if !leads(before, after) || after.SystemBlocks != before.SystemBlocks || after.HistoryBlocks < len(before.Blocks) {
			t.Fatalf("round %d: next turn of %+v is %+v", i, before, after)
		}
	}
}

// TestBody_ChangeShowsFromItsBlockOn changes one thing in a request and expects
// every block before the change to stay, and no block behind it.
func TestBody_ChangeShowsFromItsBlockOn(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 4))
	for i := range rounds {
		q := randomRequest(r)
		changed := q.changed(r)
		a, _ := signed(t, fine(), tokenprefix.Scope{}, respelled(r, q.value(r)))
		b, _ := signed(t, fine(), tokenprefix.Scope{}, respelled(r, changed.value(r)))
		_, sa := reference(16, nil, tokenprefix.Scope{}, q)
		_, sb := reference(16, nil, tokenprefix.Scope{}, changed)
		at := 0
		for at < min(len(sa.bytes), len(sb.bytes)) && sa.bytes[at] == sb.bytes[at] {
			at++
		}
		if at == len(sa.bytes) && at == len(sb.bytes) {
			t.Fatalf("round %d: %s and %s have equal streams", i, q.plain(), changed.plain())
		}
		want := min(at/64, len(a.Blocks), len(b.Blocks))
		if shared(a, b) != want || a.Tail == b.Tail {
			t.Fatalf("round %d: change at byte %d leaves %d blocks, want %d; tails %x, %x", i, at, shared(a, b), want, a.Tail, b.Tail)
		}
		for _, h := range a.Blocks[want:] {
			if slices.Contains(b.Blocks[want:], h) {
				t.Fatalf("round %d: a block behind the change is the same", i)
			}
		}
	}
}

// changed returns a copy of the request with one cache-relevant thing changed.
func (q request) changed(r *rand.Rand) request {
	q.Messages = slices.Clone(q.Messages)
	q.Tools = slices.Clone(q.Tools)
	if len(q.Tools) > 0 && r.IntN(5) == 0 {
		t := &q.Tools[r.IntN(len(q.Tools))]
		switch r.IntN(3) {
		case 0:
			t.Name += "x"
		case 1:
			t.Description = "x" + t.Description
		default:
			t.Schema = append(slices.Clone(t.Schema), field{"more", "string"})
		}
		return q
	}
	m := &q.Messages[r.IntN(len(q.Messages))]
	m.Parts = slices.Clone(m.Parts)
	p := &m.Parts[r.IntN(len(m.Parts))]
	switch k := r.IntN(6); {
	case k == 0:
		m.Role += "x"
	case k == 1:
		m.Name += "x"
	case k == 2:
		m.CallID += "x"
	case k == 3:
		m.Parts = append(m.Parts, part{Text: "x"})
	case p.Image != "":
		p.Image += "x"
	default:
		at := r.IntN(len(p.Text) + 1)
		for at < len(p.Text) && p.Text[at]&0xc0 == 0x80 {
			at++ // not inside of a character
		}
		p.Text = p.Text[:at] + "#" + p.Text[at:]
	}
	return q
}

func TestBody_ScopeSeedsEverything(t *testing.T) {
	body := readBody(t, "chat_turn2.json")
	scopes := []tokenprefix.Scope{
		{},
		{Tenant: "a"}, {Model: "a"}, {Adapter: "a"}, {Salt: "a"},
		{Adapter: "a", Salt: "bc"}, {Adapter: "ab", Salt: "c"}, {Adapter: "abc"}, {Salt: "abc"},
		{Tenant: "ab", Model: "c"}, {Tenant: "a", Model: "bc"},
	}
	seen := map[uint64]int{}
	for i, s := range scopes {
		sig, _ := signed(t, fine(), s, body)
		for _, h := range append(sig.Blocks, sig.Tail) {
			if j, ok := seen[h]; ok {
				t.Errorf("scopes %+v and %+v share a value", s, scopes[j])
			}
			seen[h] = i
		}
	}
}

func TestBody_ScopeFromTheBody(t *testing.T) {
	const format = `{"model":"m","lora_path":"a","cache_salt":"s","tenant":"x","messages":[{"role":"user","content":"hello"}]}`
	want, _ := signed(t, fine(), tokenprefix.Scope{Model: "m", Adapter: "a", Salt: "s"}, []byte(`{"messages":[{"role":"user","content":"hello"}]}`))
	if got, _ := signed(t, fine(), tokenprefix.Scope{}, []byte(format)); !same(got, want) {
		t.Errorf("Body(%s) = %+v, want the scope taken from it, %+v", format, got, want)
	}
	want, _ = signed(t, fine(), tokenprefix.Scope{Tenant: "t", Model: "n", Adapter: "b", Salt: "u"}, []byte(`{"messages":[{"role":"user","content":"hello"}]}`))
	if got, _ := signed(t, fine(), tokenprefix.Scope{Tenant: "t", Model: "n", Adapter: "b", Salt: "u"}, []byte(format)); !same(got, want) {
		t.Errorf("Body(%s) = %+v, want the given scope to win, %+v", format, got, want)
	}
}
