package tokenprefix_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/tokenprefix"
)

// TestBody_NoStructureCollides hashes every small structure that can be built
// from texts which look like the tags and ends of the canonical stream.
func TestBody_NoStructureCollides(t *testing.T) {
	texts := []string{``, `a`, `)`, `T`, `\"`, `\\`, `\"T`, `)M`, `M\"T\")`}
	var parts []string
	for _, x := range texts {
		parts = append(parts,
			`{"type":"text","text":"`+x+`"}`,
			`{"type":"thinking","thinking":"`+x+`"}`,
			`{"type":"x","k":["`+x+`"]}`,
			`{"type":"tool_result","content":[{"type":"text","text":"`+x+`"}]}`,
		)
	}
	parts = append(parts, `{"type":"tool_result"}`, `{"type":"x","k":{}}`, `{"type":"x","k":[]}`, `{"type":"x","k":0}`, `{"type":"x","k":""}`)
	var contents []string
	for _, a := range parts {
		contents = append(contents, a)
		for _, b := range parts {
			contents = append(contents, a+","+b)
		}
	}
	var bodies []string
	for _, c := range contents {
		bodies = append(bodies, `[{"role":"user","content":[`+c+`]}]`)
	}
	for _, a := range texts {
		for _, b := range texts {
			bodies = append(bodies,
				`[{"role":"`+a+`","content":[]},{"role":"`+b+`","content":[]}]`,
				`[{"role":"user","name":"`+a+`","content":"`+b+`T"}]`,
				`[{"role":"user","content":"`+a+`"},{"role":"`+b+`x","content":"x"}]`,
				`[{"role":"user","content":"`+a+`"},"`+b+`"]`,
				`[{"role":"user","tool_call_id":"`+a+`","reasoning":"`+b+`"}]`,
				`[{"role":"user","reasoning":"`+a+`","tool_calls":[{"id":"`+b+`"}]}]`,
				`[{"role":"user","tool_calls":[{"id":"`+a+`"},{"id":"`+b+`"}]}]`,
				`[{"role":"user","tool_calls":[{"id":"`+a+`"}]},{"role":"user","tool_calls":[{"id":"`+b+`"}]}]`,
				`[{"role":"user","name":"`+a+`"},{"role":"user","name":"`+b+`"}]`,
			)
		}
	}
	for _, odd := range []string{`1`, `2`, `[1]`, `[[1]]`, `true`, `{}`, `"1"`} {
		bodies = append(bodies,
			`[{"role":"user","content":[`+odd+`,"x"]}]`,
			`[{"role":`+odd+`,"content":[]}]`,
			`[{"role":"user","tool_calls":{"id":`+odd+`}}]`,
			`[{"role":"user","content":[]},`+odd+`]`,
		)
	}
	seen := map[uint64]string{}
	h := fine()
	var sig tokenprefix.Signature
	for _, b := range bodies {
		_, err := h.Body(&sig, tokenprefix.Scope{}, []byte(`{"messages":`+b+`}`))
		must(t, err)
		if other, ok := seen[sig.Tail]; ok && other != b {
			t.Errorf("%s and %s have one tail", b, other)
		}
		seen[sig.Tail] = b
	}
	if len(seen) < 2000 {
		t.Errorf("only %d structures", len(seen))
	}
}

func TestBody_WhatTakesPart(t *testing.T) {
	const basis = `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],"tools":[{"type":"function","function":{"name":"f"}}]}`
	want, _ := signed(t, fine(), tokenprefix.Scope{}, []byte(basis))
	for _, test := range []struct {
		name, old, new string
		same           bool
	}{
		{"stream", `"tools"`, `"stream":true,"tools"`, true},
		{"sampling", `"tools"`, `"top_p":0.1,"seed":3,"stop":["x"],"n":2,"tools"`, true},
		{"response format", `"tools"`, `"response_format":{"type":"json_object"},"tool_choice":"auto","tools"`, true},
		{"template arguments", `"tools"`, `"chat_template_kwargs":{"enable_thinking":false},"tools"`, true},
		{"ids in an ignored place", `"tools"`, `"prompt_token_ids":[1,2],"tools"`, true},
		{"empty functions", `"tools"`, `"functions":[],"tools"`, true},
		{"null documents", `"tools"`, `"documents":null,"tools"`, true},
		{"status of a message", `"content":"a"`, `"content":"a","status":"completed","id":"m1"`, true},
		{"cache mark on a tool", `"type":"function"`, `"type":"function","cache_control":{"type":"ephemeral"}`, true},
		{"key order in a tool", `"type":"function","function":{"name":"f"}`, `"function":{"name":"f"},"type":"function"`, true},
		{"list of adapters", `"tools"`, `"lora":[{"id":0,"scale":0.5}],"tools"`, false},
		{"adapter of SGLang", `"tools"`, `"lora_path":"sql","tools"`, false},
		{"tools that are no list", `"tools"`, `"tools":{"a":1},"x"`, false},
		{"documents", `"tools"`, `"documents":[{"text":"d"}],"tools"`, false},
		{"template", `"tools"`, `"chat_template":"x","tools"`, false},
		{"media options", `"tools"`, `"mm_processor_kwargs":{"min_pixels":1},"tools"`, false},
		{"system", `"tools"`, `"system":"s","tools"`, false},
		{"reasoning", `"content":"a"`, `"content":"a","reasoning_content":"r"`, false},
		{"unknown member of a tool", `"type":"function"`, `"type":"function","strict":true`, false},
		{"role", `"user"`, `"tool"`, false},
		{"name", `"role":"user"`, `"role":"user","name":"n"`, false},
		{"images of Ollama", `"content":"q"`, `"content":"q","images":["aGk="]`, false},
		{"deprecated call", `"content":"a"`, `"content":"a","function_call":{"name":"f","arguments":"{}"}`, false},
		{"no tools", `"tools"`, `"x"`, false},
	} {
		if strings.Count(basis, test.old) == 0 {
			t.Fatalf("%s: nothing to replace", test.name)
		}
		got, _ := signed(t, fine(), tokenprefix.Scope{}, []byte(strings.Replace(basis, test.old, test.new, 1)))
		if same(got, want) != test.same {
			t.Errorf("%s: same signature is %v, want %v", test.name, !test.same, test.same)
		}
	}
}

func TestBody_WhatTakesPartBesideAPrompt(t *testing.T) {
	seen := map[uint64]string{}
	for _, fields := range []string{
		`"prompt":"x"`, `"prompt":"x","suffix":"s"`, `"prompt":"x","context":[1,2]`, `"prompt":"x","system":"s"`,
		`"prompt":"x","images":["aGk="]`, `"prompt":"x","images":["aGg="]`, `"prompt":["x","s"]`, `"prompt":["s","x"]`,
		`"prompt":[1,2]`, `"prompt":[1,2],"suffix":"s"`, `"prompt":[1,2],"context":[1,2]`, `"prompt":[1,2],"system":"s"`,
	} {
		sig, _ := signed(t, fine(), tokenprefix.Scope{}, []byte("{"+fields+"}"))
		if other, ok := seen[sig.Tail]; ok {
			t.Errorf("%s and %s have one tail", fields, other)
		}
		seen[sig.Tail] = fields
	}
}

func TestBody_HistoryOnTheEngineCounts(t *testing.T) {
	instructions := strings.Repeat("Answer in three sentences. ", 10)
	sig, _ := signed(t, fine(), tokenprefix.Scope{}, []byte(`{"instructions":"`+instructions+
		`","previous_response_id":"`+strings.Repeat("r", 200)+`","input":"`+instructions+`"}`))
	if sig.SystemBlocks != 4 || sig.HistoryBlocks != 7 || len(sig.Blocks) != 12 {
		t.Errorf("%d system and %d history of %d blocks, want 4 and 7 of 12", sig.SystemBlocks, sig.HistoryBlocks, len(sig.Blocks))
	}
}

func TestBody_LoneSurrogatesKeepApart(t *testing.T) {
	seen := map[uint64]string{}
	for _, forms := range [][]string{
		{`\ud800`, `\uD800`},
		{`\udfff`, `\uDfFF`},
		{`\ud800\udc00`, `\uD800\uDC00`, "\U00010000"},
		{`\udc00\ud800`, `\uDC00\uD800`},
		{`\ud800\ndc00`, `\ud800\u000adc00`},
		{`\ud800xudc00`, `\uD800\u0078udc00`},
		{`\ud800dc00`},
		{`d800`},
		{`\\ud800`, `\u005cud800`},
		{"\ufffd", `\uFFFD`},
		{"\xed\xa0\x80"}, // a surrogate in UTF-8 is not UTF-8, and stays
		{`\u12`},
		{`\u00zz`},
		{`\u00gg`},
		{`\u00::`},
		{`\u0020\u0021\u001f`, ` !\u001F`},
	} {
		want, _ := signed(t, fine(), tokenprefix.Scope{}, []byte(`{"prompt":"`+forms[0]+`"}`))
		if other, ok := seen[want.Tail]; ok {
			t.Errorf("prompts %q and %q have one tail", forms[0], other)
		}
		seen[want.Tail] = forms[0]
		for _, f := range forms[1:] {
			if got, _ := signed(t, fine(), tokenprefix.Scope{}, []byte(`{"prompt":"`+f+`"}`)); !same(got, want) {
				t.Errorf("prompt %q = %+v, want %+v as of %q", f, got, want, forms[0])
			}
		}
	}
}

func TestBody_OneTextInAnyForm(t *testing.T) {
	for _, forms := range [][]string{
		{ // a tool result of Anthropic
			`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"7"}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"7"}]}]}]}`,
			`{"messages":[{"role":"user","content":[{"content":[{"text":"7","type":"text","cache_control":{}}],"type":"tool_result","tool_use_id":"t"}]}]}`,
		},
		{ // input of Responses
			`{"input":"hi"}`,
			`{"input":[{"role":"user","content":"hi"}]}`,
			`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}],"id":"m","status":"completed"}]}`,
		},
		{ // items of Responses
			`{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]}`,
			`{"input":[{"status":"completed","arguments":"{}","name":"f","call_id":"c","type":"function_call"}]}`,
		},
		{ // completions
			`{"prompt":"hi"}`,
			`{"prompt":["hi"]}`,
			`{"text":"hi"}`,
			`{"inputs":"hi","parameters":{"max_new_tokens":3}}`,
		},
		{ // key order inside of image parts
			`{"messages":[{"content":[{"type":"image_url","image_url":{"url":"u","detail":"low"}}]}]}`,
			`{"messages":[{"content":[{"image_url":{"detail":"low","url":"u"},"type":"image_url"}]}]}`,
		},
	} {
		want, _ := signed(t, fine(), tokenprefix.Scope{}, []byte(forms[0]))
		for _, f := range forms[1:] {
			if got, _ := signed(t, fine(), tokenprefix.Scope{}, []byte(f)); !same(got, want) {
				t.Errorf("Body(%s) = %+v, want %+v as of %s", f, got, want, forms[0])
			}
		}
	}
}

// TestBody_DeepNesting puts a million levels wherever a value may be.
func TestBody_DeepNesting(t *testing.T) {
	const levels = 1_000_000
	arrays := strings.Repeat("[", levels) + strings.Repeat("]", levels)
	objects := strings.Repeat(`{"content":[`, levels) + strings.Repeat("]}", levels)
	for name, body := range map[string]string{
		"ignored field":  `{"messages":[{"role":"user","content":"hi"}],"x":` + arrays + `}`,
		"messages":       `{"messages":` + arrays + `}`,
		"content":        `{"messages":[{"role":"user","content":` + arrays + `}]}`,
		"nested content": `{"messages":[{"role":"user","content":` + objects + `}]}`,
		"tools":          `{"messages":[{}],"tools":` + arrays + `}`,
		"prompt":         `{"prompt":` + arrays + `}`,
		"object prompt":  `{"prompt":` + objects + `}`,
		"parameters":     `{"prompt":"x","parameters":` + objects + `}`,
	} {
		var sig tokenprefix.Signature
		if m, err := fine().Body(&sig, tokenprefix.Scope{}, []byte(body)); err != nil || sig.Tail == 0 {
			t.Errorf("%s: Body = %v, %v, want a signature", name, m.Absence, err)
		}
		_, err := fine().Body(&sig, tokenprefix.Scope{}, []byte(body[:len(body)/2]))
		if !errors.Is(err, tokenprefix.ErrTruncated) {
			t.Errorf("%s: Body of half of it = %v, want ErrTruncated", name, err)
		}
	}
}

func TestBody_EveryTruncationIsAnError(t *testing.T) {
	for _, name := range []string{"chat_tools.json", "anthropic_tools_thinking.json", "completions_token_ids.json", "chat_basic_reformatted.json"} {
		body := bytes.TrimSpace(readBody(t, name))
		for n := 1; n < len(body); n++ {
			var sig tokenprefix.Signature
			m, err := fine().Body(&sig, tokenprefix.Scope{}, body[:n:n])
			if !errors.Is(err, tokenprefix.ErrTruncated) || m.Absence != tokenprefix.AbsenceMalformed || sig.Tail != 0 {
				t.Fatalf("Body(%s[:%d]) = %v, %v, want ErrTruncated", name, n, m.Absence, err)
			}
		}
	}
}

func TestBody_SyntaxErrors(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{`{"messages" [{}]}`, `unexpected '[' at byte 12`},
		{`{"messages":[{}] "model":"m"}`, `unexpected '"' at byte 17`},
		{`{messages:[]}`, `unexpected 'm' at byte 1`},
		{`{"messages":[{"role" "user"}]}`, `unexpected '"' at byte 21`},
		{`{"messages":[{"role":"user"}{"role":"user"}]}`, `unexpected '{' at byte 28`},
		{`{"messages":[{"role":"user"],"x":1}`, `unexpected ']' at byte 27`},
		{`{"prompt":}`, `unexpected '}' at byte 10`},
		{"{\"prompt\":\"x\",\"y\":[\x00]}", `unexpected '\x00' at byte 19`},
		{`<html>`, `unexpected '<' at byte 0`},
	} {
		var sig tokenprefix.Signature
		_, err := fine().Body(&sig, tokenprefix.Scope{}, []byte(test.body))
		if !errors.Is(err, tokenprefix.ErrSyntax) || !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("Body(%s) error = %v, want %s", test.body, err, test.want)
		}
	}
}

func TestBodyAs_NamedShapeDecides(t *testing.T) {
	for _, test := range []struct {
		shape tokenprefix.Shape
		body  string
		want  tokenprefix.Absence
	}{
		{tokenprefix.ShapeChat, `{"prompt":"x"}`, tokenprefix.AbsenceNoPrompt},
		{tokenprefix.ShapeCompletions, `{"messages":[{}]}`, tokenprefix.AbsenceNoPrompt},
		{tokenprefix.ShapeCompletions, `{"messages":[{}],"prompt":"x"}`, tokenprefix.AbsenceNone},
		{tokenprefix.ShapeEmbeddings, `{"input":"x"}`, tokenprefix.AbsenceNone},
		{tokenprefix.ShapeResponses, `{"input":7}`, tokenprefix.AbsenceWrongType},
		{tokenprefix.ShapeResponses, `{"input":{}}`, tokenprefix.AbsenceWrongType},
		{tokenprefix.ShapeResponses, `{"input":[]}`, tokenprefix.AbsenceEmptyPrompt},
		{tokenprefix.ShapeGenerate, `{"prompt":"x"}`, tokenprefix.AbsenceNone},
		{tokenprefix.ShapeGenerate, `{"inputs":""}`, tokenprefix.AbsenceEmptyPrompt},
		{tokenprefix.ShapeGenerate, `{"inputs":true}`, tokenprefix.AbsenceWrongType},
		{tokenprefix.ShapeMessages, `{"messages":[{"role":"user","content":"x"}]}`, tokenprefix.AbsenceNone},
		{tokenprefix.Shape(99), `{"messages":[{}]}`, tokenprefix.AbsenceNoPrompt},
		{tokenprefix.ShapeUnknown, `[{"prompt":"x"}]`, tokenprefix.AbsenceNotObject},
		{tokenprefix.ShapeUnknown, `"prompt"`, tokenprefix.AbsenceNotObject},
		{tokenprefix.ShapeUnknown, `-1.5e+3`, tokenprefix.AbsenceNotObject},
		{tokenprefix.ShapeUnknown, `hello`, tokenprefix.AbsenceNotObject}, // literals are not checked
		{tokenprefix.ShapeUnknown, `hello, world`, tokenprefix.AbsenceNotObject},
	} {
		var sig tokenprefix.Signature
		m, err := fine().BodyAs(&sig, tokenprefix.Scope{}, test.shape, []byte(test.body))
		if err != nil || m.Absence != test.want || m.Shape != test.shape || (sig.Tail != 0) != (test.want == tokenprefix.AbsenceNone) {
			t.Errorf("BodyAs(%v, %s) = %v, %v, tail %x, want %v", test.shape, test.body, m, err, sig.Tail, test.want)
		}
	}
	// What embeddings and responses take for a text are different prompts.
	var a, b tokenprefix.Signature
	_, errA := fine().BodyAs(&a, tokenprefix.Scope{}, tokenprefix.ShapeEmbeddings, []byte(`{"input":"x"}`))
	_, errB := fine().BodyAs(&b, tokenprefix.Scope{}, tokenprefix.ShapeResponses, []byte(`{"input":"x"}`))
	if errA != nil || errB != nil || a.Tail == b.Tail {
		t.Errorf("embedding and response of one input: %v, %v, tails %x, %x", errA, errB, a.Tail, b.Tail)
	}
}

func TestShapeOf_Paths(t *testing.T) {
	for path, want := range map[string]tokenprefix.Shape{
		"/v1/chat/completions":        tokenprefix.ShapeChat,
		"/v1/chat/completions/":       tokenprefix.ShapeChat,
		"/openai/v1/completions":      tokenprefix.ShapeCompletions,
		"/completion":                 tokenprefix.ShapeCompletions,
		"/v1/messages":                tokenprefix.ShapeMessages,
		"/v1/responses":               tokenprefix.ShapeResponses,
		"/v1/embeddings":              tokenprefix.ShapeEmbeddings,
		"/generate":                   tokenprefix.ShapeGenerate,
		"/generate_stream":            tokenprefix.ShapeGenerate,
		"/api/chat":                   tokenprefix.ShapeChat,
		"/api/generate":               tokenprefix.ShapeCompletions,
		"/v1/models":                  tokenprefix.ShapeUnknown,
		"/v1/messages/count":          tokenprefix.ShapeUnknown,
		"":                            tokenprefix.ShapeUnknown,
		"/v1/audio/transcriptions":    tokenprefix.ShapeUnknown,
		"/v1/unrelatedcompletions":    tokenprefix.ShapeUnknown,
		"/v1/responses/resp_1/cancel": tokenprefix.ShapeUnknown,
	} {
		if got := tokenprefix.ShapeOf(path); got != want {
			t.Errorf("ShapeOf(%q) = %v, want %v", path, got, want)
		}
	}
}

func TestNames_AreDistinct(t *testing.T) {
	shapes, absences := map[string]bool{}, map[string]bool{}
	for s := tokenprefix.ShapeUnknown; s <= tokenprefix.ShapeEmbeddings; s++ {
		shapes[s.String()] = true
	}
	for a := tokenprefix.AbsenceNone; a <= tokenprefix.AbsenceWrongType; a++ {
		absences[a.String()] = true
	}
	if len(shapes) != 7 || len(absences) != 7 {
		t.Errorf("%d names of shapes and %d of absences, want 7 each", len(shapes), len(absences))
	}
}
