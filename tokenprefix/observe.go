package tokenprefix

import "math"

const (
	// observeWeight is the share of one observation in the moving average: the
	// last 30 or so prompts decide.
	observeWeight = 1.0 / 32
	// observeMinTokens is the size below which a prompt says more about the
	// chat template around the text than about the text.
	observeMinTokens = 64
)

// Observe teaches the estimate of Signature.Tokens: the prompt with signature s
// had promptTokens tokens, as the engine reports in its usage
// (usage.prompt_tokens, cached tokens included). The bytes of a token are a
// moving average over the prompts observed, kept between 1 and 64. Blocks never
// depend on it.
//
// Use one Hasher for each family of tokenizers whose counts shall be good.
// Signatures from token ids, from prompts with images and of prompts below 64
// tokens teach nothing, nor do counts that are not positive; Observe ignores
// them. It is safe for concurrent use with all other methods.
func (h *Hasher) Observe(s *Signature, promptTokens int) {
	if s.textBytes == 0 || promptTokens < observeMinTokens {
		return
	}
	seen := min(max(float64(s.textBytes)/float64(promptTokens), 1), maxBytesPerToken)
	for {
		old := h.bytesPerToken.Load()
		per := h.configuredTokenBytes()
		if old != 0 {
			per = math.Float64frombits(old)
		}
		per += (seen - per) * observeWeight
		if h.bytesPerToken.CompareAndSwap(old, math.Float64bits(per)) {
			return
		}
	}
}

// tokenBytes returns the present estimate of the size of a token of text.
func (h *Hasher) tokenBytes() float64 {
	if learned := h.bytesPerToken.Load(); learned != 0 {
		return math.Float64frombits(learned)
	}
	return h.configuredTokenBytes()
}
