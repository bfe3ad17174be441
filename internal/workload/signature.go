package workload

import "github.com/warmroute/warmroute/tokenprefix"

// Signature makes dst the signature of p in blocks of blockTokens tokens. It
// reuses the memory of dst.Blocks. The hashes are not those that a
// tokenprefix.Hasher computes from the body; they only agree on which
// prefixes are equal. An empty prompt has no signature. Neither hash depends on a tenant, because no two tenants
// share a segment here.
func (p Prompt) Signature(dst *tokenprefix.Signature, blockTokens int) {
	if len(p.Segments) == 0 {
		*dst = tokenprefix.Signature{Blocks: dst.Blocks[:0], BlockTokens: blockTokens}
		return
	}
	c := newChain(dst.Blocks[:0], blockTokens)
	c.add(p.Segments...)
	system, history := p.parts()
	*dst = tokenprefix.Signature{
		Blocks:        c.blocks,
		Tail:          c.last,
		Tokens:        p.Tokens(),
		BlockTokens:   blockTokens,
		SystemBlocks:  system / blockTokens,
		HistoryBlocks: history / blockTokens,
	}
}

// parts returns the tokens of the leading system part, and of everything up
// to the end of the last answer of the assistant.
func (p Prompt) parts() (system, history int) {
	tokens := 0
	leading := true
	for _, s := range p.Segments {
		tokens += s.Tokens
		leading = leading && s.Role == System
		if leading {
			system = tokens
		}
		if s.Role == Assistant {
			history = tokens
		}
	}
	return system, history
}
