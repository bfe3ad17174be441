package reverseproxy_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// caseOf names the public bug reports that the inputs come from.
func caseOf(file string) string {
	for _, c := range [...]struct{ name, files string }{
		{"C72", "chat_routing_fields"}, {"C74", "chat_duplicate_keys"}, {"C75", "chat_deep_nesting"}, {"C77", "chat_bom"},
		{"C78", "chat_basic.json.gz chat_basic.json.zst chat_expands"},
		{"C85", "embeddings_ sglang_ tgi_ llamacpp_ ollama_ empty_ json_null chat_truncated chat_messages_ chat_model_"},
		{"C86", "completions_"}, {"C87", "chat_tool_calls_"}, {"C88", "anthropic_billing_nonce"}, {"C89", "chat_timestamp_"},
		{"C90", "anthropic_cache_control"}, {"C91", "responses_"}, {"C93", "chat_cache_salt_"}, {"C94", "chat_lora_"},
	} {
		for _, prefix := range strings.Fields(c.files) {
			if strings.HasPrefix(file, prefix) {
				return c.name
			}
		}
	}
	return "C71"
}

// Whatever the body, the engine gets it byte for byte, framed as it came, and
// answers.
func TestC71_BodiesArriveUntouched(t *testing.T) {
	bodies := map[string][]byte{
		// Characters that HTML has plans for, and their other spelling.
		"C73/plain":   []byte(chat("<|im_start|> a < b && c > d", 100)),
		"C73/escaped": []byte(escapeHTML(chat("<|im_start|> a < b && c > d", 100))),
		"C75/deep":    []byte(`{"model":"m","prompt":"x","ignored":` + strings.Repeat("[", 1e6) + strings.Repeat("]", 1e6) + "}"),
		"C85/audio":   []byte("--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n\x00\x01\r\n--x--\r\n"),
	}
	files, err := filepath.Glob("testdata/bodies/*")
	must(t, err)
	if len(files) < 40 {
		t.Fatalf("%d inputs, want at least 40", len(files))
	}
	for _, file := range files {
		name := filepath.Base(file)
		bodies[caseOf(name)+"/"+name] = input(t, name)
	}
	rec := newRecorder()
	g := start(t, []string{engine(t, rec.ServeHTTP), engine(t, rec.ServeHTTP)})
	for name, b := range bodies {
		t.Run(name, func(t *testing.T) {
			for _, chunked := range []bool{false, true} {
				req, err := http.NewRequest(http.MethodPost, g.server.URL+pathOf(filepath.Base(name)), reader(string(b), chunked))
				must(t, err)
				req.Header.Set("Content-Encoding", codingOf(name))
				if a := g.do(req); a.StatusCode != 200 {
					t.Errorf("status = %d, want 200", a.StatusCode)
				}
				sameBytes(t, "engine's body", <-rec.bodies, b)
				got := <-rec.requests
				if want := !chunked; (got.ContentLength == int64(len(b))) != want && len(b) > 0 {
					t.Errorf("chunked %v arrived with length %d, %v", chunked, got.ContentLength, got.TransferEncoding)
				}
			}
		})
	}
}

func input(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "bodies", name))
	must(t, err)
	return b
}

// escapeHTML writes a body as encoding/json would.
func escapeHTML(body string) string {
	return strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(body)
}

func codingOf(name string) string {
	switch filepath.Ext(name) {
	case ".gz":
		return "gzip"
	case ".zst":
		return "zstd"
	}
	return "identity"
}

func pathOf(name string) string {
	kind, _, _ := strings.Cut(name, "_")
	switch kind {
	case "anthropic":
		return "/v1/messages"
	case "completions":
		return "/v1/completions"
	case "responses":
		return "/v1/responses"
	case "embeddings":
		return "/v1/embeddings"
	case "sglang", "tgi":
		return "/generate"
	case "llamacpp":
		return "/completion"
	case "ollama":
		return "/api/chat"
	}
	return "/v1/chat/completions"
}

// The same prompt in other spellings has the same home, where one exists.
func TestHandler_SpellingsMeet(t *testing.T) {
	rec := newRecorder()
	var engines []string
	for range 16 {
		engines = append(engines, engine(t, rec.ServeHTTP))
	}
	g := start(t, engines)
	home := func(name string, body []byte) string {
		g.send(http.MethodPost, pathOf(name), string(body), "Content-Encoding: "+codingOf(name))
		<-rec.bodies
		<-rec.requests
		return g.decision().Home
	}
	for _, c := range []struct{ name, one, other string }{
		{"reformatted", "chat_basic.json", "chat_basic_reformatted.json"},
		{"C72", "chat_basic.json", "chat_routing_fields.json"},
		{"C77", "chat_basic.json", "chat_bom.json"},
		{"C78", "chat_basic.json", "chat_basic.json.gz"},
		{"one part", "chat_basic.json", "chat_parts_text_only.json"},
		{"C87", "chat_tool_calls_null_content.json", "chat_tool_calls_missing_content.json"},
	} {
		want := home(c.one, input(t, c.one))
		if got := home(c.other, input(t, c.other)); got != want || got == "" {
			t.Errorf("%s: homes of %s and %s = %q, %q; want the same", c.name, c.one, c.other, want, got)
		}
	}
	text := chat("a < b && c > d", 100)
	plain := home("C73", []byte(text))
	if got := home("C73", []byte(escapeHTML(text))); got != plain || got == "" {
		t.Errorf("C73: homes of two spellings = %q, %q; want the same", plain, got)
	}
	for _, name := range []string{
		"chat_basic.json.zst", "chat_expands_to_4MiB.json.gz", // C78: no signature, no error
		"empty_body.json", "json_null.json", "chat_truncated.json", "chat_messages_empty.json", "chat_messages_wrong_type.json",
	} {
		if got := home(name, input(t, name)); got != "" {
			t.Errorf("home of %s = %s, want none", name, got)
		}
	}
}

// What the first of two prompts leaves in an engine's cache is worth something to
// the second, or is not.
func TestHandler_PromptsShareTheirBeginning(t *testing.T) {
	for _, c := range []struct {
		name, first, second string
		volatile            func([]byte) int
		warm                bool
	}{
		{"C88 as it is", "anthropic_billing_nonce_a.json", "anthropic_billing_nonce_b.json", nil, false},
		{"C88", "anthropic_billing_nonce_a.json", "anthropic_billing_nonce_b.json", tokenprefix.SkipVolatile, true},
		{"C89 as it is", "chat_timestamp_first_a.json", "chat_timestamp_first_b.json", nil, false},
		{"C89", "chat_timestamp_first_a.json", "chat_timestamp_first_b.json", tokenprefix.SkipVolatile, true},
		{"C89 at the end", "chat_timestamp_last_a.json", "chat_timestamp_last_b.json", nil, true},
		{"C90", "anthropic_cache_control_turn1.json", "anthropic_cache_control_turn2.json", nil, true},
		{"C93 salted", "chat_cache_salt_a.json", "chat_cache_salt_b.json", nil, false},
		{"C94", "chat_basic.json", "chat_lora_adapter.json", nil, false},
		{"next turn", "chat_basic.json", "chat_turn2.json", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := newRecorder()
			g := start(t, []string{engine(t, rec.ServeHTTP)}, func(_ *router.Config, h *reverseproxy.Handler) {
				h.Hasher = &tokenprefix.Hasher{BytesPerToken: 0.25, Volatile: c.volatile} // blocks of 64 bytes
			})
			for _, name := range []string{c.first, c.second} {
				g.send(http.MethodPost, pathOf(name), string(input(t, name)))
			}
			first, second := g.decision(), g.decision()
			if warm := second.CachedTokens > 0; first.CachedTokens != 0 || warm != c.warm {
				t.Errorf("cached tokens = %d, %d; want none, then some = %v", first.CachedTokens, second.CachedTokens, c.warm)
			}
		})
	}
}

// C95: gateways with one secret agree on the home of a prompt, and nobody without
// it can tell.
func TestC95_SecretKey(t *testing.T) {
	const prompts = 20
	homes := func(key string) string {
		var list []router.Endpoint
		for i := range 16 {
			list = append(list, router.Endpoint{ID: fmt.Sprint(i), URL: target(t, "http://engine"), Weight: 1})
		}
		g := start(t, nil, scripted(echo), func(c *router.Config, h *reverseproxy.Handler) {
			c.Endpoints, h.Hasher = list, &tokenprefix.Hasher{Key: []byte(key)}
		})
		var all []string
		for i := range prompts {
			g.post(chat(fmt.Sprint("Persona ", i), 500))
			all = append(all, g.decision().Home)
		}
		return strings.Join(all, " ")
	}
	one := homes("secret")
	if got := homes("secret"); got != one {
		t.Errorf("homes of two gateways with one key = %s and %s, want the same", one, got)
	}
	if homes("other") == one || homes("") == one {
		t.Errorf("homes with another key are the same: %s", one)
	}
}
