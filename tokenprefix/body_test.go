package tokenprefix_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/tokenprefix"
)

// fine is a Hasher whose blocks of 64 bytes show where small bodies part.
func fine() *tokenprefix.Hasher { return &tokenprefix.Hasher{BlockTokens: 16} }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func readBody(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "bodies", name))
	must(t, err)
	return b
}

// signed returns the signature of a body, which must have one, after checking
// what holds for every signature.
func signed(t *testing.T, h *tokenprefix.Hasher, s tokenprefix.Scope, body []byte) (*tokenprefix.Signature, tokenprefix.Meta) {
	t.Helper()
	before := bytes.Clone(body)
	var sig tokenprefix.Signature
	m, err := h.Body(&sig, s, body)
	must(t, err)
	if !bytes.Equal(body, before) {
		t.Fatalf("Body changed the body to %q", body)
	}
	if m.Absence != tokenprefix.AbsenceNone || sig.Tail == 0 || sig.Tokens <= 0 {
		t.Fatalf("Body(%.80q) = %v, tail %x, %d tokens, want a signature", body, m.Absence, sig.Tail, sig.Tokens)
	}
	if sig.SystemBlocks > len(sig.Blocks) || sig.HistoryBlocks > len(sig.Blocks) {
		t.Fatalf("Body(%.80q): %d system and %d history of %d blocks", body, sig.SystemBlocks, sig.HistoryBlocks, len(sig.Blocks))
	}
	return &sig, m
}

func sample(t *testing.T, name string) (*tokenprefix.Signature, tokenprefix.Meta) {
	t.Helper()
	return signed(t, fine(), tokenprefix.Scope{}, readBody(t, name))
}

// shared returns how many leading blocks a and b have in common.
func shared(a, b *tokenprefix.Signature) int {
	n := 0
	for n < min(len(a.Blocks), len(b.Blocks)) && a.Blocks[n] == b.Blocks[n] {
		n++
	}
	return n
}

func same(a, b *tokenprefix.Signature) bool {
	return slices.Equal(a.Blocks, b.Blocks) && a.Tail == b.Tail && a.Tokens == b.Tokens &&
		a.SystemBlocks == b.SystemBlocks && a.HistoryBlocks == b.HistoryBlocks
}

// leads reports whether a is a leading part of b, and not all of it.
func leads(a, b *tokenprefix.Signature) bool {
	return shared(a, b) == len(a.Blocks) && a.Tail != b.Tail
}

func TestBody_SamplesThatAreEqual(t *testing.T) {
	for _, group := range [][]string{
		{
			"chat_basic.json", "chat_basic_reformatted.json", "chat_parts_text_only.json", "chat_bom.json",
			"chat_routing_fields.json", "chat_routing_fields_other_user.json", "chat_vllm_extras.json",
			// The same prompt through other APIs.
			"anthropic_system_string.json", "anthropic_system_blocks.json", "anthropic_cache_control_turn1.json",
			"responses_string_input.json",
		},
		{"chat_turn2.json", "anthropic_cache_control_turn2.json"},
		{"chat_tool_calls_null_content.json", "chat_tool_calls_missing_content.json"},
		{"sglang_generate.json", "tgi_generate.json", "llamacpp_completion.json"},
	} {
		want, _ := sample(t, group[0])
		for _, name := range group[1:] {
			if got, _ := sample(t, name); !same(got, want) {
				t.Errorf("Body(%s) = %+v, want that of %s, %+v", name, got, group[0], want)
			}
		}
	}
}

func TestBody_SamplesThatLeadOthers(t *testing.T) {
	for _, pair := range [][2]string{
		{"chat_basic.json", "chat_turn2.json"},
		{"anthropic_cache_control_turn1.json", "anthropic_cache_control_turn2.json"},
	} {
		a, _ := sample(t, pair[0])
		b, _ := sample(t, pair[1])
		if !leads(a, b) {
			t.Errorf("%s shares %d of %d blocks with %s", pair[0], shared(a, b), len(a.Blocks), pair[1])
		}
		if b.HistoryBlocks <= a.HistoryBlocks {
			t.Errorf("HistoryBlocks = %d after %d, want more with another turn", b.HistoryBlocks, a.HistoryBlocks)
		}
	}
}

func TestBody_SamplesThatPart(t *testing.T) {
	for _, test := range []struct {
		a, b string
		at   int // blocks they share
	}{
		{"chat_basic.json", "chat_developer_role.json", 0},
		{"chat_basic.json", "chat_lora_adapter.json", 0},
		{"chat_basic.json", "chat_cache_salt_a.json", 0},
		{"chat_cache_salt_a.json", "chat_cache_salt_b.json", 0},
		{"chat_timestamp_first_a.json", "chat_timestamp_first_b.json", 0},
		{"chat_timestamp_last_a.json", "chat_timestamp_last_b.json", 8},
		{"anthropic_billing_nonce_a.json", "anthropic_billing_nonce_b.json", 0},
		// The text is cut where the fourth block ends.
		{"chat_basic.json", "chat_parts_split_text.json", 4},
		// The image comes behind 48 bytes of system message.
		{"chat_image_a.json", "chat_image_b.json", 0},
		// Instructions come first; the tools of one come before its turns.
		{"responses_string_input.json", "responses_item_input.json", 7},
		// Equal up to the schema of the first tool.
		{"chat_tools.json", "chat_tools_keys_shuffled.json", 9},
		{"chat_basic.json", "chat_tools.json", 7},
		{"responses_previous_id.json", "responses_conversation_id.json", 0},
		{"completions_string.json", "completions_list_of_strings.json", 0},
	} {
		a, _ := sample(t, test.a)
		b, _ := sample(t, test.b)
		if got := shared(a, b); got != test.at || a.Tail == b.Tail {
			t.Errorf("%s and %s share %d blocks, want %d and other tails", test.a, test.b, got, test.at)
		}
	}
}

func TestBody_SamplesWithoutSignature(t *testing.T) {
	for _, test := range []struct {
		name string
		want tokenprefix.Absence
		err  error
	}{
		{"empty_body.json", tokenprefix.AbsenceEmptyBody, nil},
		{"whitespace_only.json", tokenprefix.AbsenceEmptyBody, nil},
		{"json_null.json", tokenprefix.AbsenceNotObject, nil},
		{"chat_messages_empty.json", tokenprefix.AbsenceEmptyPrompt, nil},
		{"chat_messages_wrong_type.json", tokenprefix.AbsenceWrongType, nil},
		{"chat_model_wrong_type.json", tokenprefix.AbsenceWrongType, nil},
		{"completions_missing_prompt.json", tokenprefix.AbsenceNoPrompt, nil},
		{"completions_empty_prompt.json", tokenprefix.AbsenceEmptyPrompt, nil},
		{"completions_empty_list.json", tokenprefix.AbsenceEmptyPrompt, nil},
		{"chat_truncated.json", tokenprefix.AbsenceMalformed, tokenprefix.ErrTruncated},
		{"chat_basic.json.gz", tokenprefix.AbsenceMalformed, tokenprefix.ErrSyntax},
		{"chat_basic.json.zst", tokenprefix.AbsenceMalformed, tokenprefix.ErrSyntax},
		{"chat_expands_to_4MiB.json.gz", tokenprefix.AbsenceMalformed, tokenprefix.ErrSyntax},
	} {
		h, sig := fine(), new(tokenprefix.Signature)
		_, err := h.Body(sig, tokenprefix.Scope{}, readBody(t, "chat_turn2.json")) // leave something behind
		must(t, err)
		m, err := h.Body(sig, tokenprefix.Scope{}, readBody(t, test.name))
		if m.Absence != test.want || !errors.Is(err, test.err) {
			t.Errorf("Body(%s) = %v, %v, want %v, %v", test.name, m.Absence, err, test.want, test.err)
		}
		if len(sig.Blocks) != 0 || sig.Tail != 0 || sig.Tokens != 0 || sig.SystemBlocks != 0 || sig.HistoryBlocks != 0 {
			t.Errorf("Body(%s) left %+v, want it empty", test.name, sig)
		}
	}
}

func TestBody_EverySampleIsCovered(t *testing.T) {
	files, err := os.ReadDir(filepath.Join("testdata", "bodies"))
	must(t, err)
	if len(files) != 61 {
		t.Errorf("%d samples, want 61: give the new ones an expectation", len(files))
	}
	for _, f := range files {
		var sig tokenprefix.Signature
		_, err := fine().Body(&sig, tokenprefix.Scope{}, readBody(t, f.Name()))
		compressed := strings.HasSuffix(f.Name(), ".gz") || strings.HasSuffix(f.Name(), ".zst")
		if wantErr := compressed || f.Name() == "chat_truncated.json"; (err != nil) != wantErr {
			t.Errorf("Body(%s) error = %v, want one: %v", f.Name(), err, wantErr)
		}
	}
}

func TestBody_DecodedGzipIsTheBody(t *testing.T) {
	z, err := gzip.NewReader(bytes.NewReader(readBody(t, "chat_basic.json.gz")))
	must(t, err)
	body, err := io.ReadAll(z)
	must(t, err)
	got, _ := signed(t, fine(), tokenprefix.Scope{}, body)
	if want, _ := sample(t, "chat_basic.json"); !same(got, want) {
		t.Errorf("Body(decoded) = %+v, want %+v", got, want)
	}
}

func TestBody_Meta(t *testing.T) {
	for _, test := range []struct {
		name string
		want tokenprefix.Meta
	}{
		{"chat_basic.json", tokenprefix.Meta{Shape: tokenprefix.ShapeChat, Model: []byte("acme/chat-8b"), Stream: true}},
		{"chat_basic_reformatted.json", tokenprefix.Meta{Shape: tokenprefix.ShapeChat, Model: []byte("acme/chat-8b"), Stream: true}},
		{"chat_routing_fields.json", tokenprefix.Meta{
			Shape: tokenprefix.ShapeChat, Model: []byte("acme/chat-8b"), Stream: true, PromptCacheKey: []byte("thread-8842"),
		}},
		{"chat_cache_salt_a.json", tokenprefix.Meta{
			Shape: tokenprefix.ShapeChat, Model: []byte("acme/chat-8b"), Stream: true, CacheSalt: []byte("dGVuYW50LWEtc2FsdC0wMDAx"),
		}},
		{"chat_duplicate_keys.json", tokenprefix.Meta{Shape: tokenprefix.ShapeChat, Model: []byte("acme/other-70b")}},
		{"chat_image_a.json", tokenprefix.Meta{Shape: tokenprefix.ShapeChat, Model: []byte("acme/vision-8b"), MaxOutputTokens: 64}},
		{"ollama_chat.json", tokenprefix.Meta{Shape: tokenprefix.ShapeChat, Model: []byte("chat:8b")}},
		{"anthropic_tools_thinking.json", tokenprefix.Meta{
			Shape: tokenprefix.ShapeMessages, Model: []byte("acme/chat-8b"), MaxOutputTokens: 1024,
		}},
		{"responses_string_input.json", tokenprefix.Meta{Shape: tokenprefix.ShapeResponses, Model: []byte("acme/chat-8b"), Stream: true}},
		{"responses_previous_id.json", tokenprefix.Meta{
			Shape: tokenprefix.ShapeResponses, Model: []byte("acme/chat-8b"), PreviousResponseID: []byte("resp_0a1b2c3d"),
		}},
		{"responses_conversation_id.json", tokenprefix.Meta{
			Shape: tokenprefix.ShapeResponses, Model: []byte("acme/chat-8b"), Conversation: []byte("conv_55aa"),
		}},
		{"completions_string.json", tokenprefix.Meta{Shape: tokenprefix.ShapeCompletions, Model: []byte("acme/base-7b"), MaxOutputTokens: 16}},
		{"embeddings_input.json", tokenprefix.Meta{Shape: tokenprefix.ShapeEmbeddings, Model: []byte("acme/embed-1b")}},
		{"sglang_generate.json", tokenprefix.Meta{Shape: tokenprefix.ShapeGenerate, MaxOutputTokens: 16, Stream: true}},
		{"tgi_generate.json", tokenprefix.Meta{Shape: tokenprefix.ShapeGenerate, MaxOutputTokens: 16}},
		{"llamacpp_completion.json", tokenprefix.Meta{Shape: tokenprefix.ShapeCompletions, MaxOutputTokens: 16}},
	} {
		_, got := sample(t, test.name)
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("Body(%s) = %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestBody_MetaOfFieldsInOtherPlaces(t *testing.T) {
	for _, test := range []struct {
		body string
		want func(tokenprefix.Meta) bool
	}{
		{`{"prompt":"x","lora_path":"sql"}`, func(m tokenprefix.Meta) bool { return string(m.Adapter) == "sql" }},
		{`{"inputs":"x","parameters":{"adapter_id":"sql"}}`, func(m tokenprefix.Meta) bool { return string(m.Adapter) == "sql" }},
		{`{"prompt":"x","lora":[{"id":0,"scale":1.0}]}`, func(m tokenprefix.Meta) bool { return m.Adapter == nil }},
		{`{"input":"x","conversation":{"id":"c1"}}`, func(m tokenprefix.Meta) bool { return string(m.Conversation) == "c1" }},
		{`{"messages":[{}],"options":{"num_predict":7}}`, func(m tokenprefix.Meta) bool { return m.MaxOutputTokens == 7 }},
		{`{"messages":[{}],"max_tokens":9,"max_completion_tokens":5}`, func(m tokenprefix.Meta) bool { return m.MaxOutputTokens == 5 }},
		{`{"prompt":"x","n_predict":-1}`, func(m tokenprefix.Meta) bool { return m.MaxOutputTokens == 0 }},
		{`{"prompt":"x","max_tokens":2147483647}`, func(m tokenprefix.Meta) bool { return m.MaxOutputTokens == 2147483647 }},
		{`{"prompt":"x","max_tokens":2147483648}`, func(m tokenprefix.Meta) bool { return m.MaxOutputTokens == 0 }},
		{`{"prompt":"x","max_tokens":1e3}`, func(m tokenprefix.Meta) bool { return m.MaxOutputTokens == 0 }},
		{`{"prompt":"x","max_tokens":99999999999999999999}`, func(m tokenprefix.Meta) bool { return m.MaxOutputTokens == 0 }},
		{`{"prompt":"x","stream":"true"}`, func(m tokenprefix.Meta) bool { return !m.Stream }},
		{`{"prompt":"x","model":null}`, func(m tokenprefix.Meta) bool { return m.Model == nil }},
		{`{"mod\u0065l":"m","prompt":"x"}`, func(m tokenprefix.Meta) bool { return string(m.Model) == "m" }},
		{`{"Model":"M","prompt":"x"}`, func(m tokenprefix.Meta) bool { return m.Model == nil }},
		{`{"input":"x","dimensions":64}`, func(m tokenprefix.Meta) bool { return m.Shape == tokenprefix.ShapeEmbeddings }},
		{`{"input":[1,2,3]}`, func(m tokenprefix.Meta) bool { return m.Shape == tokenprefix.ShapeEmbeddings }},
		{`{"input":[{"role":"user","content":"x"}]}`, func(m tokenprefix.Meta) bool { return m.Shape == tokenprefix.ShapeResponses }},
	} {
		if _, m := signed(t, fine(), tokenprefix.Scope{}, []byte(test.body)); !test.want(m) {
			t.Errorf("Body(%s) = %+v", test.body, m)
		}
	}
}
