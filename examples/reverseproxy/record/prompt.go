package record

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"net/http"

	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// traceBlock is the size in tokens of the blocks that the hashes of a trace name,
// in the format of Mooncake. Those of signatures have to fit into it.
const traceBlock = 512

// prompt is what a trace says about a prompt. It has no hashes if there was no
// signature.
type prompt struct {
	tokens int
	hashes []uint64 // one for each 512 tokens, the last of which may be fewer
}

// Refine takes down the prompt of a request, for reverseproxy.Handler.Refine; it
// changes nothing. A handler that has a Refine of its own calls it from there.
func (r *Recorder) Refine(req *http.Request, _ *tokenprefix.Meta, asked *router.Request) {
	p, ok := req.Context().Value(entryKey{r}).(*prompt)
	if !ok || asked.Prefix == nil {
		return
	}
	s := asked.Prefix
	if s.Tail == 0 || s.BlockTokens < 1 || traceBlock%s.BlockTokens != 0 {
		return
	}
	p.tokens = nominalTokens(s)
	each := traceBlock / s.BlockTokens
	p.hashes = make([]uint64, 0, p.tokens/traceBlock+1)
	for i := each; i <= len(s.Blocks); i += each {
		p.hashes = append(p.hashes, r.salted(s.Blocks[i-1]))
	}
	if p.tokens%traceBlock > 0 {
		p.hashes = append(p.hashes, r.salted(s.Tail))
	}
}

// nominalTokens is the size of a prompt in the measure of its blocks. That of
// Signature.Tokens follows what engines tell; in a trace the one has to fit the
// other.
func nominalTokens(s *tokenprefix.Signature) int {
	blocks := len(s.Blocks)
	rest := float64(s.Tokens - s.PrefixTokens(blocks))
	if blocks > 0 {
		rest *= float64(s.BlockTokens*blocks) / float64(max(1, s.PrefixTokens(blocks)))
	}
	// What does not fill a block is less than one.
	tokens := blocks*s.BlockTokens + min(int(math.Round(rest)), s.BlockTokens-1)
	return max(1, tokens)
}

// hashBits is how much of a hash is written: what every reader of JSON can hold.
const hashBits = 53

// salted returns a hash of a hash that depends on the secret.
func (r *Recorder) salted(hash uint64) uint64 {
	var b [sha256.Size + 8]byte
	copy(b[:], r.key[:])
	binary.LittleEndian.PutUint64(b[sha256.Size:], hash)
	sum := sha256.Sum256(b[:])
	return binary.LittleEndian.Uint64(sum[:]) >> (64 - hashBits)
}
