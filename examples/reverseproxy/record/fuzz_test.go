package record_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/warmroute/warmroute/examples/reverseproxy/record"
)

// Whatever an answer is, it is read the same in whatever pieces it comes, and has
// a line that a trace's reader accepts.
func FuzzRecorder_Answers(f *testing.F) {
	f.Add(`{"usage":{"prompt_tokens":900,"completion_tokens":77,"prompt_tokens_details":{"cached_tokens":512}}}`, false, 3)
	f.Add("data: a\n\ndata: {\"usage\":{\"input_tokens\":8,\"cache_read_input_tokens\":5,\"output_tokens\":4}}\n\n", true, 1)
	f.Add("data:\ndata", true, 2)
	f.Fuzz(func(t *testing.T, body string, stream bool, size int) {
		size = max(1, size)
		read := func(size int) line {
			r := newRecorder(t, record.Config{})
			serve(r, tokens(256, 900), func(w http.ResponseWriter, _ *http.Request) {
				if stream {
					w.Header().Set("Content-Type", "text/event-stream")
				}
				for rest := body; rest != ""; {
					n := min(len(rest), size)
					io.WriteString(w, rest[:n])
					rest = rest[n:]
				}
			})
			return parse(t, written(t, r))[0]
		}
		told := func(n *int) int {
			if n == nil {
				return -1
			}
			return *n
		}
		whole, pieces := read(len(body)+1), read(size)
		if whole.OutputLength != pieces.OutputLength || told(whole.PromptTokens) != told(pieces.PromptTokens) || told(whole.CachedTokens) != told(pieces.CachedTokens) {
			t.Errorf("whole %+v, in pieces of %d %+v", whole, size, pieces)
		}
		if whole.OutputLength < 1 || told(whole.PromptTokens) < -1 || told(whole.CachedTokens) < -1 {
			t.Errorf("%+v has an impossible size", whole)
		}
	})
}
