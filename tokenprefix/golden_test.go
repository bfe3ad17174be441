package tokenprefix_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmroute/warmroute/tokenprefix"
)

var update = flag.Bool("update", false, "rewrite testdata/golden.txt; this moves every conversation of running fleets")

// TestGolden_SignaturesNeverChange compares with signatures written down once. A
// difference is not a failing test to be updated: it moves every conversation of
// running fleets, and needs another format version and an entry in the changelog.
func TestGolden_SignaturesNeverChange(t *testing.T) {
	path := filepath.Join("testdata", "golden.txt")
	got := golden(t)
	if *update {
		must(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(got, want) {
		g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
		for i := range min(len(g), len(w)) {
			if g[i] != w[i] {
				t.Errorf("signature\n%s, want\n%s", g[i], w[i])
			}
		}
		t.Errorf("%d signatures, want %d", len(g), len(w))
	}
}

// golden returns a line for each signature: name, scope, tail and blocks.
func golden(t *testing.T) []byte {
	var b bytes.Buffer
	line := func(name string, sig *tokenprefix.Signature) {
		fmt.Fprintf(&b, "%s tokens=%d system=%d history=%d tail=%016x blocks=%016x\n",
			name, sig.Tokens, sig.SystemBlocks, sig.HistoryBlocks, sig.Tail, sig.Blocks)
	}
	scopes := []tokenprefix.Scope{{}, {Tenant: "tenant-a", Model: "acme/chat-8b", Adapter: "sql", Salt: "s"}}
	for _, h := range []*tokenprefix.Hasher{fine(), {BlockTokens: 16, Key: secret}} {
		for i, scope := range scopes {
			name := func(what string) string { return fmt.Sprintf("%s key=%d scope=%d", what, len(h.Key), i) }
			files, err := filepath.Glob(filepath.Join("testdata", "bodies", "*.json"))
			must(t, err)
			for _, f := range files {
				var sig tokenprefix.Signature
				if m, err := h.Body(&sig, scope, readBody(t, filepath.Base(f))); err == nil && m.Absence == tokenprefix.AbsenceNone {
					line(name(filepath.Base(f)), &sig)
				}
			}
			ids := make([]uint32, 50)
			for i := range ids {
				ids[i] = uint32(i) * 0x01234567
			}
			line(name("ids"), tokens(h, scope, ids...))
			var sig tokenprefix.Signature
			h.Text(&sig, scope, []byte(strings.Repeat("A parcel to zone B costs 7 EUR. ", 10)))
			line(name("text"), &sig)
		}
	}
	return b.Bytes()
}
