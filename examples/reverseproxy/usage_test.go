package reverseproxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/examples/reverseproxy"
)

func TestUsage_Forms(t *testing.T) {
	for _, c := range []struct{ name, text, prompt, cached string }{
		{"vLLM stream", `data: {"choices":[],"usage":{"prompt_tokens":30012,"total_tokens":30112,"completion_tokens":100,"prompt_tokens_details":{"cached_tokens":29952}}}` + "\n\ndata: [DONE]\n\n", "30012", "29952"},
		{"no details", `{"usage":{"prompt_tokens":12,"total_tokens":14,"prompt_tokens_details":null}}`, "12", "unknown"},
		{"cached null", `{"usage":{"prompt_tokens":12,"prompt_tokens_details":{"cached_tokens":null}}}`, "12", "unknown"},
		{"spaces", `{"usage" : { "prompt_tokens" : 12 , "prompt_tokens_details" : { "cached_tokens" : 0 } } }`, "12", "0"},
		{"responses", `{"type":"response.completed","response":{"usage":{"input_tokens":50,"input_tokens_details":{"cached_tokens":48},"output_tokens":3}}}`, "50", "48"},
		{"anthropic", `{"type":"message","usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":85,"output_tokens":3}}`, "100", "85"},
		{"anthropic without cache", `{"usage":{"input_tokens":10,"output_tokens":3}}`, "10", "unknown"},
		{"sglang generate", `{"text":"x","meta_info":{"prompt_tokens":7,"completion_tokens":2,"cached_tokens":6}}`, "7", "6"},
		{"the last one counts", `{"usage":{"prompt_tokens":1,"cached_tokens":1}}` + "\n" + `{"usage":{"prompt_tokens":2,"cached_tokens":0}}`, "2", "0"},
		{"said by the model", `{"content":"{\"prompt_tokens\":99,\"cached_tokens\":98}"}`, "unknown", "unknown"},
		{"negative", `{"usage":{"prompt_tokens":-4,"cached_tokens":-1}}`, "unknown", "unknown"},
		{"fraction", `{"usage":{"prompt_tokens":1.5,"cached_tokens":1e3}}`, "unknown", "unknown"},
		{"too long", `{"usage":{"prompt_tokens":99999999999999999999999999}}`, "unknown", "unknown"},
		{"text", `{"usage":{"prompt_tokens":"12"}}`, "unknown", "unknown"},
		{"cut off", `{"usage":{"prompt_tokens":12`, "unknown", "unknown"},
		{"nothing", "", "unknown", "unknown"},
	} {
		for _, size := range []int{1 << 20, 7, 1} {
			p, n := reverseproxy.ReadUsage(pieces(c.text, size)...)
			if p.String() != c.prompt || n.String() != c.cached {
				t.Errorf("%s in pieces of %d: prompt %v, cached %v; want %s, %s", c.name, size, p, n, c.prompt, c.cached)
			}
		}
	}
}

func pieces(text string, size int) [][]byte {
	var list [][]byte
	for len(text) > size {
		list = append(list, []byte(text[:size]))
		text = text[size:]
	}
	return append(list, []byte(text))
}

// Whatever was before, and however it is cut, the end is found.
func FuzzUsage(f *testing.F) {
	f.Add([]byte(`data: {"a":1}`), 10, 50)
	f.Add([]byte(strings.Repeat("x", 5000)), 4095, 12)
	f.Add([]byte(strings.Repeat("x", 9000)), 100, 12)
	f.Fuzz(func(t *testing.T, before []byte, size, n int) {
		if size <= 0 || n < 0 || len(before) > 1<<16 || len(before)/size > 1<<10 {
			t.Skip()
		}
		text := string(before) + "\n" + `data: {"usage":{"prompt_tokens":31,"prompt_tokens_details":{"cached_tokens":16}}}` + "\n\ndata: [DONE]\n\n"
		p, c := reverseproxy.ReadUsage(pieces(text, size)...)
		if p.String() != "31" || c.String() != "16" {
			t.Errorf("usage after %q in pieces of %d = %v, %v; want 31, 16", before, size, p, c)
		}
		reverseproxy.ReadUsage(pieces(text[:min(n, len(text))], size)...) // cut off anywhere: no panic
	})
}

func TestFirstToken_EventStreams(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
		skip int // bytes before the piece that begins
	}{
		{"chat", "data: {}\n\n", 0},
		{"comments first", ": keep-alive\n\n: keep-alive\n\n|data: {}\n\n", 1},
		{"CRLF", ": x\r\n\r\n|data: {}\r\n\r\n", 1},
		{"responses", "event: response.created\ndata: {}\n\nevent: response.in_progress\ndata: {}\n\n|event: response.output_text.delta\ndata: {}\n\n", 1},
		{"ping", "event: ping\ndata: {}\n\n|data: {}\n\n", 1},
		{"ping without data", "event: ping\n\n|data: {}\n\n", 1},
		{"anthropic", "event: message_start\ndata: {}\n\n", 0},
		{"retry and id", "retry: 3\nid: 1\n\n|data:x\n", 1},
		{"only comments", ": one\n: two\n", -1},
		{"data in the middle of a line", ": data: 1\nxdata: 2\n", -1},
	} {
		before, after, cut := strings.Cut(c.text, "|")
		list := [][]byte{[]byte(before)}
		if cut {
			list = append(list, []byte(after))
		}
		if got := reverseproxy.FirstTokenIn(list...); got != c.skip {
			t.Errorf("%s: first token in piece %d, want %d", c.name, got, c.skip)
		}
		// Byte by byte it is found at the colon of the line, if at all.
		text := before + after
		got := reverseproxy.FirstTokenIn(pieces(text, 1)...)
		if (got < 0) != (c.skip < 0) || got >= 0 && got < len(before)*min(c.skip, 1) {
			t.Errorf("%s: first token at byte %d of %q", c.name, got, text)
		}
	}
}

func TestHandler_UsageReachesTheRouter(t *testing.T) {
	g := start(t, []string{engine(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Encoding", r.URL.Query().Get("coding"))
		io.WriteString(w, `{"usage":{"prompt_tokens":10000,"prompt_tokens_details":{"cached_tokens":128}}}`)
	})})
	b := chat("x", 30_000)
	g.post(b)
	o := g.outcome()
	if p, c := o.PromptTokens.String(), o.CachedTokens.String(); p != "10000" || c != "128" {
		t.Errorf("usage = %s, %s; want 10000, 128", p, c)
	}
	first := g.decision().PromptTokens
	g.post(b)
	g.outcome()
	if second := g.decision().PromptTokens; second <= first {
		t.Errorf("estimates = %d, then %d; want the second nearer to the 10000 that the engine counted", first, second)
	}
	g.send(http.MethodPost, "/v1/chat/completions?coding=br", b)
	if o := g.outcome(); o.PromptTokens.String() != "unknown" {
		t.Errorf("usage of a compressed answer = %v, want unknown", o.PromptTokens)
	}
}
