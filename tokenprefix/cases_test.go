package tokenprefix_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/warmroute/warmroute/tokenprefix"
)

// C74: of a key given twice the last counts, as in Python, for the model and for
// the prompt alike, however the key is spelled. A key in another case is another
// key, unlike in encoding/json.
func TestC74_OneRuleForKeys(t *testing.T) {
	h := fine()
	want, _ := signed(t, h, tokenprefix.Scope{}, []byte(`{"model":"acme/other-70b","messages":[{"role":"user","content":"two"}]}`))
	for _, body := range []string{
		string(readBody(t, "chat_duplicate_keys.json")),
		`{"mod\u0065l":"acme/chat-8b","model":"acme/other-70b","messages":[{"role":"user","content":"one"}],"m\u0065ssages":[{"role":"user","content":"two"}]}`,
		`{"model":"acme/other-70b","Model":"x","messages":[{"role":"user","content":"two"}],"Messages":[{"role":"user","content":"one"}],"MESSAGES":[]}`,
		`{"model":"acme/other-70b","messages":[{"role":"system","role":"user","content":"one","content":"two","Content":"x"}]}`,
		`{"messages":"x","model":7,"model":"acme/other-70b","messages":[{"role":"user","content":"two"}]}`,
	} {
		if got, m := signed(t, h, tokenprefix.Scope{}, []byte(body)); !same(got, want) || string(m.Model) != "acme/other-70b" {
			t.Errorf("Body(%s) = %+v, model %s; want %+v", body, got, m.Model, want)
		}
	}
	var sig tokenprefix.Signature
	if m, err := h.Body(&sig, tokenprefix.Scope{}, []byte(`{"Messages":[{"role":"user","content":"two"}]}`)); err != nil || m.Absence == tokenprefix.AbsenceNone {
		t.Errorf("Body with Messages alone = %v, %v, want no signature", m.Absence, err)
	}
}

// C24: what lies behind the prompt in the same memory stays as it is, and prompts
// that differ in their second block differ from there on, whoever else reads them.
func TestC24_NeighboursStay(t *testing.T) {
	page := bytes.Repeat([]byte("You are the help desk. "), 6000)[:128<<10]
	text := page[:64<<10] // of a larger array
	before := bytes.Clone(page)
	other := bytes.Clone(text)
	h := &tokenprefix.Hasher{}
	other[1024+5] ^= 1 // in block 1
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			var a, b, c tokenprefix.Signature
			h.Text(&a, tokenprefix.Scope{}, text)
			h.Text(&b, tokenprefix.Scope{}, other)
			h.Text(&c, tokenprefix.Scope{}, page[64<<10:])
			if shared(&a, &b) != 1 || len(a.Blocks) != len(b.Blocks) {
				t.Errorf("%d of %d blocks shared, want 1", shared(&a, &b), len(a.Blocks))
			}
			for i := 1; i < len(a.Blocks); i++ {
				if a.Blocks[i] == b.Blocks[i] {
					t.Errorf("block %d is the same behind a difference", i)
				}
			}
		})
	}
	group.Wait()
	if !bytes.Equal(page, before) {
		t.Error("Text has written to its input or behind it")
	}
	for _, name := range []string{"chat_basic.json", "chat_turn2.json", "anthropic_tools_thinking.json", "completions_token_ids.json"} {
		b := readBody(t, name)
		buf := append(bytes.Clone(b), bytes.Repeat([]byte{0xaa}, 4096)...)
		var sig tokenprefix.Signature
		_, err := h.Body(&sig, tokenprefix.Scope{}, buf[:len(b)])
		must(t, err)
		if !bytes.Equal(buf[:len(b)], b) || len(bytes.Trim(buf[len(b):], "\xaa")) != 0 {
			t.Errorf("Body(%s) has written to its input or behind it", name)
		}
	}
}

// C29: 10 MB of picture are hashed as they lie there; another last byte is another
// picture.
func TestC29_LargePictures(t *testing.T) {
	picture := func(last string) []byte {
		return []byte(`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
			strings.Repeat("iVBO", 10<<18) + last + `"}},{"type":"text","text":"What is it?"}]}]}`)
	}
	a, b := picture("AAAA"), picture("AAAB")
	h := &tokenprefix.Hasher{}
	x, _ := signed(t, h, tokenprefix.Scope{}, a)
	y, _ := signed(t, h, tokenprefix.Scope{}, b)
	if x.Tail == y.Tail {
		t.Errorf("two pictures have one signature")
	}
	var sig tokenprefix.Signature
	if n := testing.AllocsPerRun(3, func() { h.Body(&sig, tokenprefix.Scope{}, a) }); n != 0 {
		t.Errorf("Body of 10 MB allocates %v times", n)
	}
}

// Samples whose signature nothing else states.
func TestInputs_Stated(t *testing.T) {
	hi, _ := signed(t, fine(), tokenprefix.Scope{}, []byte(`{"model":"acme/chat-8b","messages":[{"role":"user","content":"hi"}]}`))
	for _, name := range []string{"chat_trailing_garbage.json", "chat_deep_nesting_ignored_field.json"} {
		if got, _ := sample(t, name); !same(got, hi) {
			t.Errorf("Body(%s) = %+v, want that of its first document without the rest, %+v", name, got, hi)
		}
	}
	a, m := sample(t, "chat_invalid_utf8.json")
	b, _ := signed(t, fine(), tokenprefix.Scope{}, bytes.ReplaceAll(readBody(t, "chat_invalid_utf8.json"), []byte{0xe9}, []byte("e")))
	if a.Tail == b.Tail || string(m.Model) != "acme/chat-8b" {
		t.Error("bytes that are no UTF-8 take no part")
	}
	// The query of a remote image counts (documented at Hasher.Body).
	u := readBody(t, "chat_image_remote_url.json")
	i := bytes.IndexByte(u, '?')
	if i < 0 {
		t.Fatal("no query in the sample")
	}
	changed := bytes.Clone(u)
	changed[i+1]++
	x, _ := signed(t, fine(), tokenprefix.Scope{}, u)
	y, _ := signed(t, fine(), tokenprefix.Scope{}, changed)
	if x.Tail == y.Tail {
		t.Error("the query of a remote image takes no part")
	}
	// Tools come before the turns, as engines render them. Without those the string
	// input is a leading part of the items, as INDEX.md has it.
	s, _ := sample(t, "responses_string_input.json")
	items := readBody(t, "responses_item_input.json")
	l, _ := signed(t, fine(), tokenprefix.Scope{}, bytes.Replace(items, []byte(`"tools"`), []byte(`"x_tools"`), 1))
	if !leads(s, l) {
		t.Errorf("string input shares %d of %d blocks with the items", shared(s, l), len(s.Blocks))
	}
	d, _ := sample(t, "chat_developer_role.json")
	e, _ := signed(t, fine(), tokenprefix.Scope{}, bytes.Replace(readBody(t, "chat_developer_role.json"), []byte(`"developer"`), []byte(`"system"`), 1))
	if c, _ := sample(t, "chat_basic.json"); !same(e, c) || same(d, c) {
		t.Error("chat_developer_role differs from chat_basic by more than its role")
	}
}
