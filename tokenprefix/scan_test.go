package tokenprefix_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/tokenprefix"
)

// The functions that read eight or more bytes at a time, against a loop over
// bytes, on texts made of few letters so that everything meets everything.

func randomBytes(r *rand.Rand, letters string, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return b
}

func TestClosingQuote_EqualsLoop(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	found := 0
	for range 40_000 {
		// Mostly escapes, as a quote without one ends the text early.
		var b strings.Builder
		b.WriteByte('"')
		for range r.IntN(120) {
			b.WriteString([]string{`\"`, `\"`, `\"`, `\\`, `a`, `]`, "#", `\n`, `bcdefgh`, `[\"`, "\xdc"}[r.IntN(11)])
		}
		if r.IntN(8) > 0 {
			b.WriteString(`"tail"`)
		}
		text := []byte(b.String())
		want := -1
		for i := 1; i < len(text); i++ {
			if text[i] == '\\' {
				i++
			} else if text[i] == '"' {
				want = i + 1
				break
			}
		}
		if got := tokenprefix.ClosingQuote(text, 1); got != want {
			t.Fatalf("closingQuote(%s) = %d, want %d", text, got, want)
		}
		if want > 0 {
			found++
		}
	}
	if found < 10_000 {
		t.Errorf("only %d texts had an end", found)
	}
}

func TestNextRespelled_EqualsLoop(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 2))
	for range 40_000 {
		letters := []string{`\u/a]`, `\un`, `\\\\\\\\\\a/`, `aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\u/]`}[r.IntN(4)]
		text := randomBytes(r, letters, r.IntN(150))
		want := -1
		for i := 0; i+1 < len(text); i++ {
			if text[i] == '\\' {
				if text[i+1] == 'u' || text[i+1] == '/' {
					want = i
					break
				}
				i++
			}
		}
		if got := tokenprefix.NextRespelled(text, 0); got != want {
			t.Fatalf("nextRespelled(%s) = %d, want %d", text, got, want)
		}
	}
}

func TestParseID_EqualsStrconv(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 3))
	for range 40_000 {
		text := randomBytes(r, "0123456789,/:]", r.IntN(14))
		i := r.IntN(len(text) + 1)
		end := i
		for end < len(text) && '0' <= text[end] && text[end] <= '9' {
			end++
		}
		want, err := strconv.ParseUint(string(text[i:end]), 10, 32)
		got, gotEnd := tokenprefix.ParseID(text, i)
		if err != nil && gotEnd >= 0 || err == nil && (uint64(got) != want || gotEnd != end) {
			t.Fatalf("parseID(%s, %d) = %d, %d, want %d, %d, %v", text, i, got, gotEnd, want, end, err)
		}
	}
}

func TestSkipNumeric_EqualsLoop(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 4))
	for range 20_000 {
		text := randomBytes(r, ",-./0123456789,-./0123456789,-./0123456789,-./0123456789+:\x7f\x00\x80\xac\xff ", r.IntN(60))
		want := 0
		for want < len(text) && ',' <= text[want] && text[want] <= '9' {
			want++
		}
		if got := tokenprefix.SkipNumeric(text, 0); got != want {
			t.Fatalf("skipNumeric(%q) = %d, want %d", text, got, want)
		}
	}
}
