package tokenprefix_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/tokenprefix"
)

func TestVolatile_SamplesMeet(t *testing.T) {
	h := &tokenprefix.Hasher{BlockTokens: 16, Volatile: tokenprefix.SkipVolatile}
	for _, pair := range [][2]string{
		{"anthropic_billing_nonce_a.json", "anthropic_billing_nonce_b.json"},
		{"chat_timestamp_first_a.json", "chat_timestamp_first_b.json"},
	} {
		a, _ := signed(t, h, tokenprefix.Scope{}, readBody(t, pair[0]))
		b, _ := signed(t, h, tokenprefix.Scope{}, readBody(t, pair[1]))
		if !same(a, b) {
			t.Errorf("%s and %s: %+v and %+v, want the same", pair[0], pair[1], a, b)
		}
		off, _ := sample(t, pair[0])
		if a.Tokens < off.Tokens-1 || a.Tokens > off.Tokens+1 {
			t.Errorf("%s: %d tokens, want %d: what is left out still has to be computed", pair[0], a.Tokens, off.Tokens)
		}
	}
}

func TestVolatile_WholePartLeavesNoTrace(t *testing.T) {
	h := &tokenprefix.Hasher{BlockTokens: 16, Volatile: tokenprefix.SkipVolatile}
	with := readBody(t, "anthropic_billing_nonce_a.json")
	nonce := []byte(`{"type":"text","text":"x-anthropic-billing-header: cc_version=9.9.9.0a1; cc_entrypoint=cli; cch=0a1b2;"},`)
	without := bytes.Replace(with, nonce, nil, 1)
	if len(without) != len(with)-len(nonce) {
		t.Fatal("the sample has no such part")
	}
	a, _ := signed(t, h, tokenprefix.Scope{}, with)
	b, _ := signed(t, h, tokenprefix.Scope{}, without)
	if shared(a, b) != len(b.Blocks) || a.Tail != b.Tail {
		t.Errorf("Body = %+v with the nonce, %+v without, want the same blocks", a, b)
	}
}

// TestVolatile_HookSeesTheText records what the hook is shown.
func TestVolatile_HookSeesTheText(t *testing.T) {
	long := strings.Repeat("é\n", 3000)
	for _, test := range []struct {
		name, body string
		skip       []int // results in order; then 0
		shown      []string
	}{
		{
			"first text only", `{"messages":[{"role":"system","content":"a\n\"b\""},{"role":"user","content":"c"}]}`,
			nil, []string{"a\n\"b\""},
		},
		{
			"next one after a whole part", `{"messages":[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]}`,
			[]int{1, 100}, []string{"a", "b", "c"},
		},
		{"not behind an image", `{"messages":[{"content":[{"type":"image_url","image_url":"u"},{"type":"text","text":"a"}]}]}`, nil, nil},
		{"decoded", `{"prompt":"\u0041\/\ud83d\ude00\ud800\\"}`, nil, []string{"A/😀\\ud800\\"}},
		{"negative", `{"prompt":"abc"}`, []int{-5}, []string{"abc"}},
		{"its first 4 KiB", string(marshal(map[string]string{"prompt": long})), nil, []string{long[:4096]}},
		{"an empty text", `{"prompt":["","b"]}`, nil, []string{""}},
	} {
		var shown []string
		h := &tokenprefix.Hasher{Volatile: func(text []byte) int {
			shown = append(shown, string(text))
			if n := len(shown); n <= len(test.skip) {
				return test.skip[n-1]
			}
			return 0
		}}
		signed(t, h, tokenprefix.Scope{}, []byte(test.body))
		if strings.Join(shown, "|") != strings.Join(test.shown, "|") || len(shown) != len(test.shown) {
			t.Errorf("%s: hook was shown %q, want %q", test.name, shown, test.shown)
		}
	}
}

// TestVolatile_SkippingIsLikeLeavingOut compares skipping n bytes with a text
// that does not have them.
func TestVolatile_SkippingIsLikeLeavingOut(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for range 500 {
		runes := []rune(randomText(r, 300))
		cut := r.IntN(len(runes))
		text, rest := string(runes), string(runes[cut:])
		h := &tokenprefix.Hasher{BlockTokens: 4, Volatile: func([]byte) int { return len(text) - len(rest) }}
		got, _ := signed(t, h, tokenprefix.Scope{}, respelled(r, object{members: []objectField{{"prompt", text}}}))
		want, _ := signed(t, &tokenprefix.Hasher{BlockTokens: 4}, tokenprefix.Scope{}, respelled(r, object{members: []objectField{{"prompt", rest}}}))
		if shared(got, want) != len(want.Blocks) || got.Tail != want.Tail {
			t.Fatalf("skipping %d bytes of %q = %+v, want %+v", len(text)-len(rest), text, got, want)
		}
		var a, b tokenprefix.Signature
		h.Text(&a, tokenprefix.Scope{}, []byte(text))
		(&tokenprefix.Hasher{BlockTokens: 4}).Text(&b, tokenprefix.Scope{}, []byte(rest))
		if whole := (len(text) + 2) / 4; a.Tokens != max(whole, 1) {
			t.Fatalf("Text skipping some of %d bytes = %d tokens, want %d", len(text), a.Tokens, whole)
		}
		if a.Tail != b.Tail {
			t.Fatalf("Text skipping %d bytes of %q has tail %x, want %x", len(text)-len(rest), text, a.Tail, b.Tail)
		}
	}
}

func TestSkipVolatile_KnowsLines(t *testing.T) {
	const rest = "You are the help desk.\nNow: 2026-11-30"
	for _, line := range []string{
		"",
		"Now: 2026-11-30T21:04:05.123Z (trace req-7f3a)\n",
		"The time is 21:04:05.\n",
		"x-anthropic-billing-header: cc_version=9.9.9; cch=0a1b2;\n",
		"x-anthropic-billing-header: " + strings.Repeat("x", 300) + "\nDate: 2026-11-30\n",
	} {
		if got := tokenprefix.SkipVolatile([]byte(line + rest)); got != len(line) {
			t.Errorf("SkipVolatile(%q) = %d, want %d", line+rest, got, len(line))
		}
	}
	for _, text := range []string{
		"", "1234-5-67", "12:34", "You are, at 21:04:05, " + strings.Repeat("a long line ", 20),
		"Answer x-anthropic-billing-header: no",
	} {
		if got := tokenprefix.SkipVolatile([]byte(text)); got != 0 {
			t.Errorf("SkipVolatile(%q) = %d, want 0", text, got)
		}
	}
	if got := tokenprefix.SkipVolatile([]byte("Date: 2026-11-30")); got != 16 {
		t.Errorf("SkipVolatile of a date alone = %d, want all of it", got)
	}
}
