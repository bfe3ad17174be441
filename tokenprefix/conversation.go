package tokenprefix

import "bytes"

// conversation writes a body that consists of turns: chat completions, Anthropic
// messages, the Responses API. The order is that of the prompt: system texts,
// tools, turns. Templates differ in whether the tools come before or behind the
// system text; those of Qwen, DeepSeek and Hermes put them behind, and so does
// the stream.
func (w *bodyWriter) conversation(turns span) {
	w.system = true
	w.named("chat_template", w.top.chatTemplate)
	w.named("mm_processor_kwargs", w.top.mmProcessor)
	w.message("system", w.top.system)
	w.message("system", w.top.instructions)
	if w.present(w.top.previousResponse) || w.present(w.top.conversation) {
		// The history is on the engine, and its id is all there is to tell it by.
		w.endSystem()
		w.named("previous_response_id", w.top.previousResponse)
		w.named("conversation", w.top.conversation)
		w.endHistory()
	}
	if w.is(turns, '[') {
		for v := range w.elements(turns) {
			w.turn(v)
		}
		w.endSystem()
	} else {
		w.endSystem()
		w.message("user", turns)
	}
}

// endSystem writes what belongs to the system part beside its messages, and
// marks its end.
func (w *bodyWriter) endSystem() {
	if !w.system {
		return
	}
	w.system = false
	w.list("tools", w.top.tools)
	w.list("functions", w.top.functions)
	w.named("documents", w.top.documents)
	w.sig.SystemBlocks = len(w.blocks)
}

// endHistory marks the end of an assistant's turn.
func (w *bodyWriter) endHistory() { w.sig.HistoryBlocks = len(w.blocks) }

// list writes the objects listed in v; an empty list is like none.
func (w *bodyWriter) list(name string, v span) {
	if !w.is(v, '[') {
		w.named(name, v)
		return
	}
	empty := true
	for x := range w.elements(v) {
		if empty {
			w.key(name)
			w.writeByte(tagList)
			empty = false
		}
		w.value(nil, x, 0)
	}
	if !empty {
		w.writeByte(tagEnd)
	}
}

// message writes a message of ours with the given content, unless that is absent.
func (w *bodyWriter) message(role string, content span) {
	if !w.present(content) {
		return
	}
	w.writeByte(tagMessage)
	w.writeString(role)
	w.writeByte(endText)
	w.parts(content, 0)
	w.writeByte(tagEnd)
}

// messageFields are the members of a message that reach a prompt.
type messageFields struct {
	kind, role, name, content, reasoning, images, toolCalls, functionCall, toolCallID span
}

// at returns the place for the member with the given name, or nil.
func (f *messageFields) at(name []byte) *span {
	switch string(name) {
	case "type":
		return &f.kind
	case "role":
		return &f.role
	case "name", "tool_name":
		return &f.name
	case "content":
		return &f.content
	case "reasoning_content", "reasoning", "thinking":
		return &f.reasoning
	case "images":
		return &f.images
	case "tool_calls":
		return &f.toolCalls
	case "function_call":
		return &f.functionCall
	case "tool_call_id":
		return &f.toolCallID
	}
	return nil
}

// turn writes a message, or an item of the Responses API that is something else.
func (w *bodyWriter) turn(v span) {
	if !w.is(v, '{') {
		w.endSystem()
		w.part(v, 0)
		return
	}
	var f messageFields
	for key, val := range w.members(v) {
		if at := f.at(w.plain(key)); at != nil {
			*at = val
		}
	}
	if kind := w.stringOf(f.kind); len(kind) > 0 && string(kind) != "message" {
		w.item(v, kind)
		return
	}
	role := w.stringOf(f.role)
	if string(role) != "system" && string(role) != "developer" {
		w.endSystem()
	}
	if w.is(f.role, '"') {
		w.tagged(tagMessage, f.role)
	} else {
		w.writeByte(tagMessage)
		w.writeByte(endText)
		w.named("role", f.role)
	}
	w.named("name", f.name)
	w.named("tool_call_id", f.toolCallID)
	w.named("reasoning", f.reasoning)
	w.medias(f.images)
	w.parts(f.content, 0)
	w.list("tool_calls", f.toolCalls)
	w.named("function_call", f.functionCall)
	w.writeByte(tagEnd)
	if string(role) == "assistant" {
		w.endHistory()
	}
}

// item writes an item such as a function call or its output. All but the outputs
// are the assistant's.
func (w *bodyWriter) item(v span, kind []byte) {
	w.endSystem()
	w.part(v, 0)
	if !bytes.HasSuffix(kind, []byte("_output")) {
		w.endHistory()
	}
}
