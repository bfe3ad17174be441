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
	// maxCachedAnswer is the most tokens of an answer that enter the cache, so
	// that a request can't make the engine hash more than it was sent.
	maxCachedAnswer = 16_384
)

// prompt is a request as the engine sees it.
type prompt struct {
	model        string
	blocks       []uint64 // chained hashes of the full blocks of the prompt and the answer to come
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

var errNoPrompt = errors.New("the request has neither messages nor a prompt")

// parsePrompt reads a request body. Errors are the client's.
func parsePrompt(body []byte, chat bool) (*prompt, error) {
	var r completionRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	p := &prompt{model: r.Model, maxTokens: defaultMaxTokens, stream: r.Stream, includeUsage: r.StreamOptions.IncludeUsage}
	for _, f := range []struct {
		name  string
		value *int
	}{{"max_tokens", r.MaxTokens}, {"max_completion_tokens", r.MaxCompletionTokens}} {
		if f.value == nil {
			continue
		}
		if *f.value < 1 {
			return nil, fmt.Errorf("%s %d is less than 1", f.name, *f.value)
		}
		p.maxTokens = *f.value
	}
	rendered, err := render(&r, chat)
	if err != nil {
		return nil, err
	}
	p.tokens = (len(rendered) + bytesPerToken - 1) / bytesPerToken
	for range min(p.maxTokens, maxCachedAnswer) {
		rendered = append(rendered, answerToken...)
	}
	p.blocks = chain(fmt.Sprintf("%q %q", r.Model, r.CacheSalt), rendered)
	return p, nil
}

// chain hashes the full blocks of a text, each with everything before it.
func chain(seed string, text []byte) []uint64 {
	h := xxhash.Sum64String(seed)
	blocks := make([]uint64, 0, len(text)/blockBytes)
	for ; len(text) >= blockBytes; text = text[blockBytes:] {
		h = h*0x9e3779b97f4a7c15 ^ xxhash.Sum64(text[:blockBytes])
		blocks = append(blocks, h)
	}
	return blocks
}

// render returns the text that the engine continues.
func render(r *completionRequest, chat bool) ([]byte, error) {
	if chat {
		if len(r.Messages) == 0 {
			return nil, errNoPrompt
		}
		return renderChat(r), nil
	}
	if len(r.Prompt) == 0 || string(r.Prompt) == "null" || string(r.Prompt) == `""` {
		return nil, errNoPrompt
	}
	if r.Prompt[0] == '"' {
		return unquote(nil, r.Prompt)
	}
	return r.Prompt, nil // token ids, or several prompts: their JSON stands for them
}

// renderChat is the chat template: tools first, then the turns, then the opening
// of the answer, so that a later turn which quotes the answer finds it cached.
func renderChat(r *completionRequest) []byte {
	size := len(r.Tools)
	for i := range r.Messages {
		size += len(r.Messages[i].Content) + len(r.Messages[i].ToolCalls) + 32
	}
	b := append(make([]byte, 0, size), r.Tools...)
	for i := range r.Messages {
		m := &r.Messages[i]
		b = appendRole(b, m.Role)
		b = append(b, m.Content...)
		b = append(b, m.ToolCalls...)
	}
	return appendRole(b, "assistant")
}

func appendRole(b []byte, role string) []byte {
	b = append(b, "<|"...)
	b = append(b, role...)
	return append(b, "|>"...)
}
