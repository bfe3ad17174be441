package tokenprefix_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Bodies for benchmarks and tests, made from a seed, spelled as clients do.

// words returns n bytes or a little more of text with lines and quotes: a line
// every 60 bytes and a quoted word every 200, which is more quotes than prose and
// most source code have.
func words(r *rand.Rand, n int) string {
	vocabulary := strings.Fields("the parcel zone tariff invoice answer customer of and with route depot hour weight return label carrier delivery never promise before after which")
	var b strings.Builder
	for line := 0; b.Len() < n; {
		w := vocabulary[r.IntN(len(vocabulary))]
		if r.IntN(32) == 0 {
			w = `"` + w + `"`
		}
		b.WriteString(w)
		if line += len(w) + 1; line > 60 {
			b.WriteByte('\n')
			line = 0
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// toolResults returns n bytes or a little more of JSON, as tools answer with it:
// once it is a string in a body, a backslash comes every few bytes.
func toolResults(r *rand.Rand, n int) string {
	var rows []map[string]any
	for size := 0; size < n; size += 80 {
		rows = append(rows, map[string]any{
			"zone": string(rune('A' + r.IntN(26))), "eur": r.IntN(100), "depot": words(r, 12), "open": r.IntN(2) == 0,
		})
	}
	return string(marshal(rows))
}

// cjk returns n bytes or a little more of Chinese characters.
func cjk(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteRune(rune(0x4e00 + r.IntN(0x5000)))
		if r.IntN(40) == 0 {
			b.WriteString("。\n")
		}
	}
	return b.String()
}

type chatMessage struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

// chatOf returns a chat body with a system message of the given text, followed
// by turns of about size bytes together.
func chatOf(r *rand.Rand, system string, turns, size int, text func(*rand.Rand, int) string) []byte {
	messages := []chatMessage{{"system", system}}
	for i := range turns {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		messages = append(messages, chatMessage{role, text(r, size/turns)})
	}
	return marshal(map[string]any{"model": "acme/chat-8b", "messages": messages, "temperature": 0.2, "stream": true})
}

// marshal returns the JSON of v without the escapes for HTML.
func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// escaped returns the JSON with every character that is not ASCII as \uXXXX, as
// Python's json.dumps spells it.
func escaped(body []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(body) {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		}
	}
	return b.Bytes()
}

// toolsOf returns a chat body with tools of about size bytes.
func toolsOf(r *rand.Rand, size int) []byte {
	var tools []any
	for n := 0; n < size; {
		properties := map[string]any{}
		for i := range 4 {
			properties[fmt.Sprintf("field_%d", i)] = map[string]any{
				"type": "string", "description": words(r, 60), "enum": []string{"A", "B", "C"},
			}
		}
		tool := map[string]any{"type": "function", "function": map[string]any{
			"name": fmt.Sprintf("tool_%d", len(tools)), "description": words(r, 200),
			"parameters": map[string]any{
				"type": "object", "properties": properties, "required": []string{"field_0"}, "additionalProperties": false,
			},
		}}
		n += len(marshal(tool))
		tools = append(tools, tool)
	}
	return marshal(map[string]any{
		"model":    "acme/chat-8b",
		"messages": []chatMessage{{"system", "You are the help desk."}, {"user", "How much is zone B?"}},
		"tools":    tools,
	})
}

// idsOf returns n token ids.
func idsOf(r *rand.Rand, n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = r.Uint32N(128_000)
	}
	return ids
}

// imageOf returns a chat body with an image of n bytes in base64.
func imageOf(r *rand.Rand, n int) []byte {
	data := make([]byte, n*3/4)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return marshal(map[string]any{"model": "acme/vision-8b", "messages": []chatMessage{{"user", []any{
		map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64," + base64Of(data)}},
		map[string]any{"type": "text", "text": "Which zone is this?"},
	}}}})
}

func base64Of(b []byte) string {
	return string(bytes.Trim(marshal(b), `"`)) // encoding/json spells []byte in base64
}
