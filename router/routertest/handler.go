package routertest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// maxBody is the most bytes that an engine reads of a request.
const maxBody = 64 << 20

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

// errKilled is what a request meets that arrives while the engine is killed.
var errKilled = errors.New("routertest: the engine was killed")

// complete serves one completion.
func (e *Engine) complete(w http.ResponseWriter, r *http.Request, chat bool) {
	e.mu.Lock()
	status := e.status
	e.mu.Unlock()
	if status != 0 {
		writeError(w, status, "this engine was told to fail")
		return
	}
	body, err := readBody(w, r)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		writeError(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	case err != nil:
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	p, err := parsePrompt(body, chat)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	id, j, err := e.submit(p)
	switch {
	case err == errKilled:
		panic(http.ErrAbortHandler)
	case err != nil:
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	defer e.cancel(id)
	a := newAnswer(e, id, j, p, chat)
	if p.stream {
		a.serveStream(w, r)
	} else {
		a.serveWhole(w, r)
	}
}

// readBody reads the body of a request in one piece if its length is known.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	switch {
	case r.ContentLength > maxBody:
		return nil, &http.MaxBytesError{Limit: maxBody}
	case r.ContentLength < 0:
		return io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	}
	b := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, b)
	return b, err
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(mustJSON(v)) // a client that has left is no concern
}

// mustJSON encodes values of our own making, which all have a JSON form.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// writeError writes an error in the form of OpenAI's and vLLM's servers.
func writeError(w http.ResponseWriter, status int, message string) {
	kind := "BadRequestError"
	if status >= 500 {
		kind = "InternalServerError"
	}
	writeJSON(w, status, map[string]any{
		"error": map[string]any{"message": message, "type": kind, "code": status},
	})
}
