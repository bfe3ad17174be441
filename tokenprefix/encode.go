package tokenprefix

import (
	"bytes"
	"slices"
)

// The canonical stream of a body is a sequence of items, each with a tag in
// front and an end that cannot occur in it, so that the stream can be read back
// in one way only. No item carries a length or a count in front of content that
// a later turn may extend.
//
//	conversation = { member } { message | part } with the tools, a member,
//	               behind the leading system messages
//	prompts      = { member | media } { prompt | member }
//	message      = 'M' role '"' { member | media | part } ')'
//	part         = 'T' text '"'  |  media  |  'O' value
//	media        = 'I' digest, repeated (see media.go)
//	prompt       = 'P' text '"'
//	member       = 'K' key '"' value
//	value        = 'S' text '"'  |  object  |  list  |  'R' JSON 0
//	object       = '{' { member } ')'
//	list         = '[' { part } ')'
//
// Texts are in canonical spelling (see spell.go), JSON is as spelled but for
// white space and the spelling of its strings.
const (
	tagMessage = 'M'
	tagText    = 'T'
	tagPrompt  = 'P'
	tagMedia   = 'I'
	tagPart    = 'O'
	tagKey     = 'K'
	tagString  = 'S'
	tagRaw     = 'R'
	tagObject  = '{'
	tagList    = '['
	tagEnd     = ')'
	endText    = '"'
	endRaw     = 0
)

// maxOrderedDepth is how deep inside a message or tool objects are put in order.
// What is nested deeper is taken as spelled, and needs no stack.
const maxOrderedDepth = 4

// An encoder writes the canonical stream of a body into a chain. It stays with
// the Signature so that its memory is used again.
type encoder struct {
	scanner
	chain
	media   media
	leading bool            // no text has been written yet
	skipped int             // bytes of text left out at the front
	hasher  *Hasher         // whose body it is
	window  []byte          // text shown to volatile
	ordered []orderedMember // stack of the objects being written
	seed    []byte          // of the chain
}

// reset forgets the prompt before, but for memory.
func (e *encoder) reset() {
	e.media.count, e.media.filled = 0, 0
	e.skipped = 0
}

// An orderedMember is a member of an object that is being put in order.
type orderedMember struct {
	name     []byte // key, decoded
	key, val span
}

// tagged writes the string v with a tag in front.
func (e *encoder) tagged(tag byte, v span) { e.spelled(tag, e.content(v)) }

// spelled writes the content of a string with a tag in front.
func (e *encoder) spelled(tag byte, content []byte) {
	e.writeByte(tag)
	e.spell(content)
	e.writeByte(endText)
}

// text writes the string v as text of the prompt, less what the Volatile hook
// leaves out.
func (e *encoder) text(tag byte, v span) {
	content := e.content(v)
	if e.leading {
		if content = e.afterVolatile(content); content == nil {
			return
		}
	}
	e.spelled(tag, content)
}

// parts writes the content of a message, in which a text and a list of that
// text are the same.
func (e *encoder) parts(v span, depth int) {
	if !e.is(v, '[') {
		e.part(v, depth)
		return
	}
	for p := range e.elements(v) {
		e.part(p, depth)
	}
}

// part writes one part of a message, unless it is absent.
func (e *encoder) part(v span, depth int) {
	switch {
	case !e.present(v):
	case e.is(v, '"'):
		e.text(tagText, v)
	case !e.is(v, '{'):
		e.writeByte(tagPart)
		e.raw(v)
	default:
		kind, text := e.partFields(v)
		switch {
		case isTextPart(kind) && e.is(text, '"'):
			e.text(tagText, text)
		case isMediaPart(kind):
			e.mediaPart(v)
		default:
			e.writeByte(tagPart)
			e.object(v, depth)
		}
	}
}

// partFields returns the type and the text of the part v.
func (e *encoder) partFields(v span) (kind []byte, text span) {
	for key, val := range e.members(v) {
		switch string(e.plain(key)) {
		case "type":
			kind = e.stringOf(val)
		case "text":
			text = val
		}
	}
	return kind, text
}

// isTextPart reports whether parts of this type are text and nothing else that
// reaches a prompt.
func isTextPart(kind []byte) bool {
	switch string(kind) {
	case "text", "input_text", "output_text":
		return true
	}
	return false
}

// named writes v, unless it is absent, as the member with the given name.
func (e *encoder) named(name string, v span) {
	if e.present(v) {
		e.key(name)
		e.value(nil, v, 0)
	}
}

// key writes a name of ours.
func (e *encoder) key(name string) {
	e.writeByte(tagKey)
	e.writeString(name)
	e.writeByte(endText)
}

// value writes the value v of the member with the given name. The objects that
// the API defines have no order; schemas and arguments are the caller's own, and
// reach the prompt as spelled.
func (e *encoder) value(name []byte, v span, depth int) {
	text := e.is(v, '"')
	switch {
	case isContent(name) && (text || e.is(v, '[') && depth < maxOrderedDepth):
		e.writeByte(tagList)
		e.parts(v, depth+1)
		e.writeByte(tagEnd)
	case text:
		e.tagged(tagString, v)
	case e.is(v, '{') && depth < maxOrderedDepth && !isVerbatim(name):
		e.object(v, depth)
	default:
		e.raw(v)
	}
}

// isVerbatim reports whether the order of the keys inside of a member of this
// name reaches the prompt.
func isVerbatim(name []byte) bool {
	switch string(name) {
	case "parameters", "input_schema", "input", "arguments", "schema":
		return true
	}
	return false
}

// isContent reports whether a member of this name is a text or a list of parts.
func isContent(name []byte) bool {
	switch string(name) {
	case "content", "output":
		return true
	}
	return false
}

// object writes the object v with its members in the order of their names. Of
// several members of one name the last one counts; members that are null, and
// those that never reach a prompt, are left out.
func (e *encoder) object(v span, depth int) {
	base := len(e.ordered)
	for key, val := range e.members(v) {
		e.ordered = append(e.ordered, orderedMember{e.plain(key), key, val})
	}
	end := len(e.ordered)
	slices.SortStableFunc(e.ordered[base:], func(a, b orderedMember) int { return bytes.Compare(a.name, b.name) })
	e.writeByte(tagObject)
	for i := base; i < end; i++ {
		m := e.ordered[i]
		repeated := i+1 < end && bytes.Equal(m.name, e.ordered[i+1].name)
		if repeated || !e.present(m.val) || string(m.name) == "cache_control" || string(m.name) == "status" {
			continue
		}
		e.tagged(tagKey, m.key)
		e.value(m.name, m.val, depth+1)
	}
	e.writeByte(tagEnd)
	clear(e.ordered[base:]) // keep no part of the body alive
	e.ordered = e.ordered[:base]
}

// raw writes the value v as spelled, but for white space and the spelling of its
// strings.
func (e *encoder) raw(v span) {
	e.writeByte(tagRaw)
	asSpelled := nextRespelled(e.b[v.start:v.end], 0) < 0
	run := v.start
	for i := v.start; i < v.end; {
		switch c := e.b[i]; {
		case c == '"' && asSpelled:
			i = e.skipString(i)
		case c == '"':
			e.write(e.b[run : i+1])
			run = e.skipString(i) - 1
			e.spell(e.b[i+1 : run])
			i = run + 1
		case isSpace(c):
			e.write(e.b[run:i])
			i = e.space(i)
			run = i
		default:
			i++
		}
	}
	e.write(e.b[run:v.end])
	e.writeByte(endRaw)
}
