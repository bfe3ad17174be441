package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/framework/interface/plugin"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/framework/interface/requestcontrol"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/framework/interface/scheduling"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/framework/plugins/requestcontrol/dataproducer/approximateprefix"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/framework/plugins/requesthandling/parsers/openai"

	"github.com/warmroute/warmroute/tokenprefix"
)

// chatBody returns the body of tokenprefix's main benchmark: 40 messages, the
// first of 60 KB, with a line every 60 bytes and a quoted word every 200.
func chatBody() []byte {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	r := rand.New(rand.NewPCG(1, 1))
	messages := []message{{"system", prose(r, 60_000)}}
	for i := range 39 {
		messages = append(messages, message{[]string{"user", "assistant"}[i%2], prose(r, 56_000/39)})
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any{"model": "acme/chat-8b", "messages": messages, "temperature": 0.2, "stream": true}); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

func prose(r *rand.Rand, n int) string {
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

// BenchmarkBodyToKey takes one chat body of 120 KB to the values that its prefix
// is looked up by.
func BenchmarkBodyToKey(b *testing.B) {
	body := chatBody()
	run := func(name string, key func(*testing.B) func() error) {
		b.Run(name, func(b *testing.B) {
			f := key(b)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("warmroute", func(*testing.B) func() error {
		var h tokenprefix.Hasher
		var sig tokenprefix.Signature
		return func() error {
			_, err := h.Body(&sig, tokenprefix.Scope{Tenant: "tenant-a"}, body)
			return err
		}
	})
	run("warmroute_keyed", func(*testing.B) func() error {
		h := tokenprefix.Hasher{Key: []byte("0123456789abcdef0123456789abcdef")}
		var sig tokenprefix.Signature
		return func() error {
			_, err := h.Body(&sig, tokenprefix.Scope{Tenant: "tenant-a"}, body)
			return err
		}
	})
	run("encodingjson_structs_xxhash", func(*testing.B) func() error {
		return func() error {
			_, err := keyByStructs(body)
			return err
		}
	})
	run("jsontext_xxhash", func(*testing.B) func() error {
		return func() error {
			_, err := keyByJSONText(body)
			return err
		}
	})
	run("gie_whole_prompt_256_tokens", func(b *testing.B) func() error {
		return gie(b, body, `{"autoTune":false,"blockSizeTokens":256,"maxPrefixBlocksToMatch":100000}`)
	})
	run("gie_defaults_first_16KB", func(b *testing.B) func() error {
		return gie(b, body, `{}`)
	})
}

// keyByStructs does what most gateways do: decode into structs, encode the
// messages, and hash that in blocks of 1 KiB, each with the value before it.
func keyByStructs(body []byte) ([]uint64, error) {
	var request struct {
		Model    string `json:"model"`
		Salt     string `json:"cache_salt"`
		Messages []struct {
			Role    string `json:"role"`
			Content any    `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	text, err := json.Marshal(request.Messages)
	if err != nil {
		return nil, err
	}
	return chained(xxhash.Sum64String(request.Model+request.Salt), text), nil
}

// keyByJSONText reads tokens and hashes the messages as they are spelled.
func keyByJSONText(body []byte) ([]uint64, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body)) // reads in place
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	var keys []uint64
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		messages := name.String() == "messages"
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if messages {
			keys = chained(0, value)
		}
	}
	if _, err := dec.ReadToken(); err != nil && err != io.EOF {
		return nil, err
	}
	return keys, nil
}

// chained returns the chained hashes of the full blocks of 1 KiB of text.
func chained(h uint64, text []byte) []uint64 {
	var keys []uint64
	for ; len(text) >= 1024; text = text[1024:] {
		h = h*0x9e3779b97f4a7c15 + xxhash.Sum64(text[:1024])
		keys = append(keys, h)
	}
	return keys
}

// gie returns a function that runs the parser and the prefix plugin of the
// Gateway API inference extension as its director does: parse the body, then
// prepare the request's data. No endpoint holds a block, so its index is asked
// once and misses.
func gie(b *testing.B, body []byte, config string) func() error {
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	parser := openai.NewOpenAIParser()
	p, err := approximateprefix.ApproxPrefixCacheFactory("prefix", json.RawMessage(config),
		plugin.NewEppHandle(ctx, func() []types.NamespacedName { return nil }))
	if err != nil {
		b.Fatal(err)
	}
	prepare := p.(requestcontrol.PrepareDataPlugin)
	headers := map[string]string{":path": "/v1/chat/completions"}
	return func() error {
		parsed, err := parser.ParseRequest(ctx, body, headers)
		if err != nil {
			return err
		}
		return prepare.PrepareRequestData(ctx, &scheduling.LLMRequest{RequestId: "r", TargetModel: "acme/chat-8b", Body: parsed}, nil)
	}
}
