package workload

import (
	"encoding/json"
	"strconv"
)

// ChatBody appends a request body for OpenAI's chat completions API to dst and
// returns it: p as messages, at most maxTokens of output, streamed or not. The
// text of a token has TokenBytes bytes, the frame around the messages is not
// counted by Tokens.
func (p Prompt) ChatBody(dst []byte, model string, maxTokens int, stream bool) []byte {
	name, _ := json.Marshal(model) // a string always has a JSON form
	dst = append(dst, `{"model":`...)
	dst = append(dst, name...)
	dst = append(dst, `,"messages":[`...)
	for i, s := range p.Segments {
		switch {
		case i > 0 && s.Role == p.Segments[i-1].Role:
			// goes on with the message
		case i > 0:
			dst = append(dst, `"},`...)
			fallthrough
		default:
			dst = append(dst, `{"role":"`...)
			dst = append(dst, s.Role.String()...)
			dst = append(dst, `","content":"`...)
		}
		dst = s.AppendText(dst)
	}
	if len(p.Segments) > 0 {
		dst = append(dst, `"}`...)
	}
	dst = append(dst, `],"max_tokens":`...)
	dst = strconv.AppendInt(dst, int64(maxTokens), 10)
	dst = append(dst, `,"stream":`...)
	dst = strconv.AppendBool(dst, stream)
	return append(dst, '}')
}
