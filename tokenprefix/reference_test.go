package tokenprefix_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/warmroute/warmroute/tokenprefix"
)

// A slow second implementation of the signature, for tests to compare with. It
// writes the canonical stream of a request from the request itself, never from
// its JSON, and hashes the finished stream.

// request is a chat request, and the model that spellings are made from.
type request struct {
	Model    string
	Salt     string
	Tools    []tool
	Messages []message
}

type message struct {
	Role, Name, Reasoning string
	Parts                 []part
	Calls                 []call
	CallID                string
}

// part is a text or, if image is set, an image.
type part struct{ Text, Image string }

type call struct{ ID, Name, Arguments string }

type tool struct {
	Name, Description string
	Schema            []field // in order
}

type field struct{ Name, Type string }

// stream collects a canonical stream and where its parts end.
type stream struct {
	bytes           []byte
	size            int // of a block
	key             []byte
	system, history int // offsets; history is -1 without an assistant
	media, filled   int
}

func (s *stream) add(parts ...string) {
	for _, p := range parts {
		s.bytes = append(s.bytes, p...)
	}
}

// spelled returns the canonical spelling of a text, with its closing quote.
func spelled(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + text[i:i+1])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\b':
			b.WriteString(`\b`)
		case r == '\f':
			b.WriteString(`\f`)
		case r < ' ':
			b.WriteString(`\u00` + string("01"[r>>4]) + string("0123456789abcdef"[r&15]))
		default:
			b.WriteString(text[i : i+n])
		}
		i += n
	}
	return b.String() + `"`
}

// member returns the stream of a member that is a text, or nothing for "".
func member(name, text string) string {
	if text == "" {
		return ""
	}
	return `K` + name + `"S` + spelled(text)
}

func (s *stream) request(r request) {
	s.history = -1
	inSystem := true
	for _, m := range r.Messages {
		if inSystem && m.Role != "system" && m.Role != "developer" {
			s.endSystem(r)
			inSystem = false
		}
		s.add("M", spelled(m.Role), member("name", m.Name), member("tool_call_id", m.CallID), member("reasoning", m.Reasoning))
		for _, p := range m.Parts {
			if p.Image == "" {
				s.add("T", spelled(p.Text))
			} else {
				s.image(`{Kimage_url"{Kurl"S` + spelled(p.Image) + `)Ktype"Simage_url")`)
			}
		}
		if len(m.Calls) > 0 {
			s.add(`Ktool_calls"[`)
			for _, c := range m.Calls {
				s.add(`{Kfunction"{Karguments"S`, spelled(c.Arguments), `Kname"S`, spelled(c.Name), `)Kid"S`, spelled(c.ID), `Ktype"Sfunction")`)
			}
			s.add(")")
		}
		s.add(")")
		if m.Role == "assistant" {
			s.history = len(s.bytes)
		}
	}
	if inSystem {
		s.endSystem(r)
	}
}

func (s *stream) endSystem(r request) {
	if len(r.Tools) > 0 {
		s.add(`Ktools"[`)
		for _, t := range r.Tools {
			s.add(`{Kfunction"{Kdescription"S`, spelled(t.Description), `Kname"S`, spelled(t.Name), `Kparameters"R`, t.schema(), "\x00", `)Ktype"Sfunction")`)
		}
		s.add(")")
	}
	s.system = len(s.bytes)
}

// schema returns the JSON schema of the tool in canonical spelling.
func (t tool) schema() string {
	var fields []string
	for _, f := range t.Schema {
		fields = append(fields, `"`+spelled(f.Name)+`:{"type":"`+spelled(f.Type)+`,"maximum":1.50}`)
	}
	return `{"type":"object","properties":{` + strings.Join(fields, ",") + `},"required":[]}`
}

func (s *stream) image(content string) {
	_, tail := referenceChain(s.key, referenceSeed('I', tokenprefix.Scope{}), []byte(content), 1024)
	digest := binary.LittleEndian.AppendUint64(nil, tail)
	s.add("I")
	fill := slices.Concat(slices.Repeat([][]byte{digest}, tokenprefix.MediaTokens*4/8)...)
	s.bytes = append(s.bytes, fill...)
	s.media++
	s.filled += len(fill)
}

func referenceSeed(kind byte, s tokenprefix.Scope) []byte {
	seed := append([]byte("warmroute\x01"), kind)
	for _, text := range []string{s.Tenant, s.Model, s.Adapter, s.Salt} {
		seed = binary.LittleEndian.AppendUint64(seed, uint64(len(text)))
		seed = append(seed, text...)
	}
	return seed
}

// referenceChain returns the values of the full blocks and of the whole stream.
func referenceChain(key, seed, stream []byte, size int) (blocks []uint64, tail uint64) {
	if len(key) > 0 {
		k, h := sha256.Sum256(key), sha256.Sum256(seed)
		for ; len(stream) >= size; stream = stream[size:] {
			h = sha256.Sum256(slices.Concat(k[:], h[:], stream[:size]))
			blocks = append(blocks, binary.LittleEndian.Uint64(h[:]))
		}
		h = sha256.Sum256(slices.Concat(k[:], h[:], stream))
		return blocks, binary.LittleEndian.Uint64(h[:])
	}
	h := xxhash.Sum64(seed)
	for ; len(stream) >= size; stream = stream[size:] {
		h = tokenprefix.Mix(h, xxhash.Sum64(stream[:size]))
		blocks = append(blocks, h)
	}
	return blocks, tokenprefix.Mix(tokenprefix.Mix(h, xxhash.Sum64(stream)), uint64(len(stream)))
}

// reference returns the signature of the request with blocks of 4 × blockTokens
// bytes, and its stream.
func reference(blockTokens int, key []byte, scope tokenprefix.Scope, r request) (*tokenprefix.Signature, *stream) {
	if scope.Model == "" {
		scope.Model = r.Model
	}
	if scope.Salt == "" {
		scope.Salt = r.Salt
	}
	s := &stream{size: 4 * blockTokens, key: key}
	s.request(r)
	blocks, tail := referenceChain(key, referenceSeed('B', scope), s.bytes, s.size)
	text := len(s.bytes) - s.filled
	sig := &tokenprefix.Signature{
		Blocks: blocks, Tail: tail, BlockTokens: blockTokens,
		Tokens:       (text+2)/4 + s.media*tokenprefix.MediaTokens, // rounded
		SystemBlocks: s.system / s.size,
	}
	if s.history >= 0 {
		sig.HistoryBlocks = s.history / s.size
	}
	return sig, s
}

// randomRequest returns a request with up to a dozen turns.
func randomRequest(r *rand.Rand) request {
	q := request{Model: "acme/" + randomText(r, 6)}
	if r.IntN(4) == 0 {
		q.Salt = randomText(r, 10)
	}
	for range r.IntN(3) {
		t := tool{Name: randomText(r, 10), Description: randomText(r, 80)}
		for range r.IntN(4) {
			t.Schema = append(t.Schema, field{randomText(r, 10), "string"})
		}
		q.Tools = append(q.Tools, t)
	}
	for range r.IntN(3) {
		q.Messages = append(q.Messages, message{
			Role: []string{"system", "developer"}[r.IntN(2)], Parts: []part{{Text: randomText(r, 300)}},
		})
	}
	q.Messages = append(q.Messages, randomTurns(r, 1+r.IntN(8))...)
	return q
}

// randomTurns returns turns of which the first is the user's.
func randomTurns(r *rand.Rand, n int) []message {
	var turns []message
	for i := range n {
		m := message{Role: "user"}
		if i%2 == 1 {
			m.Role = "assistant"
			m.Reasoning = randomText(r, 40)
			for range r.IntN(3) {
				m.Calls = append(m.Calls, call{"call_" + strconv.Itoa(i), randomText(r, 8), `{"zone":` + strconv.Quote(randomText(r, 3)) + `}`})
			}
		} else if r.IntN(4) == 0 {
			m = message{Role: "tool", CallID: "call_" + strconv.Itoa(i-1)}
		}
		for range 1 + r.IntN(3) {
			p := part{Text: randomText(r, 200)}
			if r.IntN(8) == 0 && m.Role == "user" {
				p = part{Image: "data:image/png;base64,/" + randomText(r, 2000)}
			}
			m.Parts = append(m.Parts, p)
		}
		turns = append(turns, m)
	}
	return turns
}

// randomText returns 1 to n characters of all sorts, the awkward ones included.
func randomText(r *rand.Rand, n int) string {
	const awkward = " \"\\/\b\f\n\r\t\x00\x1f\x7f)MTKSR{[é水😀\ufffd\u2028"
	odd := []rune(awkward)
	var b strings.Builder
	for range 1 + r.IntN(n) {
		if r.IntN(6) == 0 {
			b.WriteRune(odd[r.IntN(len(odd))])
		} else {
			b.WriteByte(byte('a' + r.IntN(26)))
		}
	}
	return b.String()
}

// plain returns the request as encoding/json spells it.
func (q request) plain() []byte {
	return marshal(q.value(nil))
}

var _ json.Marshaler = object{}
