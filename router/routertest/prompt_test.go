package routertest_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/warmroute/warmroute/router/routertest"
)

func TestParseText(t *testing.T) {
	for _, c := range []struct{ content, want string }{
		{`""`, ""},
		{`"plain"`, "plain"},
		{`"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t"},
		{`"a\n\u00e9\ud83d\ude00\ud800"`, "a\né😀\ufffd"},
		{`null`, ""},
		{`[]`, ""},
		{`[{"type":"text","text":"a\n"},{"type":"text","text":"b"}]`, "a\nb"},
		{`[{"text":"a\t"},{"text":"b\n\u00e9"},{"text":"\u0041\n"}]`, "a\tb\néA\n"},
		{`[{"type":"text","text":"a"},{"type":"image_url"},"s",{"text":null}]`, `a{"type":"image_url"}"s"{"text":null}`},
	} {
		if got, err := routertest.ParseText([]byte(c.content)); err != nil || got != c.want {
			t.Errorf("ParseText(%s) = %q, %v, want %q", c.content, got, err, c.want)
		}
	}
	for _, content := range []string{`5`, `{}`, `true`} {
		if got, err := routertest.ParseText([]byte(content)); err == nil {
			t.Errorf("ParseText(%s) = %q, want an error", content, got)
		}
	}
}

// Equal prefixes have equal blocks, and a block depends on all before it.
func TestParsePrompt_BlocksAreChained(t *testing.T) {
	blocks := func(prompt string) []uint64 {
		_, _, b, err := routertest.ParsePrompt([]byte(`{"max_tokens":1,"prompt":"`+prompt+`"}`), false)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	same := strings.Repeat("x", 640)
	base, longer, other := blocks(same), blocks(same+strings.Repeat("y", 64)), blocks("z"+same[1:])
	if len(base) != 10 || len(longer) != 11 || !slices.Equal(base, longer[:10]) {
		t.Errorf("%d and %d blocks, want 10 that begin 11", len(base), len(longer))
	}
	for i := range base {
		if base[i] == other[i] {
			t.Errorf("block %d is the same after another beginning", i)
		}
	}
	seen := map[uint64]bool{}
	for _, b := range base {
		if seen[b] {
			t.Error("equal text in two places has equal blocks")
		}
		seen[b] = true
	}
}

func FuzzParsePrompt(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url"}]}],"max_tokens":5}`), true)
	f.Add([]byte(`{"prompt":["a"],"max_completion_tokens":5}`), false)
	f.Add([]byte(`{"prompt":"\ud83d","cache_salt":"s","stream":true}`), false)
	f.Fuzz(func(t *testing.T, body []byte, chat bool) {
		tokens, maxTokens, blocks, err := routertest.ParsePrompt(body, chat)
		if err == nil && (tokens < 1 || maxTokens < 1 || len(blocks) > (tokens+maxTokens)/16) {
			t.Errorf("ParsePrompt(%q) = %d tokens, %d at most out, %d blocks", body, tokens, maxTokens, len(blocks))
		}
	})
}

// The engine's own reading of strings is encoding/json's.
func FuzzParseText(f *testing.F) {
	for _, s := range []string{"", "plain", `\"\\\/\n`, `\u00e9\ud83d\ude00`, `\ud800\n`, `\\u0041`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		quoted := []byte(`"` + s + `"`)
		if !json.Valid(quoted) || !utf8.ValidString(s) {
			return
		}
		var want string
		if err := json.Unmarshal(quoted, &want); err != nil {
			t.Fatal(err)
		}
		for _, content := range []string{string(quoted), `[{"text":` + string(quoted) + `}]`} {
			if got, err := routertest.ParseText([]byte(content)); err != nil || got != want {
				t.Errorf("ParseText(%s) = %q, %v, want %q", content, got, err, want)
			}
		}
	})
}
