package tokenprefix_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf16"
)

// object is a JSON object with an order. The members of a fixed one keep it in
// every spelling.
type object struct {
	members []objectField
	fixed   bool
}

type objectField struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o.members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(marshal(m.name))
		b.WriteByte(':')
		b.Write(marshal(m.value))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// value returns the request as a tree of objects, []any, strings and
// json.RawMessage. With r it is one of many trees that mean the same.
func (q request) value(r *rand.Rand) object {
	chance := func(n int) bool { return r != nil && r.IntN(n) == 0 }
	o := object{members: []objectField{{"model", q.Model}}}
	if q.Salt != "" {
		o.add("cache_salt", q.Salt)
	}
	var tools, messages []any
	for _, t := range q.Tools {
		schema := object{fixed: true}
		for _, f := range t.Schema {
			schema.add(f.Name, object{fixed: true, members: []objectField{{"type", f.Type}, {"maximum", json.RawMessage("1.50")}}})
		}
		wrapped := object{members: []objectField{{"type", "function"}, {"function", object{members: []objectField{
			{"name", t.Name}, {"description", t.Description},
			{"parameters", object{fixed: true, members: []objectField{
				{"type", "object"}, {"properties", schema}, {"required", []any{}},
			}}},
		}}}}}
		if chance(3) {
			wrapped.add("cache_control", object{members: []objectField{{"type", "ephemeral"}}})
		}
		tools = append(tools, wrapped)
	}
	if len(tools) > 0 || chance(3) {
		o.add("tools", tools)
	}
	for _, m := range q.Messages {
		messages = append(messages, m.value(chance))
	}
	o.add("messages", messages)
	if chance(2) {
		o.add("temperature", json.RawMessage("0.7"))
		o.add("metadata", object{members: []objectField{{"messages", []any{"x"}}, {"model", "y"}}})
		o.add("user", "u\"}],[")
	}
	return o
}

func (m message) value(chance func(int) bool) object {
	o := object{members: []objectField{{"role", m.Role}}}
	for _, f := range []objectField{{"name", m.Name}, {"reasoning_content", m.Reasoning}, {"tool_call_id", m.CallID}} {
		if f.value != "" {
			o.add(f.name, f.value)
		} else if chance(4) {
			o.add(f.name, nil)
		}
	}
	var parts []any
	for _, p := range m.Parts {
		x := object{members: []objectField{{"type", "text"}, {"text", p.Text}}}
		if p.Image != "" {
			x = object{members: []objectField{{"type", "image_url"}, {"image_url", object{members: []objectField{{"url", p.Image}}}}}}
		}
		if chance(3) {
			x.add("cache_control", object{members: []objectField{{"type", "ephemeral"}}})
		}
		parts = append(parts, x)
	}
	if len(m.Parts) == 1 && m.Parts[0].Image == "" && !chance(3) {
		o.add("content", m.Parts[0].Text)
	} else {
		o.add("content", parts)
	}
	var calls []any
	for _, c := range m.Calls {
		calls = append(calls, object{members: []objectField{{"id", c.ID}, {"type", "function"}, {"function", object{members: []objectField{
			{"name", c.Name}, {"arguments", c.Arguments},
		}}}}})
	}
	if len(calls) > 0 || chance(4) {
		o.add("tool_calls", calls)
	}
	if chance(4) {
		o.add("annotations", []any{})
	}
	return o
}

func (o *object) add(name string, value any) {
	o.members = append(o.members, objectField{name, value})
}

// respelled returns the JSON of the tree in one of many spellings.
func respelled(r *rand.Rand, v any) []byte {
	var b bytes.Buffer
	if r.IntN(5) == 0 {
		b.WriteString("\ufeff")
	}
	spell(&b, r, v)
	return b.Bytes()
}

func spell(b *bytes.Buffer, r *rand.Rand, v any) {
	space := func() {
		if r.IntN(6) == 0 {
			b.WriteString([]string{" ", "\n\t", "\r\n", "   "}[r.IntN(4)])
		}
	}
	space()
	switch v := v.(type) {
	case object:
		members := slices.Clone(v.members)
		if !v.fixed {
			r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		}
		if !v.fixed && len(members) > 0 && r.IntN(6) == 0 {
			// An earlier member of a name does not count.
			members = append([]objectField{{members[0].name, "not this one"}}, members...)
		}
		b.WriteByte('{')
		for i, m := range members {
			if i > 0 {
				b.WriteByte(',')
			}
			space()
			spellString(b, r, m.name)
			space()
			b.WriteByte(':')
			spell(b, r, m.value)
		}
		space()
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, x := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			spell(b, r, x)
		}
		space()
		b.WriteByte(']')
	case string:
		spellString(b, r, v)
	default:
		b.Write(marshal(v))
	}
	space()
}

// spellString writes a JSON string with escapes wherever they are allowed and
// chance wills it.
func spellString(b *bytes.Buffer, r *rand.Rand, s string) {
	short := strings.NewReplacer("\n", `\n`, "\t", `\t`, "\r", `\r`, "\b", `\b`, "\f", `\f`, "/", `\/`, `"`, `\"`, `\`, `\\`)
	often := 1 + r.IntN(20)
	b.WriteByte('"')
	for _, c := range s {
		must := c < ' ' || c == '"' || c == '\\'
		switch e := short.Replace(string(c)); {
		case e != string(c) && (must && r.IntN(3) > 0 || r.IntN(often) == 0):
			b.WriteString(e)
		case must || r.IntN(often) == 0:
			format := []string{`\u%04x`, `\u%04X`}[r.IntN(2)]
			if c >= 0x10000 {
				hi, lo := utf16.EncodeRune(c)
				fmt.Fprintf(b, format+format, hi, lo)
			} else {
				fmt.Fprintf(b, format, c)
			}
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
}
