package tokenprefix_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/warmroute/warmroute/tokenprefix"
)

func TestHasher_ValidateNamesTheField(t *testing.T) {
	for _, test := range []struct {
		h    *tokenprefix.Hasher
		want string
	}{
		{&tokenprefix.Hasher{}, ""},
		{&tokenprefix.Hasher{BlockTokens: 65536, BytesPerToken: 64}, ""},
		{&tokenprefix.Hasher{BlockTokens: -1}, "BlockTokens -1 is not in 0 to 65536"},
		{&tokenprefix.Hasher{BlockTokens: 65537}, "BlockTokens 65537 is not in 0 to 65536"},
		{&tokenprefix.Hasher{BytesPerToken: -0.5}, "BytesPerToken -0.5 is not in 0 to 64"},
		{&tokenprefix.Hasher{BytesPerToken: math.NaN()}, "BytesPerToken NaN is not in 0 to 64"},
		{&tokenprefix.Hasher{BytesPerToken: math.Inf(1)}, "BytesPerToken +Inf is not in 0 to 64"},
	} {
		err := test.h.Validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasSuffix(err.Error(), test.want)) {
			t.Errorf("Validate() = %v, want %q", err, test.want)
		}
		if err != nil { // the default takes the place of the bad value
			var got, want tokenprefix.Signature
			text := []byte(strings.Repeat("some text ", 500))
			test.h.Text(&got, tokenprefix.Scope{}, text)
			new(tokenprefix.Hasher).Text(&want, tokenprefix.Scope{}, text)
			if !same(&got, &want) || got.BlockTokens != tokenprefix.DefaultBlockTokens {
				t.Errorf("%v: Text = %+v, want %+v", err, &got, &want)
			}
		}
	}
}

func TestHasher_LargestBlocks(t *testing.T) {
	sig := tokens(&tokenprefix.Hasher{BlockTokens: 65536}, tokenprefix.Scope{}, make([]uint32, 65536)...)
	if len(sig.Blocks) != 1 || sig.BlockTokens != 65536 {
		t.Errorf("%d blocks of %d tokens, want 1 of 65536", len(sig.Blocks), sig.BlockTokens)
	}
}

func TestHasher_SmallestBlocks(t *testing.T) {
	h := &tokenprefix.Hasher{BlockTokens: 1, BytesPerToken: 0.01}
	sig, _ := signed(t, h, tokenprefix.Scope{}, []byte(`{"prompt":"abc"}`))
	if len(sig.Blocks) != len(`Pabc"`) {
		t.Errorf("%d blocks, want one for each byte", len(sig.Blocks))
	}
}

// TestHasher_KeyProtects constructs two blocks that XXH64 cannot tell apart and
// expects a key to do so.
func TestHasher_KeyProtects(t *testing.T) {
	// In the first lane, a word changed in the first stripe of 32 bytes is made
	// good by one in the second: acc = rotl(acc + word·P2, 31)·P1.
	const p1, p2 = 11400714785074694791, 14029467366897019727
	round := func(acc, word uint64) uint64 { acc += word * p2; return (acc<<31 | acc>>33) * p1 }
	inverse := uint64(1) // of p2, by Newton's iteration
	for range 6 {
		inverse *= 2 - p2*inverse
	}
	lane := uint64(p1)
	lane += p2 // the state of the lane at the start
	a, b := make([]byte, 1024), make([]byte, 1024)
	b[0] = 1
	fix := (round(lane, 0) - round(lane, 1)) * inverse
	for i := range 8 {
		b[32+i] = byte(fix >> (8 * i))
	}
	if xxhash.Sum64(a) != xxhash.Sum64(b) {
		t.Fatal("the two blocks do not collide")
	}
	open, keyed := &tokenprefix.Hasher{}, &tokenprefix.Hasher{Key: secret}
	for _, test := range []struct {
		h    *tokenprefix.Hasher
		same bool
	}{{open, true}, {keyed, false}} {
		var x, y tokenprefix.Signature
		test.h.Text(&x, tokenprefix.Scope{}, a)
		test.h.Text(&y, tokenprefix.Scope{}, b)
		if same(&x, &y) != test.same {
			t.Errorf("key of %d bytes: blocks collide is %v, want %v", len(test.h.Key), !test.same, test.same)
		}
	}
}

func TestHasher_EveryKeyIsAnotherWorld(t *testing.T) {
	body := readBody(t, "chat_image_a.json")
	seen := map[uint64]bool{}
	keys := [][]byte{nil, {0}, {0, 0}, []byte("a"), secret, make([]byte, 64), make([]byte, 65)}
	for _, key := range keys {
		h := &tokenprefix.Hasher{BlockTokens: 64, Key: key}
		sig, _ := signed(t, h, tokenprefix.Scope{}, body)
		for _, v := range append(slices.Clone(sig.Blocks), sig.Tail) {
			if seen[v] {
				t.Errorf("key %x shares a value with another", key)
			}
			seen[v] = true
		}
	}
}

func TestHasher_CacheSalt(t *testing.T) {
	h := &tokenprefix.Hasher{Key: secret}
	// printf 'warmroute cache_salt v1\0tenant-a' |
	//   openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef -binary | basenc --base64url
	const want = "iEWK97yubbApMvt2bhqoBJvH_k3mayOZF-dxI4cSZW0"
	got, err := h.CacheSalt("tenant-a")
	must(t, err)
	if got != want {
		t.Errorf("CacheSalt(tenant-a) = %s, want %s", got, want)
	}
	if other, _ := h.CacheSalt("tenant-b"); other == got || len(other) != 43 {
		t.Errorf("CacheSalt(tenant-b) = %s, want another of 43 characters", other)
	}
	if _, err := new(tokenprefix.Hasher).CacheSalt("tenant-a"); !errors.Is(err, tokenprefix.ErrNoKey) {
		t.Errorf("CacheSalt without a key = %v, want ErrNoKey", err)
	}
}

func TestObserve_FollowsTheEngine(t *testing.T) {
	h := &tokenprefix.Hasher{}
	text := []byte(words(rand.New(rand.NewPCG(4, 1)), 32_000))
	var before, sig tokenprefix.Signature
	h.Text(&before, tokenprefix.Scope{}, text)
	if want := len(text) / 4; before.Tokens < want-1 || before.Tokens > want+1 {
		t.Errorf("Tokens = %d, want about %d", before.Tokens, want)
	}
	actual := len(text) * 10 / 32 // 3.2 bytes a token
	for range 300 {
		h.Text(&sig, tokenprefix.Scope{}, text)
		h.Observe(&sig, actual)
	}
	h.Text(&sig, tokenprefix.Scope{}, text)
	if math.Abs(float64(sig.Tokens-actual)) > float64(actual)/100 {
		t.Errorf("Tokens = %d, want %d within 1 %%", sig.Tokens, actual)
	}
	if !slices.Equal(sig.Blocks, before.Blocks) || sig.Tail != before.Tail || sig.BlockTokens != before.BlockTokens {
		t.Error("Observe changed the blocks")
	}
	if got := sig.PrefixTokens(len(sig.Blocks)); got > sig.Tokens || got < sig.Tokens-320 {
		t.Errorf("PrefixTokens(all) = %d of %d, want less than a block behind", got, sig.Tokens)
	}
	// A body of the same text is estimated alike, and one observation is enough
	// to move a little.
	one := &tokenprefix.Hasher{}
	one.Text(&sig, tokenprefix.Scope{}, text)
	one.Observe(&sig, 2*sig.Tokens)
	one.Text(&sig, tokenprefix.Scope{}, text)
	if sig.Tokens <= before.Tokens || sig.Tokens > before.Tokens*11/10 {
		t.Errorf("Tokens = %d after one observation of twice %d", sig.Tokens, before.Tokens)
	}
}

func TestObserve_IgnoresWhatTeachesNothing(t *testing.T) {
	h := &tokenprefix.Hasher{}
	text := []byte(strings.Repeat("word ", 1000))
	var want, sig tokenprefix.Signature
	h.Text(&want, tokenprefix.Scope{}, text)
	for _, n := range []int{0, -1, math.MinInt, 63} {
		h.Observe(&want, n)
	}
	h.Observe(new(tokenprefix.Signature), 1000)
	h.Tokens(&sig, tokenprefix.Scope{}, make([]uint32, 1000))
	h.Observe(&sig, 5000)
	_, err := h.Body(&sig, tokenprefix.Scope{}, readBody(t, "chat_image_a.json"))
	must(t, err)
	h.Observe(&sig, 5000)
	h.Text(&sig, tokenprefix.Scope{}, text)
	if sig.Tokens != want.Tokens {
		t.Errorf("Tokens = %d, want %d as before", sig.Tokens, want.Tokens)
	}
	h.Observe(&want, 64) // the smallest count that teaches: 78 bytes a token
	h.Text(&sig, tokenprefix.Scope{}, text)
	if sig.Tokens >= want.Tokens {
		t.Errorf("Tokens = %d after an observation of 64, want fewer than %d", sig.Tokens, want.Tokens)
	}
	// Absurd counts move it, but no further than one to 64 bytes a token.
	for range 1000 {
		h.Observe(&sig, math.MaxInt)
	}
	h.Text(&sig, tokenprefix.Scope{}, text)
	if sig.Tokens < len(text)*9/10 || sig.Tokens > len(text) {
		t.Errorf("Tokens = %d, want at most one for each of %d bytes", sig.Tokens, len(text))
	}
}

func TestSignature_ImagesAreOutsideOfTheTextEstimate(t *testing.T) {
	h := &tokenprefix.Hasher{}
	r := rand.New(rand.NewPCG(4, 2))
	small, _ := signed(t, h, tokenprefix.Scope{}, imageOf(r, 1000))
	large, _ := signed(t, h, tokenprefix.Scope{}, imageOf(r, 100_000))
	if small.Tokens != large.Tokens || len(small.Blocks) != len(large.Blocks) || small.Tokens < tokenprefix.MediaTokens {
		t.Errorf("images of 1 KB and 100 KB: %d and %d tokens, %d and %d blocks, want the same",
			small.Tokens, large.Tokens, len(small.Blocks), len(large.Blocks))
	}
	// What an image left behind does not reach the next prompt.
	h.Text(large, tokenprefix.Scope{}, []byte("four"))
	if large.Tokens != 1 {
		t.Errorf("Tokens of a text after an image = %d, want 1", large.Tokens)
	}
}

func TestSignature_PrefixTokens(t *testing.T) {
	made := &tokenprefix.Signature{Blocks: make([]uint64, 4), BlockTokens: 100, Tokens: 450}
	short := &tokenprefix.Signature{Blocks: make([]uint64, 4), BlockTokens: 100, Tokens: 350}
	for _, test := range []struct {
		s       *tokenprefix.Signature
		n, want int
	}{
		{made, 0, 0}, {made, 1, 100}, {made, 4, 400}, {made, 5, 400}, {made, -1, 0},
		{short, 3, 300}, {short, 4, 350}, {new(tokenprefix.Signature), 3, 0},
	} {
		if got := test.s.PrefixTokens(test.n); got != test.want {
			t.Errorf("PrefixTokens(%d) of %d tokens = %d, want %d", test.n, test.s.Tokens, got, test.want)
		}
	}
}

func TestSignature_CloneSharesNothing(t *testing.T) {
	h := fine()
	sig, _ := signed(t, h, tokenprefix.Scope{}, readBody(t, "chat_turn2.json"))
	want, clone := sig.Clone(), sig.Clone()
	for _, name := range []string{"chat_tools.json", "chat_image_a.json"} {
		_, err := h.Body(sig, tokenprefix.Scope{}, readBody(t, name))
		must(t, err)
	}
	if !same(clone, want) {
		t.Error("hashing into a signature changed its clone")
	}
	h.Observe(clone, 1000) // a clone is as good as the signature
	_, err := h.Body(clone, tokenprefix.Scope{}, readBody(t, "chat_turn2.json"))
	must(t, err)
	if !slices.Equal(clone.Blocks, want.Blocks) || clone.Tail != want.Tail {
		t.Error("a clone cannot be hashed into")
	}
}

func TestHasher_AllocatesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 3))
	bodies := map[string][]byte{
		"adapter": []byte(`{"prompt":"x","lora":[{"id":0,"scale":0.5}]}`),
		"chat":    chatOf(r, words(r, 5000), 9, 5000, words),
		"escapes": escaped(chatOf(r, cjk(r, 2000), 9, 2000, cjk)),
		"tools":   toolsOf(r, 5000),
		"image":   imageOf(r, 5000),
		"ids":     marshal(map[string]any{"prompt": idsOf(r, 3000)}),
	}
	for _, name := range []string{"anthropic_tools_thinking.json", "responses_item_input.json", "chat_tool_calls_null_content.json", "ollama_chat.json"} {
		bodies[name] = readBody(t, name)
	}
	for _, h := range []*tokenprefix.Hasher{{}, {Key: secret}, {Volatile: tokenprefix.SkipVolatile}} {
		var sig tokenprefix.Signature
		scope := tokenprefix.Scope{Tenant: "t", Adapter: "a"}
		for name, body := range bodies {
			if n := testing.AllocsPerRun(20, func() { _, _ = h.Body(&sig, scope, body) }); n != 0 {
				t.Errorf("Body(%s) with key of %d bytes allocates %v times", name, len(h.Key), n)
			}
		}
		text, ids := []byte(words(r, 5000)), idsOf(r, 3000)
		if n := testing.AllocsPerRun(20, func() { h.Text(&sig, scope, text); h.Tokens(&sig, scope, ids) }); n != 0 {
			t.Errorf("Text and Tokens with key of %d bytes allocate %v times", len(h.Key), n)
		}
	}
}

func TestHasher_IsSafeForConcurrentUse(t *testing.T) {
	h := &tokenprefix.Hasher{BlockTokens: 16, Key: secret, Volatile: tokenprefix.SkipVolatile}
	r := rand.New(rand.NewPCG(4, 4))
	var bodies [][]byte
	var want []*tokenprefix.Signature
	for range 20 {
		q := randomRequest(r)
		bodies = append(bodies, respelled(r, q.value(r)))
		sig, _ := signed(t, h, tokenprefix.Scope{}, bodies[len(bodies)-1])
		want = append(want, sig)
	}
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			var sig tokenprefix.Signature
			for i := range 200 {
				k := (i + g) % len(bodies)
				_, err := h.Body(&sig, tokenprefix.Scope{}, bodies[k])
				if err != nil || !slices.Equal(sig.Blocks, want[k].Blocks) || sig.Tail != want[k].Tail {
					t.Errorf("Body(%d) = %+v, %v, want %+v", k, &sig, err, want[k])
				}
				h.Observe(&sig, 100+i)
			}
		})
	}
	group.Wait()
}
