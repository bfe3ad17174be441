package routertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// coalesce is how long, in real time, the tokens after the first are collected
// into one event.
const coalesce = 10 * time.Millisecond

// answerToken is the text of every token of every answer, bytesPerToken long.
const answerToken = " tok"

// answer is a completion on its way to the client.
type answer struct {
	engine *Engine
	job    *job
	prompt *prompt
	chat   bool
	// The fields that an answer, or each event of one, begins with.
	id, object string
	created    int64 // Unix seconds
}

func newAnswer(e *Engine, id int64, j *job, p *prompt, chat bool) *answer {
	a := &answer{engine: e, job: j, prompt: p, chat: chat, created: time.Now().Unix()}
	switch {
	case chat && p.stream:
		a.id, a.object = fmt.Sprintf("chatcmpl-%d", id), "chat.completion.chunk"
	case chat:
		a.id, a.object = fmt.Sprintf("chatcmpl-%d", id), "chat.completion"
	default:
		a.id, a.object = fmt.Sprintf("cmpl-%d", id), "text_completion"
	}
	return a
}

// usage is what an answer says about itself, in OpenAI's form.
type usage struct {
	PromptTokens        int          `json:"prompt_tokens"`
	CompletionTokens    int          `json:"completion_tokens"`
	TotalTokens         int          `json:"total_tokens"`
	PromptTokensDetails usageDetails `json:"prompt_tokens_details"`
}

type usageDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

func (a *answer) usage(tokens, cached int) usage {
	return usage{a.prompt.tokens, tokens, a.prompt.tokens + tokens, usageDetails{cached}}
}

// serveWhole answers when all tokens are there.
func (a *answer) serveWhole(w http.ResponseWriter, r *http.Request) {
	select {
	case <-a.job.over:
	case <-r.Context().Done():
		return
	}
	tokens, cached := a.engine.generated(a.job)
	if tokens < a.prompt.maxTokens {
		panic(http.ErrAbortHandler) // the engine was killed
	}
	a.engine.addLoadReport(w, r)
	choice := map[string]any{"index": 0, "finish_reason": "length"}
	text := strings.Repeat(answerToken, tokens)
	if a.chat {
		choice["message"] = map[string]any{"role": "assistant", "content": text}
	} else {
		choice["text"] = text
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"id": a.id, "object": a.object, "created": a.created, "model": a.prompt.model,
		"choices": []any{choice}, "usage": a.usage(tokens, cached),
	})
}

// serveStream answers token by token, as server-sent events. The header is sent
// before there is a token, as it is by vLLM, whose StreamingResponse is Starlette's
// (https://github.com/encode/starlette/blob/master/starlette/responses.py): a
// gateway learns from it that the request was accepted, not that the prefill is
// over.
func (a *answer) serveStream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	out := http.NewResponseController(w)
	if err := out.Flush(); err != nil {
		return
	}
	head := fmt.Appendf(nil, `data: {"id":%q,"object":%q,"created":%d,"model":%s,"choices":[`,
		a.id, a.object, a.created, mustJSON(a.prompt.model))
	var b []byte
	for sent, ended := 0, false; !ended; {
		ctx := r.Context()
		if sent > 0 {
			pause(ctx, a.job, coalesce)
		}
		select {
		case <-a.job.more:
		case <-a.job.over:
			ended = true
		case <-ctx.Done():
			return
		}
		tokens, cached := a.engine.generated(a.job)
		if ended && tokens < a.prompt.maxTokens {
			panic(http.ErrAbortHandler) // the engine was killed
		}
		// A token may have been sent before its notice was read; and once the last
		// one is there the end comes at once.
		if tokens == sent || tokens == a.prompt.maxTokens && !ended {
			continue
		}
		b = a.appendChoice(append(b[:0], head...), sent, tokens, ended)
		sent = tokens
		if ended {
			if a.prompt.includeUsage {
				b = append(b, head...)
				b = fmt.Appendf(b, "],\"usage\":%s}\n\n", mustJSON(a.usage(tokens, cached)))
			}
			b = append(b, "data: [DONE]\n\n"...)
		}
		if _, err := w.Write(b); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
	}
}

// pause waits for the given time or until nothing more will happen.
func pause(ctx context.Context, j *job, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-j.over:
	case <-ctx.Done():
	}
}

// appendChoice appends the rest of an event for the tokens from..to.
func (a *answer) appendChoice(b []byte, from, to int, last bool) []byte {
	if a.chat {
		b = append(b, `{"index":0,"delta":{`...)
		if from == 0 {
			b = append(b, `"role":"assistant",`...)
		}
		b = append(b, `"content":"`...)
	} else {
		b = append(b, `{"index":0,"text":"`...)
	}
	for range to - from {
		b = append(b, answerToken...)
	}
	b = append(b, '"')
	if a.chat {
		b = append(b, '}')
	}
	if last {
		return append(b, ",\"finish_reason\":\"length\"}]}\n\n"...)
	}
	return append(b, ",\"finish_reason\":null}]}\n\n"...)
}
