package tokenprefix_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/warmroute/warmroute/tokenprefix"
)

// FuzzBody checks, on any bytes, that Body does not panic or change them, that
// it takes all valid JSON, that a body without a signature leaves nothing behind,
// and that white space and a reused Signature make no difference.
func FuzzBody(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "bodies", "*"))
	must(f, err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		must(f, err)
		f.Add(b)
	}
	for _, s := range []string{
		`{"messages":[{"role":"user","content":"\ud83d\ude00\ud800\udc00\udfff\u0000\/\\u0041"}]}`,
		`{"messages":[{"content":[{"type":"image","source":{"data":"a"}},[1],"x",null]}],"system":[{}]}`,
		`{"input":[{"type":"function_call_output","output":[{"type":"input_image","image_url":"u"}]}],"conversation":{"id":1}}`,
		`{"prompt":[[1,2],[3]],"lora":[{}],"max_tokens":99999999999}`,
		"\ufeff {\"prompt\" : { \"prompt_string\" : \"x\" } } x",
		`{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `,"prompt":"` + strings.Repeat(`\"`, 200) + `"}`,
		`{"tools":{"a":{"b":{"c":{"d":{"e":{"content":[1]}}}}}},"messages":[{}]}`,
	} {
		f.Add([]byte(s))
	}
	h := &tokenprefix.Hasher{BlockTokens: 2}
	hooked := &tokenprefix.Hasher{BlockTokens: 2, Key: secret, Volatile: func(text []byte) int { return len(text)/2 + len(text)%2*100 }}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		var sig tokenprefix.Signature
		m, err := h.Body(&sig, tokenprefix.Scope{}, body)
		if !bytes.Equal(body, before) {
			t.Fatal("Body changed the body")
		}
		if err != nil && json.Valid(body) {
			t.Fatalf("Body of valid JSON: %v", err)
		}
		if (err != nil) != (m.Absence == tokenprefix.AbsenceMalformed) {
			t.Fatalf("Body = %v, %v", m.Absence, err)
		}
		if has := m.Absence == tokenprefix.AbsenceNone; has != (sig.Tail != 0) || has != (sig.Tokens > 0) || !has && len(sig.Blocks) > 0 {
			t.Fatalf("Body = %v with %+v", m.Absence, &sig)
		}
		if sig.SystemBlocks > len(sig.Blocks) || sig.HistoryBlocks > len(sig.Blocks) {
			t.Fatalf("Body = %+v", &sig)
		}
		if _, again := hooked.Body(&sig, tokenprefix.Scope{}, body); (again != nil) != (err != nil) {
			t.Fatalf("Body = %v, and %v with a hook", err, again)
		}
		_, _ = h.Body(&sig, tokenprefix.Scope{}, body)
		if !json.Valid(body) {
			return
		}
		var spaced, packed bytes.Buffer
		must(t, json.Indent(&spaced, body, " ", "\t"))
		must(t, json.Compact(&packed, body))
		for _, spelling := range [][]byte{spaced.Bytes(), packed.Bytes()} {
			var other tokenprefix.Signature
			if _, err := h.Body(&other, tokenprefix.Scope{}, spelling); err != nil || !same(&other, &sig) {
				t.Fatalf("Body(%s) = %+v, %v, want %+v", spelling, &other, err, &sig)
			}
		}
	})
}

// FuzzBody_Strings checks that two spellings of strings have one signature if
// and only if they decode to the same text.
func FuzzBody_Strings(f *testing.F) {
	for _, s := range [][2]string{
		{`a`, `\u0061`},
		{`/`, `\/`},
		{`\n`, `\u000A`},
		{`\\u0041`, `\u005cu0041`},
		{`\ud83d\uDE00`, "😀"},
		{`\"`, `\u0022`},
		{`\\\\\\/`, `\\\\\/`},
		{strings.Repeat("x", 40) + `\/`, strings.Repeat("x", 40) + `/`},
	} {
		f.Add(s[0], s[1])
	}
	h := &tokenprefix.Hasher{BlockTokens: 2}
	f.Fuzz(func(t *testing.T, a, b string) {
		var x, y string
		if json.Unmarshal([]byte(`"`+a+`"`), &x) != nil || json.Unmarshal([]byte(`"`+b+`"`), &y) != nil {
			return
		}
		if !utf8.ValidString(a) || !utf8.ValidString(b) || strings.Contains(x+y, "\ufffd") {
			return // encoding/json has one rune for all that is not UTF-8
		}
		if x == "" || y == "" {
			return // no prompt
		}
		sa, _ := signed(t, h, tokenprefix.Scope{}, []byte(`{"prompt":"`+a+`"}`))
		sb, _ := signed(t, h, tokenprefix.Scope{}, []byte(`{"prompt":"`+b+`"}`))
		if same(sa, sb) != (x == y) {
			t.Fatalf("prompts %q and %q have one signature: %v, want %v", a, b, x != y, x == y)
		}
		if plain, _ := signed(t, h, tokenprefix.Scope{}, marshal(map[string]string{"prompt": x})); !same(plain, sa) {
			t.Fatalf("prompt %q = %+v, want %+v as when spelled plainly", a, sa, plain)
		}
		// The same, in a value that is taken as JSON.
		ra, _ := signed(t, h, tokenprefix.Scope{}, []byte(`{"prompt":{"`+a+`":["`+b+`"]}}`))
		rb, _ := signed(t, h, tokenprefix.Scope{}, objectPrompt(x, y))
		if !same(ra, rb) {
			t.Fatalf("{%q:[%q]} = %+v, want %+v as when spelled plainly", a, b, ra, rb)
		}
	})
}

// objectPrompt returns a body with a prompt that is an object of the two texts.
func objectPrompt(key, value string) []byte {
	return marshal(map[string]any{"prompt": map[string]any{key: []string{value}}})
}
