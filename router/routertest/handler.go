package routertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// coalesce is how long, in real time, tokens after the first are collected
	// into one event, so that many engines at high speed don't spend the machine
	// on writing words.
	coalesce = 4 * time.Millisecond
	// maxBody is the most that an engine reads of a request.
	maxBody = 64 << 20
)

func (e *Engine) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { e.complete(w, r, true) })
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { e.complete(w, r, false) })
	mux.HandleFunc("GET /v1/models", e.models)
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /metrics", e.metrics)
	return mux
}

func (e *Engine) models(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"object": "list",
		"data":   []any{map[string]any{"id": e.config.Model, "object": "model", "owned_by": "routertest"}},
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only values of our own making come here
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that has left is no concern
}

func writeError(w http.ResponseWriter, status int, message string) {
	kind := "BadRequestError"
	if status >= 500 {
		kind = "InternalServerError"
	}
	writeJSON(w, status, map[string]any{
		"error": map[string]any{"message": message, "type": kind, "code": status},
	})
}

// complete serves one completion.
func (e *Engine) complete(w http.ResponseWriter, r *http.Request, chat bool) {
	e.mu.Lock()
	status, killed := e.status, e.server == nil
	if !killed {
		e.done.Add(1)
	}
	e.mu.Unlock()
	if killed {
		panic(http.ErrAbortHandler)
	}
	defer e.done.Done()
	if status != 0 {
		writeError(w, status, "this engine was told to fail")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	p, err := parsePrompt(body, chat)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	id, j, err := e.submit(p)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	defer e.cancel(id)
	a := &answer{engine: e, job: j, prompt: p, chat: chat, id: fmt.Sprintf("cmpl-%d", id)}
	if chat {
		a.id = "chat" + a.id
	}
	if p.stream {
		a.serveStream(w, r)
	} else {
		a.serveWhole(w, r)
	}
}

// answer is a completion on its way to the client.
type answer struct {
	engine *Engine
	job    *job
	prompt *prompt
	chat   bool
	id     string
}

// serveWhole answers when all tokens are there.
func (a *answer) serveWhole(w http.ResponseWriter, r *http.Request) {
	tokens, ended := 0, false
	for !ended {
		var err error
		if tokens, ended, err = a.engine.progress(r.Context(), a.job, tokens); err != nil {
			return
		}
	}
	if tokens < a.prompt.maxTokens {
		panic(http.ErrAbortHandler) // killed
	}
	a.engine.addLoadReport(w, r)
	choice := map[string]any{"index": 0, "finish_reason": "length"}
	object := "text_completion"
	if a.chat {
		object = "chat.completion"
		choice["message"] = map[string]any{"role": "assistant", "content": words(0, tokens)}
	} else {
		choice["text"] = words(0, tokens)
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"id": a.id, "object": object, "model": a.prompt.model, "choices": []any{choice}, "usage": a.usage(tokens),
	})
}

// serveStream answers token by token, as server-sent events.
func (a *answer) serveStream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	out := http.NewResponseController(w)
	ctx := r.Context()
	sent, ended := 0, false
	var b []byte
	for !ended {
		tokens := 0
		var err error
		if tokens, ended, err = a.engine.progress(ctx, a.job, sent); err != nil {
			return
		}
		if ended && tokens < a.prompt.maxTokens {
			panic(http.ErrAbortHandler) // killed
		}
		b = a.appendEvent(b[:0], sent, tokens, ended)
		if ended {
			if a.prompt.includeUsage {
				b = a.appendUsage(b, tokens)
			}
			b = append(b, "data: [DONE]\n\n"...)
		}
		if _, err := w.Write(b); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
		sent = tokens
		if !ended {
			pause(ctx.Done(), coalesce)
		}
	}
}

// pause waits for the given time or until done.
func pause(done <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-done:
	}
}

// appendEvent appends the event for the tokens from..to.
func (a *answer) appendEvent(b []byte, from, to int, last bool) []byte {
	b = append(b, `data: {"id":"`...)
	b = append(b, a.id...)
	finish := "null"
	if last {
		finish = `"length"`
	}
	if a.chat {
		b = append(b, `","object":"chat.completion.chunk","choices":[{"index":0,"delta":{`...)
		if from == 0 {
			b = append(b, `"role":"assistant",`...)
		}
		b = append(b, `"content":"`...)
		b = append(b, words(from, to)...)
		b = append(b, `"},"finish_reason":`...)
	} else {
		b = append(b, `","object":"text_completion","choices":[{"index":0,"text":"`...)
		b = append(b, words(from, to)...)
		b = append(b, `","finish_reason":`...)
	}
	b = append(b, finish...)
	return append(b, "}]}\n\n"...)
}

func (a *answer) appendUsage(b []byte, tokens int) []byte {
	u, err := json.Marshal(a.usage(tokens))
	if err != nil {
		panic(err) // numbers only
	}
	b = append(b, `data: {"id":"`...)
	b = append(b, a.id...)
	b = append(b, `","choices":[],"usage":`...)
	b = append(b, u...)
	return append(b, "}\n\n"...)
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

func (a *answer) usage(tokens int) usage {
	a.engine.mu.Lock()
	defer a.engine.mu.Unlock()
	return usage{a.prompt.tokens, tokens, a.prompt.tokens + tokens, usageDetails{a.job.cached}}
}

// words is the text of the answer's tokens from..to: " tok" for each.
func words(from, to int) string { return strings.Repeat(" tok", max(0, to-from)) }
