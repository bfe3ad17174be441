package tokenprefix

import "slices"

// A Signature identifies a prompt and each of its leading parts.
//
// Pass the same Signature to a [Hasher] again and again: its memory is reused, up
// to about a sixth of the largest body, and hashing then allocates nothing. Each
// call overwrites the whole Signature, Blocks included, so whoever keeps a
// signature longer than until the next call keeps a [Signature.Clone]. The zero
// Signature is ready to use and identifies nothing. A Signature is not safe for
// concurrent use, and must not be copied: the copy would share its memory.
type Signature struct {
	// Blocks[i] identifies the whole prompt up to the end of block i: equal
	// values mean equal scope and equal text up to there. Only full blocks are
	// listed, so a prompt that continues another one starts with its Blocks.
	Blocks []uint64

	// Tail identifies the whole prompt, the part behind the last full block
	// included. It is 0 only when there is no signature, as for a body without
	// a prompt; a prompt shorter than one block has a Tail but no Blocks.
	Tail uint64

	// Tokens is the size of the prompt in tokens: exact for token ids, else
	// estimated from the text. It is 0 only when there is no signature.
	Tokens int

	// BlockTokens is the nominal number of tokens in a block, as configured in
	// the Hasher. [Signature.PrefixTokens] says how many tokens a number of
	// blocks is believed to hold.
	BlockTokens int

	// SystemBlocks counts the full blocks inside the system prompt and the
	// tools, which many conversations may share. It is 0 where the prompt has
	// no such part, as for text and token ids.
	SystemBlocks int

	// HistoryBlocks counts the full blocks up to the end of the last assistant
	// turn, which only this conversation is likely to share. It is 0 where no
	// assistant has spoken yet.
	HistoryBlocks int

	tokensPerBlock float64  // as estimated; 0 means BlockTokens
	textBytes      int      // text that Tokens was estimated from; 0 when Observe can learn nothing
	work           *encoder // memory for the next call
}

// Clone returns a copy that shares no memory with s and does not change when s
// is hashed into again. It carries none of the working memory of s.
func (s *Signature) Clone() *Signature {
	c := *s
	c.Blocks = slices.Clone(s.Blocks)
	c.work = nil
	return &c
}

// PrefixTokens returns how many tokens the first n blocks hold, in the same
// measure as Tokens: after [Hasher.Observe] has learned that a token of this
// traffic is 3.2 bytes instead of 4, a nominal block of 256 tokens holds 320 of
// them. The result is never more than Tokens. Values of n outside of 0 to
// len(Blocks) count as the nearer end.
func (s *Signature) PrefixTokens(n int) int {
	n = min(max(n, 0), len(s.Blocks))
	per := s.tokensPerBlock
	if per == 0 {
		per = float64(s.BlockTokens)
	}
	return min(int(float64(n)*per), s.Tokens)
}

// reset empties s and returns its memory, ready for the next prompt.
func (s *Signature) reset() *encoder {
	if s.work == nil {
		s.work = new(encoder)
	}
	*s = Signature{Blocks: s.Blocks[:0], work: s.work}
	s.work.reset()
	return s.work
}
