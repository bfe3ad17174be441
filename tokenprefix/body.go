package tokenprefix

import (
	"bytes"
	"encoding/binary"
)

// Body sets dst to the signature of the prompt in a JSON request body and
// returns what else in the body matters to a router. The shape of the body is
// recognised from its fields, see [Shape]; use [Hasher.BodyAs] where the path of
// the request tells it.
//
// Where s.Model, s.Adapter or s.Salt is empty, the body's own model, adapter or
// cache_salt takes its place in the scope. The adapter is lora_path (SGLang) or
// adapter_id (TGI, also within parameters), which Meta.Adapter returns, or else
// the hash of lora (llama.cpp), a list of adapters, which it does not.
//
// A body that has no prompt to speak of is no error: dst is left without Blocks
// and with a Tail of 0, and Meta.Absence says why. Such requests must not be
// given a key in common; route them by load. Where Body meets something that
// can't be JSON, or the end within a value, it leaves dst as empty and returns an
// error that wraps [ErrSyntax] or [ErrTruncated]. It is no validator: see the
// second rule.
//
// The rules, where JSON or the APIs leave a choice:
//
//   - Of several members of one name the last one counts, as in Python and in
//     encoding/json; names are compared exactly, after decoding of escapes.
//   - Values that no key depends on are not checked beyond their brackets and
//     strings, nor is what follows the body's object. Any word of letters,
//     digits, dots and signs passes for a number or literal: a body that begins
//     with one, such as hello, is [AbsenceNotObject] like null. A byte-order mark
//     in front is ignored.
//   - In a list of prompts, which the engine runs as so many requests, the
//     elements follow one another, so Blocks starts with those of the first.
//     Tokens counts all of them.
//   - Two text parts are not the same as one with the joined text, as templates
//     put something between them.
//   - Keys inside of tool schemas and arguments keep their order, since it
//     reaches the prompt.
//   - Sampling, response_format, tool_choice, chat_template_kwargs, the effort
//     of reasoning, user, metadata and unknown fields do not take part. Where
//     one of them changes the beginning of prompts, set Scope.Salt from it.
//   - An image or other media part counts by its bytes as sent, a remote one by
//     its URL with the query.
//
// Body never changes the body, and keeps no reference to it except in the Meta
// that it returns. A compressed body has to be decoded first, by whoever knows
// its Content-Encoding and how large it may grow.
func (h *Hasher) Body(dst *Signature, s Scope, body []byte) (Meta, error) {
	return h.BodyAs(dst, s, ShapeUnknown, body)
}

// BodyAs is [Hasher.Body] for a body whose shape is known. [ShapeUnknown] means
// that it is not. A body without the fields of the shape has no signature.
func (h *Hasher) BodyAs(dst *Signature, s Scope, shape Shape, body []byte) (Meta, error) {
	w := bodyWriter{encoder: dst.reset(), sig: dst}
	w.begin(h, body)
	defer w.end()

	m := w.read(shape)
	if m.Absence == AbsenceNone {
		m.Absence = w.write(s, &m)
	}
	err := w.error()
	if err != nil {
		m = Meta{Shape: shape, Absence: AbsenceMalformed}
		dst.reset()
	}
	dst.BlockTokens = h.blockTokens()
	return m, err
}

// A bodyWriter writes one body: the fields it has found, and where they go.
type bodyWriter struct {
	*encoder
	sig    *Signature
	top    topFields
	system bool // still in the system part of a conversation
}

// begin makes e ready for the body of a call to h.
func (e *encoder) begin(h *Hasher, body []byte) {
	e.hasher = h
	e.scanner = scanner{b: body, long: e.long[:0]}
	e.leading = h.Volatile != nil
}

// end drops what e must not keep alive.
func (e *encoder) end() {
	e.b, e.hasher = nil, nil
}

// read finds the fields of the body and returns what they say, with a reason for
// Absence if nothing can be written.
func (w *bodyWriter) read(shape Shape) Meta {
	m := Meta{Shape: shape}
	start := w.space(len(w.b) - len(bytes.TrimPrefix(w.b, []byte("\xef\xbb\xbf"))))
	if start == len(w.b) {
		m.Absence = AbsenceEmptyBody
		return m
	}
	if w.b[start] != '{' {
		w.skip(start)
		m.Absence = AbsenceNotObject
		return m
	}
	for key, val := range w.members(span{start, len(w.b)}) {
		if at := w.top.at(w.plain(key)); at != nil {
			*at = val
		}
	}
	w.noted = true
	w.readMeta(&m)
	return m
}

// write writes the body whose fields have been read to a chain of its own, and
// completes the signature. It returns the reason if there is nothing to write.
func (w *bodyWriter) write(s Scope, m *Meta) Absence {
	prompt := w.promptOf(m.Shape)
	if a := w.absence(prompt, m.Shape); a != AbsenceNone {
		return a
	}
	h, scope := w.hasher, bodyScope{m.Model, m.Adapter, m.CacheSalt}
	var digest [8]byte
	if len(scope.adapter) == 0 && w.present(w.top.lora) {
		// llama.cpp: a list of adapters and their scales.
		binary.LittleEndian.PutUint64(digest[:], w.digest(w.top.lora))
		scope.adapter = digest[:]
	}
	if w.listsIDs(prompt) && !w.hasExtras() {
		h.start(w.encoder, w.sig, domainTokens, s, scope)
		if w.idPrompts(prompt) {
			h.finishTokens(w.encoder, w.sig)
			if w.sig.Tokens == 0 { // lists of no ids
				w.sig.reset()
				return AbsenceEmptyPrompt
			}
			return AbsenceNone
		}
	}
	h.start(w.encoder, w.sig, domainBody, s, scope)
	if m.Shape.isConversation() {
		w.conversation(prompt)
	} else {
		w.prompts(prompt)
	}
	if w.err == faultNone {
		h.finishText(w.encoder, w.sig)
	}
	return AbsenceNone
}

// absence returns why the prompt of a body of the given shape cannot be used, or
// AbsenceNone.
func (w *bodyWriter) absence(prompt span, shape Shape) Absence {
	switch {
	case !w.present(prompt):
		return AbsenceNoPrompt
	case w.is(prompt, '['):
		for range w.elements(prompt) {
			return AbsenceNone
		}
		return AbsenceEmptyPrompt
	case shape == ShapeChat || shape == ShapeMessages:
		return AbsenceWrongType
	case w.is(prompt, '"'):
		if len(w.content(prompt)) == 0 {
			return AbsenceEmptyPrompt
		}
		return AbsenceNone
	case w.is(prompt, '{') && !shape.isConversation():
		return AbsenceNone
	}
	return AbsenceWrongType
}
