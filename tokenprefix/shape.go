package tokenprefix

import "strings"

// A Shape is the layout of a request body: where the prompt is and how it is
// divided.
type Shape uint8

// The shapes that [Hasher.Body] knows.
const (
	ShapeUnknown     Shape = iota // not known: recognise it from the fields
	ShapeChat                     // messages: OpenAI chat completions, Ollama chat
	ShapeMessages                 // messages with a system field beside: Anthropic messages
	ShapeResponses                // input and instructions: OpenAI Responses
	ShapeCompletions              // prompt: OpenAI completions, llama.cpp completion, Ollama generate
	ShapeGenerate                 // text, input_ids or inputs: generate of SGLang and TGI
	ShapeEmbeddings               // input without instructions: OpenAI embeddings
)

// String returns the name of the shape in lower case.
func (s Shape) String() string {
	switch s {
	case ShapeChat:
		return "chat"
	case ShapeMessages:
		return "messages"
	case ShapeResponses:
		return "responses"
	case ShapeCompletions:
		return "completions"
	case ShapeGenerate:
		return "generate"
	case ShapeEmbeddings:
		return "embeddings"
	}
	return "unknown"
}

// ShapeOf returns the shape of the bodies that are posted to the given URL path,
// by the usual endings of paths, or [ShapeUnknown].
func ShapeOf(path string) Shape {
	path = strings.TrimSuffix(path, "/")
	for _, known := range [...]struct {
		ending string
		shape  Shape
	}{
		{"/chat/completions", ShapeChat},
		{"/api/chat", ShapeChat},
		{"/completions", ShapeCompletions},
		{"/completion", ShapeCompletions},
		{"/api/generate", ShapeCompletions},
		{"/messages", ShapeMessages},
		{"/responses", ShapeResponses},
		{"/embeddings", ShapeEmbeddings},
		{"/generate", ShapeGenerate},
		{"/generate_stream", ShapeGenerate},
	} {
		if strings.HasSuffix(path, known.ending) {
			return known.shape
		}
	}
	return ShapeUnknown
}

// isConversation reports whether prompts of this shape consist of turns.
func (s Shape) isConversation() bool {
	return s == ShapeChat || s == ShapeMessages || s == ShapeResponses
}
