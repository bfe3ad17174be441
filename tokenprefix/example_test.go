package tokenprefix_test

import (
	"fmt"
	"strings"

	"github.com/warmroute/warmroute/tokenprefix"
)

// The signature of a conversation's next turn starts with that of this turn.
func Example() {
	var h tokenprefix.Hasher // shared by all requests
	scope := tokenprefix.Scope{Tenant: "example-freight"}

	instructions := strings.Repeat("You are the help desk. Never promise a delivery hour. ", 100)
	first := `{"model":"acme/chat-8b","messages":[
		{"role":"system","content":"` + instructions + `"},
		{"role":"user","content":"How much is a parcel to zone B?"}]}`
	next := `{"model":"acme/chat-8b","messages":[
		{"role":"system","content":"` + instructions + `"},
		{"role":"user","content":"How much is a parcel to zone B?"},
		{"role":"assistant","content":"A parcel to zone B costs 7 EUR."},
		{"role":"user","content":"And two?"}]}`

	var a, b tokenprefix.Signature
	if _, err := h.Body(&a, scope, []byte(first)); err != nil {
		fmt.Println(err)
	}
	if _, err := h.Body(&b, scope, []byte(next)); err != nil {
		fmt.Println(err)
	}
	shared := 0
	for shared < len(a.Blocks) && a.Blocks[shared] == b.Blocks[shared] {
		shared++
	}
	fmt.Printf("%d of %d blocks, about %d of %d tokens, are those of the turn before\n",
		shared, len(b.Blocks), b.PrefixTokens(shared), b.Tokens)
	// Output:
	// 5 of 5 blocks, about 1280 of 1378 tokens, are those of the turn before
}

// A body tells more than its prompt, and why there is no signature if there is
// none.
func ExampleHasher_Body() {
	var h tokenprefix.Hasher
	var sig tokenprefix.Signature
	for _, body := range []string{
		`{"model":"acme/chat-8b","stream":true,"max_tokens":64,"messages":[{"role":"user","content":"Hello"}]}`,
		`{"model":"acme/base-7b","prompt":[101,2054,2003,1996,102]}`,
		`{"model":"acme/chat-8b","messages":[]}`,
		`{"model":"acme/chat-8b","messages":[{"role":"us`,
	} {
		m, err := h.Body(&sig, tokenprefix.Scope{Tenant: "example-freight"}, []byte(body))
		if err != nil {
			fmt.Println("route by load:", err)
			continue
		}
		if m.Absence != tokenprefix.AbsenceNone {
			fmt.Println("route by load:", m.Absence)
			continue
		}
		fmt.Printf("%v for %s: %d tokens, stream %v, at most %d back\n", m.Shape, m.Model, sig.Tokens, m.Stream, m.MaxOutputTokens)
	}
	// Output:
	// chat for acme/chat-8b: 4 tokens, stream true, at most 64 back
	// completions for acme/base-7b: 5 tokens, stream false, at most 0 back
	// route by load: empty prompt
	// route by load: tokenprefix: body ends early: after 47 bytes
}

// Where the path of the request is known, it names the shape.
func ExampleHasher_BodyAs() {
	var h tokenprefix.Hasher
	var sig tokenprefix.Signature
	body := []byte(`{"model":"acme/embed-1b","input":"zone A"}`)
	m, err := h.BodyAs(&sig, tokenprefix.Scope{}, tokenprefix.ShapeOf("/v1/embeddings"), body)
	fmt.Println(m.Shape, sig.Tokens, err)
	// Output:
	// embeddings 2 <nil>
}

// A caller with a tokenizer has exact counts and block boundaries.
func ExampleHasher_Tokens() {
	h := tokenprefix.Hasher{BlockTokens: 4}
	var sig tokenprefix.Signature
	h.Tokens(&sig, tokenprefix.Scope{Model: "acme/base-7b"}, []uint32{101, 2054, 2003, 1996, 3976, 2000, 4224, 1038, 102})
	fmt.Println(sig.Tokens, "tokens in", len(sig.Blocks), "full blocks")
	// Output:
	// 9 tokens in 2 full blocks
}

// The engine's own count teaches the estimate.
func ExampleHasher_Observe() {
	var h tokenprefix.Hasher
	var sig tokenprefix.Signature
	text := []byte(strings.Repeat("Tariftabelle: Zone A vier, Zone B sieben. ", 100))
	for range 200 {
		h.Text(&sig, tokenprefix.Scope{}, text)
		h.Observe(&sig, 1400) // usage.prompt_tokens of the answer
	}
	before := len(text) / 4
	h.Text(&sig, tokenprefix.Scope{}, text)
	fmt.Println(before, "tokens estimated at first,", sig.Tokens, "now")
	// Output:
	// 1050 tokens estimated at first, 1399 now
}

// A clock at the front of the prompt would make every signature unlike every
// other; with the hook the prompts meet.
func ExampleSkipVolatile() {
	h := tokenprefix.Hasher{Volatile: tokenprefix.SkipVolatile}
	tail := func(clock string) uint64 {
		var sig tokenprefix.Signature
		h.Text(&sig, tokenprefix.Scope{}, []byte("Now: "+clock+"\nYou are the help desk."))
		return sig.Tail
	}
	fmt.Println(tail("2026-11-30T21:04:05Z") == tail("2026-11-30T21:04:06Z"))
	// Output:
	// true
}

// Tenants that never share a cache page cannot measure what others have sent.
func ExampleHasher_CacheSalt() {
	h := tokenprefix.Hasher{Key: []byte("0123456789abcdef0123456789abcdef")} // use a random one
	salt, err := h.CacheSalt("tenant-a")
	fmt.Println(salt, err)
	// Output:
	// iEWK97yubbApMvt2bhqoBJvH_k3mayOZF-dxI4cSZW0 <nil>
}
