package tokenprefix

import (
	"fmt"
	"math"
	"sync/atomic"
)

// Defaults and limits of the fields of a [Hasher].
const (
	// DefaultBlockTokens is the size of a block when Hasher.BlockTokens is 0.
	DefaultBlockTokens = 256
	// DefaultBytesPerToken is the assumed size of a token of text when
	// Hasher.BytesPerToken is 0. English prose and code come close to it.
	DefaultBytesPerToken = 4.0

	maxBlockTokens   = 1 << 16
	maxBytesPerToken = 64.0
)

// A Hasher turns prompts into signatures. The zero Hasher is a good production
// default; most gateways call [Hasher.Body].
//
// A Hasher is safe for concurrent use, each call with a Signature of its own. It
// must not be copied, and its fields must not be changed, after the first use.
// Gateways agree on signatures when their fields are equal.
type Hasher struct {
	// BlockTokens is the size of a block in tokens, 1 to 65,536; 0 means 256,
	// and a router.Pool takes nothing else. It is the unit in which prefixes are
	// told apart: smaller blocks see more of a short shared prefix, larger ones
	// need less memory in the router. It need not be the block size of the engine.
	BlockTokens int

	// BytesPerToken is the size of a token of text in bytes, above 0 and up to
	// 64; 0 means 4. Together with BlockTokens it fixes the size of a block of
	// text in bytes for good. The estimate of Signature.Tokens starts here and
	// then follows [Hasher.Observe].
	BytesPerToken float64

	// Key, if not empty, is a secret that signatures depend on, so that nobody
	// outside can construct prompts that collide or that meet at one endpoint.
	// Gateways that are to agree need the same key. Give it 32 random bytes.
	// Without a key, signatures are the same everywhere, and a body is read about
	// three times as fast. See [Hasher.CacheSalt] for its other use.
	Key []byte

	// Volatile, if not nil, is shown the beginning of the prompt and returns
	// how many bytes of it the signature shall leave out: a clock, a trace id, a
	// nonce that would make every prompt unlike every other from its first
	// block on. [SkipVolatile] knows the common ones.
	//
	// It gets the decoded text of the first part, at most its first 4 KiB, and
	// must not keep or change it; a result outside of 0 to len(text) counts as
	// the nearer end. When it leaves out a part as a whole, it is shown the next
	// one. It is called on the goroutine of the hashing call, with no lock held.
	//
	// The engine still sees these bytes and its own cache still misses behind
	// them, so the router will expect more reuse than there is, unless the
	// gateway removes them too. What remains is that the prompts meet.
	Volatile func(text []byte) (skip int)

	bytesPerToken atomic.Uint64 // math.Float64bits of what Observe has learned; 0: nothing
}

// Validate reports the first field with a value out of its range. The hashing
// methods, which have no error to return for it, use the default in its place.
func (h *Hasher) Validate() error {
	if h.BlockTokens < 0 || h.BlockTokens > maxBlockTokens {
		return fmt.Errorf("tokenprefix: BlockTokens %d is not in 0 to %d", h.BlockTokens, maxBlockTokens)
	}
	if !(h.BytesPerToken >= 0 && h.BytesPerToken <= maxBytesPerToken) {
		return fmt.Errorf("tokenprefix: BytesPerToken %v is not in 0 to %v", h.BytesPerToken, maxBytesPerToken)
	}
	return nil
}

// Tokens sets dst to the signature of a prompt of token ids, for callers that
// have run the model's tokenizer. Blocks hold exactly BlockTokens ids. A prompt
// of no ids has no signature. A body whose prompt is a list of these ids has the
// same signature in the same scope.
func (h *Hasher) Tokens(dst *Signature, s Scope, ids []uint32) {
	e := dst.reset()
	dst.BlockTokens = h.blockTokens()
	if len(ids) == 0 {
		return
	}
	h.start(e, dst, domainTokens, s, bodyScope{})
	e.writeIDs(ids)
	h.finishTokens(e, dst)
}

// Text sets dst to the signature of a prompt of text, for callers that have
// rendered the model's chat template. The text is taken byte by byte, so two
// spellings of one prompt differ; no tokens are cut, so block boundaries are
// those of bytes. An empty text has no signature.
func (h *Hasher) Text(dst *Signature, s Scope, text []byte) {
	e := dst.reset()
	dst.BlockTokens = h.blockTokens()
	if len(text) == 0 {
		return
	}
	h.start(e, dst, domainText, s, bodyScope{})
	skip := h.skipVolatile(text[:min(len(text), volatileWindow)])
	e.skipped = skip
	e.write(text[skip:])
	h.finishText(e, dst)
}

// start begins the chain of the prompt in e.
func (h *Hasher) start(e *encoder, dst *Signature, d domain, s Scope, b bodyScope) {
	e.seed = appendSeed(e.seed[:0], d, s, b)
	size := h.blockBytes()
	if d == domainTokens {
		size = 4 * h.blockTokens()
	}
	e.chain.start(size, h.Key, e.seed, dst.Blocks[:0])
}

// finishTokens completes dst from a chain of token ids.
func (h *Hasher) finishTokens(e *encoder, dst *Signature) {
	dst.Blocks = e.blocks
	dst.Tail = e.tail()
	dst.Tokens = e.total / 4
}

// finishText completes dst from a chain of text.
func (h *Hasher) finishText(e *encoder, dst *Signature) {
	dst.Blocks = e.blocks
	dst.Tail = e.tail()
	per := h.tokenBytes()
	text := e.total + e.skipped - e.media.filled
	dst.Tokens = max(1, int(math.Round(float64(text)/per))+e.media.count*mediaTokens)
	dst.tokensPerBlock = float64(e.size) / per
	if e.media.count == 0 {
		dst.textBytes = text
	}
}

// blockTokens returns the size of a block in tokens.
func (h *Hasher) blockTokens() int {
	if h.BlockTokens <= 0 || h.BlockTokens > maxBlockTokens {
		return DefaultBlockTokens
	}
	return h.BlockTokens
}

// configuredTokenBytes returns the size of a token of text before calibration.
func (h *Hasher) configuredTokenBytes() float64 {
	if !(h.BytesPerToken > 0 && h.BytesPerToken <= maxBytesPerToken) {
		return DefaultBytesPerToken
	}
	return h.BytesPerToken
}

// blockBytes returns the size of a block of text in bytes.
func (h *Hasher) blockBytes() int {
	return max(1, int(math.Round(float64(h.blockTokens())*h.configuredTokenBytes())))
}
