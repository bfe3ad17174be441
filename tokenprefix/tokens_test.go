package tokenprefix_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/tokenprefix"
)

func tokens(h *tokenprefix.Hasher, s tokenprefix.Scope, ids ...uint32) *tokenprefix.Signature {
	var sig tokenprefix.Signature
	h.Tokens(&sig, s, ids)
	return &sig
}

func TestTokens_EqualsReference(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for range 300 {
		h := &tokenprefix.Hasher{BlockTokens: 1 + r.IntN(40), BytesPerToken: 0.5 + r.Float64()*8}
		if r.IntN(3) == 0 {
			h.Key = secret
		}
		ids := idsOf(r, 1+r.IntN(500))
		scope := tokenprefix.Scope{Tenant: "t", Model: "m"}
		var stream []byte
		for _, id := range ids {
			stream = binary.LittleEndian.AppendUint32(stream, id)
		}
		blocks, tail := referenceChain(h.Key, referenceSeed('T', scope), stream, 4*h.BlockTokens)
		got := tokens(h, scope, ids...)
		if !slices.Equal(got.Blocks, blocks) || got.Tail != tail || got.Tokens != len(ids) || len(blocks) != len(ids)/h.BlockTokens {
			t.Fatalf("Tokens(%d ids) = %+v, want blocks %x, tail %x", len(ids), got, blocks, tail)
		}
	}
}

func TestText_EqualsReference(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 2))
	for range 300 {
		h := &tokenprefix.Hasher{BlockTokens: 1 + r.IntN(40), BytesPerToken: float64(1 + r.IntN(5))}
		if r.IntN(3) == 0 {
			h.Key = secret
		}
		text := []byte(words(r, 1+r.IntN(1000)))
		scope := tokenprefix.Scope{Tenant: "t", Model: "m"}
		size := h.BlockTokens * int(h.BytesPerToken)
		blocks, tail := referenceChain(h.Key, referenceSeed('X', scope), text, size)
		var got tokenprefix.Signature
		h.Text(&got, scope, text)
		if !slices.Equal(got.Blocks, blocks) || got.Tail != tail {
			t.Fatalf("Text(%d bytes) = %+v, want blocks %x, tail %x", len(text), &got, blocks, tail)
		}
	}
}

func TestTokens_NothingHasNoSignature(t *testing.T) {
	h := fine()
	sig := tokens(h, tokenprefix.Scope{}, 1, 2, 3)
	h.Tokens(sig, tokenprefix.Scope{}, nil)
	if sig.Tail != 0 || sig.Tokens != 0 {
		t.Errorf("Tokens(nil) = %+v, want it empty", sig)
	}
	h.Text(sig, tokenprefix.Scope{}, []byte("x"))
	h.Text(sig, tokenprefix.Scope{}, nil)
	if sig.Tail != 0 || sig.Tokens != 0 {
		t.Errorf("Text(nil) = %+v, want it empty", sig)
	}
}

func TestTokens_PrefixesShareExactlyTheirFullBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	ids := idsOf(r, 200)
	h := fine()
	whole := tokens(h, tokenprefix.Scope{}, ids...)
	for n := 1; n <= len(ids); n++ {
		part := tokens(h, tokenprefix.Scope{}, ids[:n]...)
		if len(part.Blocks) != n/16 || shared(part, whole) != n/16 || (part.Tail == whole.Tail) != (n == len(ids)) {
			t.Fatalf("Tokens(%d ids) shares %d blocks, want %d", n, shared(part, whole), n/16)
		}
		changed := slices.Clone(ids)
		changed[n-1]++
		if other := tokens(h, tokenprefix.Scope{}, changed...); shared(other, whole) != (n-1)/16 {
			t.Fatalf("change of id %d leaves %d blocks, want %d", n-1, shared(other, whole), (n-1)/16)
		}
	}
}

func TestBody_IDsAreTokens(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		ids := make([]uint32, 1+r.IntN(700))
		for i := range ids {
			ids[i] = r.Uint32() >> r.IntN(33) // of all lengths
		}
		scope := tokenprefix.Scope{Tenant: "t", Model: "acme/base-7b"}
		want := tokens(fine(), scope, ids...)
		list := string(marshal(ids))
		for _, body := range []string{
			`{"model":"acme/base-7b","prompt":` + list + `}`,
			`{"prompt":[` + list + `],"model":"acme/base-7b"}`,
			`{"model":"acme/base-7b","input_ids":` + strings.ReplaceAll(list, ",", " , ") + `}`,
			`{"model":"acme/base-7b","input":` + strings.ReplaceAll(list, ",", ",\n") + `}`,
		} {
			if got, _ := signed(t, fine(), tokenprefix.Scope{Tenant: "t"}, []byte(body)); !same(got, want) {
				t.Fatalf("Body(%.100s) = %+v, want %+v", body, got, want)
			}
		}
	}
}

func TestBody_ListsOfIDsAreTheirElementsInTurn(t *testing.T) {
	bodies := []string{
		`[1,2,3,4]`, `[[1,2],[3,4]]`, `[[1],[2,3,4]]`, `[[1,2,3],[4]]`, `[[1,2],[],[3,4]]`, `[[1,2],[3,4],[]]`, `[[],[1,2],[3,4]]`,
		`["1,2,3,4"]`, `["1","2"]`, `[1,2,3,"4"]`, `[1,2,3,4.0]`, `[1,2,3,-4]`, `[1,2,3,4294967296]`, `[[1,2],3,4]`, `[[1,[2]],[3,4]]`,
	}
	seen := map[uint64]string{}
	for _, p := range bodies {
		sig, _ := signed(t, &tokenprefix.Hasher{BlockTokens: 2}, tokenprefix.Scope{}, []byte(`{"prompt":`+p+`}`))
		if other, ok := seen[sig.Tail]; ok {
			t.Errorf("prompts %s and %s have one tail", p, other)
		}
		seen[sig.Tail] = p
	}
	r := rand.New(rand.NewPCG(3, 5))
	first, second := idsOf(r, 100), idsOf(r, 50)
	want := tokens(fine(), tokenprefix.Scope{}, first...)
	got, _ := signed(t, fine(), tokenprefix.Scope{}, fmt.Appendf(nil, `{"prompt":[%s,%s]}`, marshal(first), marshal(second)))
	if !leads(want, got) || got.Tokens != 150 {
		t.Errorf("list of two prompts = %+v, want %+v in front and 150 tokens", got, want)
	}
}

func TestBody_ImagesBesideIDsTakePart(t *testing.T) {
	seen := map[uint64]bool{}
	for _, body := range []string{
		`{"input_ids":[1,2,3]}`,
		`{"input_ids":[1,2,3],"image_data":"aGk="}`,
		`{"input_ids":[1,2,3],"image_data":["aGk="]}`, // the same as the one before
		`{"input_ids":[1,2,3],"image_data":["aGk=","aGk="]}`,
		`{"input_ids":[1,2,3],"image_data":"aGg="}`,
	} {
		sig, _ := signed(t, fine(), tokenprefix.Scope{}, []byte(body))
		seen[sig.Tail] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d tails, want 4", len(seen))
	}
}

func FuzzBody_IDs(f *testing.F) {
	for _, seed := range []string{"1,2,3", "4294967295", "4294967296", "1, 2 ,\t3", "-1", "1e3", "01", "1,,2", "", "1 2", "99999999,12345678,1234567"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		body := []byte(`{"prompt":[` + list + `]}`)
		var want []uint32
		if json.Unmarshal([]byte("["+list+"]"), &want) != nil || len(want) == 0 || strings.Contains(list, "null") {
			return
		}
		var got tokenprefix.Signature
		if _, err := fine().Body(&got, tokenprefix.Scope{}, body); err != nil || !same(&got, tokens(fine(), tokenprefix.Scope{}, want...)) {
			t.Errorf("Body(%s) = %+v, %v, want the signature of %d", body, &got, err, want)
		}
	})
}
