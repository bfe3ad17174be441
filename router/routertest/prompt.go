package routertest

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

const (
	bytesPerToken    = 4
	blockTokens      = 16
	blockBytes       = blockTokens * bytesPerToken
	defaultMaxTokens = 100
)

// prompt is a request as the engine sees it.
type prompt struct {
	model        string
	blocks       []uint64 // chained hashes of the full blocks
	tokens       int
	maxTokens    int
	stream       bool
	includeUsage bool
}

// completionRequest is the part of OpenAI's requests that an engine reads.
type completionRequest struct {
	Model               string          `json:"model"`
	Messages            []chatMessage   `json:"messages"`
	Prompt              json.RawMessage `json:"prompt"`
	Tools               json.RawMessage `json:"tools"`
	Stream              bool            `json:"stream"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	CacheSalt           string          `json:"cache_salt"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type chatMessage struct {
	Role      string          `json:"role"`
	Content   text            `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// text is the content of a message: a string, or a list of parts of which text
// counts as it is and everything else by its JSON.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '[' {
		var s *string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		if s != nil {
			*t = text(*s)
		}
		return nil
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	for _, raw := range parts {
		var p struct {
			Text *string `json:"text"`
		}
		if err := json.Unmarshal(raw, &p); err == nil && p.Text != nil {
			*t += text(*p.Text)
		} else {
			*t += text(raw)
		}
	}
	return nil
}

var errNoPrompt = errors.New("the request has neither messages nor a prompt")

// parsePrompt reads a request body. Errors are the client's.
func parsePrompt(body []byte, chat bool) (*prompt, error) {
	var r completionRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	p := &prompt{model: r.Model, maxTokens: defaultMaxTokens, stream: r.Stream, includeUsage: r.StreamOptions.IncludeUsage}
	for _, n := range []*int{r.MaxTokens, r.MaxCompletionTokens} {
		if n != nil {
			if *n < 1 {
				return nil, fmt.Errorf("max_tokens %d is less than 1", *n)
			}
			p.maxTokens = *n
		}
	}
	var rendered []byte
	switch {
	case chat && len(r.Messages) > 0:
		rendered = render(&r)
	case !chat && len(r.Prompt) > 0 && string(r.Prompt) != "null":
		var s string
		if json.Unmarshal(r.Prompt, &s) == nil {
			rendered = []byte(s)
		} else {
			rendered = r.Prompt // token ids, or several prompts: their JSON stands for them
		}
	}
	if len(rendered) == 0 {
		return nil, errNoPrompt
	}
	p.tokens = (len(rendered) + bytesPerToken - 1) / bytesPerToken
	h := xxhash.Sum64String(fmt.Sprintf("%q %q", r.Model, r.CacheSalt))
	for ; len(rendered) >= blockBytes; rendered = rendered[blockBytes:] {
		h = h*0x9e3779b97f4a7c15 ^ xxhash.Sum64(rendered[:blockBytes])
		p.blocks = append(p.blocks, h)
	}
	return p, nil
}

// render is the chat template: tools first, then the turns.
func render(r *completionRequest) []byte {
	size := len(r.Tools)
	for i := range r.Messages {
		size += len(r.Messages[i].Content) + len(r.Messages[i].ToolCalls) + 32
	}
	b := make([]byte, 0, size)
	b = append(b, r.Tools...)
	for i := range r.Messages {
		m := &r.Messages[i]
		b = append(b, "<|"...)
		b = append(b, m.Role...)
		b = append(b, "|>"...)
		b = append(b, m.Content...)
		b = append(b, m.ToolCalls...)
	}
	return b
}
