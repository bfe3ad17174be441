package engine_test

import (
	"testing"

	"github.com/warmroute/warmroute/internal/engine"
)

// FuzzEngine reads a configuration and a history of calls from bytes and
// compares every answer with the reference.
func FuzzEngine(f *testing.F) {
	f.Add([]byte{1, 20, 8, 2, 0, 9, 1, 0, 3, 3, 0, 12, 5, 4, 3, 1, 0, 3, 3, 3})
	f.Add([]byte{0, 0, 0, 0, 0, 7, 0, 0, 0, 7, 4, 1, 3, 2, 3, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		next := func() int {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return int(b)
		}
		data = data[:min(len(data), 400)] // the reference is slow
		block := 1 + next()%4
		p := newPair(t, engine.Config{
			KVTokens:    block * (4 + next()%60),
			BlockTokens: block,
			BatchTokens: 1 + next()%40,
			MaxRunning:  1 + next()%5,
		})
		var prompts [][]uint64
		for id := int64(0); len(data) > 0; id++ {
			switch next() % 4 {
			case 0, 1:
				tokens := 1 + next()%(p.cfg.KVTokens-1)
				output := 1 + next()%min(6, p.cfg.KVTokens-tokens)
				var old []uint64
				if len(prompts) > 0 {
					old = prompts[next()%len(prompts)]
				}
				blocks := chained(old, next(), max(0, (tokens+output)/block-next()%3), uint64(id)<<32)
				prompts = append(prompts, blocks)
				p.submit(engine.Request{ID: id, Blocks: blocks, PromptTokens: tokens, OutputTokens: output, Stream: output%2 == 0})
			case 2:
				p.cancel(int64(next()))
			case 3:
				p.step()
			}
		}
		p.finish()
	})
}
