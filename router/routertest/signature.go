package routertest

import (
	"github.com/warmroute/warmroute/router"
	"github.com/warmroute/warmroute/tokenprefix"
)

// Prompt returns the signature of a prompt: a system part of the given tokens,
// the same for all prompts with one of that size, and the history of a
// conversation, of which the last block is the turn to be answered. Of two prompts
// of a conversation with the same system part, the one with less history is the
// beginning of the other: its earlier turn. Sizes count in whole blocks of
// router.BlockTokens, rounded down; negative ones are none.
func Prompt(conversation, systemTokens, historyTokens int) *tokenprefix.Signature {
	systemTokens, historyTokens = max(0, systemTokens), max(0, historyTokens)
	system, history := systemTokens/router.BlockTokens, historyTokens/router.BlockTokens
	s := &tokenprefix.Signature{
		BlockTokens:  router.BlockTokens,
		Tokens:       systemTokens + historyTokens,
		SystemBlocks: system,
	}
	if history > 1 {
		s.HistoryBlocks = system + history - 1
	}
	h := uint64(systemTokens)*2 + 1
	for range system {
		h = next(h)
		s.Blocks = append(s.Blocks, h)
	}
	h ^= uint64(conversation) << 20
	for range history {
		h = next(h)
		s.Blocks = append(s.Blocks, h)
	}
	s.Tail = next(h ^ uint64(s.Tokens))
	return s
}

// next is a step of SplitMix64.
func next(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
