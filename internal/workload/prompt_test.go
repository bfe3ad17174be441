package workload_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmroute/warmroute/internal/workload"
	"github.com/warmroute/warmroute/tokenprefix"
)

// token is what a Prompt says about one token: equal values mean equal tokens.
type token struct {
	id uint64
	at int
}

func tokens(p workload.Prompt) []token {
	var all []token
	for _, s := range p.Segments {
		for at := range s.Tokens {
			all = append(all, token{s.ID, at})
		}
	}
	return all
}

func common[T comparable](a, b []T) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// randomPrompt makes prompts of few different segments, so that many share prefixes.
func randomPrompt(rng *rand.Rand) workload.Prompt {
	var p workload.Prompt
	for range 1 + rng.IntN(5) {
		id := rng.Uint64N(3)
		p.Segments = append(p.Segments, workload.Segment{
			ID: id, Tokens: 10 + 7*int(id) + 5*rng.IntN(2), Role: workload.Role(rng.IntN(3)),
		})
	}
	return p
}

func text(p workload.Prompt) []byte {
	var b []byte
	for _, s := range p.Segments {
		b = s.AppendText(b)
	}
	return b
}

func TestPrompt_DerivationsShareThePrefixesOfTheTokens(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	deep := 0
	for range 5_000 {
		a, b := randomPrompt(rng), randomPrompt(rng)
		same := common(tokens(a), tokens(b))
		deep = max(deep, same)
		for _, size := range []int{1, 4, 16, 50} {
			if got, want := common(a.EngineBlocks(nil, size), b.EngineBlocks(nil, size)), same/size; got != want {
				t.Fatalf("%v and %v share %d blocks of %d tokens, want %d", a, b, got, size, want)
			}
		}
		var sa, sb tokenprefix.Signature
		a.Signature(&sa, 16)
		b.Signature(&sb, 16)
		equal := same == a.Tokens() && same == b.Tokens()
		if got := sa.Tail == sb.Tail; got != equal {
			t.Fatalf("%v and %v: equal tails %v, want %v", a, b, got, equal)
		}
		// Words of four bytes; two different tokens may have one spelling.
		if got, want := common(text(a), text(b))/workload.TokenBytes, same; got < want || got > want+2 {
			t.Fatalf("%v and %v share the text of %d tokens, want %d", a, b, got, want)
		}
	}
	if deep < 60 {
		t.Errorf("longest shared prefix tested is %d tokens", deep)
	}
}

func TestPrompt_BlocksAreFullOnes(t *testing.T) {
	p := workload.Prompt{Segments: []workload.Segment{{ID: 1, Tokens: 20}, {ID: 2, Tokens: 27}}}
	got := p.EngineBlocks([]uint64{7}, 16)
	if len(got) != 3 || got[0] != 7 {
		t.Errorf("EngineBlocks(dst of 1) = %v, want dst and 2 blocks", got)
	}
}

func TestPrompt_BlocksAreGolden(t *testing.T) {
	p := workload.Prompt{Segments: []workload.Segment{{ID: 1, Tokens: 20}, {ID: 2, Tokens: 30}}}
	want := []uint64{0x3a0d563ef3bff872, 0x329b8719c6f57815, 0xda99f35974b52252}
	if got := p.EngineBlocks(nil, 16); !slices.Equal(got, want) {
		t.Errorf("EngineBlocks = %#x, want %#x", got, want)
	}
}

func TestRequest_BlocksOfTheNextPromptStartWithThoseOfThisAnswer(t *testing.T) {
	w, err := workload.NewSwarm(workload.SwarmConfig{Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	s := w.Stream(0)
	_, r := s.Next()
	_, next := s.Next()
	done, prompt := r.EngineBlocks(nil, 16), next.Prompt.EngineBlocks(nil, 16)
	if got := common(done, prompt); got != len(done) || got != (r.Prompt.Tokens()+r.Answer.Tokens)/16 {
		t.Errorf("%d of %d blocks shared", got, len(done))
	}
}

func TestSignature_PartsEndWithTheirRoles(t *testing.T) {
	const u, s, a = workload.User, workload.System, workload.Assistant
	seg := func(tokens int, r workload.Role) workload.Segment {
		return workload.Segment{ID: uint64(tokens), Tokens: tokens, Role: r}
	}
	for _, tt := range []struct {
		name            string
		segments        []workload.Segment
		system, history int
	}{
		{"empty", nil, 0, 0},
		{"user only", []workload.Segment{seg(100, u)}, 0, 0},
		{"first turn", []workload.Segment{seg(50, s), seg(15, s), seg(100, u)}, 4, 0},
		{"second turn", []workload.Segment{seg(65, s), seg(10, u), seg(25, a), seg(90, u)}, 4, 6},
		{"system later", []workload.Segment{seg(20, u), seg(65, s), seg(16, a)}, 0, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got tokenprefix.Signature
			p := workload.Prompt{Segments: tt.segments}
			p.Signature(&got, 16)
			if got.SystemBlocks != tt.system || got.HistoryBlocks != tt.history {
				t.Errorf("system, history = %d, %d blocks, want %d, %d", got.SystemBlocks, got.HistoryBlocks, tt.system, tt.history)
			}
			if got.Tokens != p.Tokens() || len(got.Blocks) != p.Tokens()/16 || got.BlockTokens != 16 || (got.Tail == 0) != (tt.segments == nil) {
				t.Errorf("Signature = %+v for %d tokens", got, p.Tokens())
			}
		})
	}
}

func TestChatBody_IsTheConversationAsJSON(t *testing.T) {
	p := workload.Prompt{Segments: []workload.Segment{
		{ID: 1, Tokens: 3, Role: workload.System},
		{ID: 2, Tokens: 6, Role: workload.User},
		{ID: 3, Tokens: 1, Role: workload.User},
		{ID: 4, Tokens: 2, Role: workload.Assistant},
		{ID: 5, Tokens: 1, Role: workload.User},
	}}
	type message struct{ Role, Content string }
	var got struct {
		Model     string
		Messages  []message
		MaxTokens int `json:"max_tokens"`
		Stream    bool
	}
	dec := json.NewDecoder(bytes.NewReader(p.ChatBody(nil, `a "model"`, 77, true)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&got); err != nil {
		t.Fatal(err)
	}
	content := func(i, j int) string { return string(text(workload.Prompt{Segments: p.Segments[i:j]})) }
	want := []message{{"system", content(0, 1)}, {"user", content(1, 3)}, {"assistant", content(3, 4)}, {"user", content(4, 5)}}
	if got.Model != `a "model"` || got.MaxTokens != 77 || !got.Stream || !slices.Equal(got.Messages, want) {
		t.Errorf("ChatBody = %+v, want messages %v", got, want)
	}
	if n := len(want[0].Content); n != 3*workload.TokenBytes {
		t.Errorf("text of 3 tokens has %d bytes", n)
	}
	if body := (workload.Prompt{}).ChatBody(nil, "m", 1, false); !json.Valid(body) {
		t.Errorf("ChatBody of an empty prompt = %s", body)
	}
}

func TestChatBody_HashesToThePrefixesOfTheTokens(t *testing.T) {
	w, err := workload.NewSwarm(workload.SwarmConfig{Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	s := w.Stream(0)
	var h tokenprefix.Hasher
	last := new(tokenprefix.Signature)
	for turn := range 4 {
		_, r := s.Next()
		var got tokenprefix.Signature
		if _, err := h.Body(&got, tokenprefix.Scope{}, r.Prompt.ChatBody(nil, "m", r.Answer.Tokens, true)); err != nil {
			t.Fatal(err)
		}
		if n := common(got.Blocks, last.Blocks); n != len(last.Blocks) {
			t.Errorf("turn %d starts with %d of %d blocks of the turn before", turn, n, len(last.Blocks))
		}
		if got, want := got.Tokens, r.Prompt.Tokens(); got < want || got > want+want/50 {
			t.Errorf("turn %d: %d tokens estimated, want about %d", turn, got, want)
		}
		last = got.Clone()
	}
}

func TestDerivations_ReuseMemory(t *testing.T) {
	w, err := workload.NewSwarm(workload.SwarmConfig{})
	if err != nil {
		t.Fatal(err)
	}
	_, r := w.Stream(0).Next()
	blocks := r.EngineBlocks(nil, 16)
	var sig tokenprefix.Signature
	r.Prompt.Signature(&sig, 256)
	if got := testing.AllocsPerRun(10, func() {
		blocks = r.EngineBlocks(blocks[:0], 16)
		r.Prompt.Signature(&sig, 256)
	}); got != 0 {
		t.Errorf("EngineBlocks and Signature into used memory = %v allocations, want 0", got)
	}
}
