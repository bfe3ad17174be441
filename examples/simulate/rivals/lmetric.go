package rivals

// lmetric is the product of "Simple is Better: Multiplication May Be All You Need
// for LLM Request Scheduling" (arXiv:2603.15202), as llm-d-router has it
// (https://github.com/llm-d/llm-d-router,
// pkg/epp/framework/plugins/scheduling/scorer/lmetric): the least of the prompt's
// tokens that are not cached, times the requests in flight with this one. It has no
// constants. Ties go to any.
//
// The paper's name for the first factor, new prefill tokens, may be read to include
// those that wait on the engine already; that is the variant with a queue. What is
// cached is believed as by the endpoint picker (see gie), but for whole prompts.
type lmetric struct {
	queued bool
	index  blockIndex
}

func (m *lmetric) choose(f *fleet, r *request, candidates []*engine) (*engine, int) {
	cached := m.index.matches(r.blocks, candidates)
	e := f.anyOf(least(candidates, func(e *engine) float64 {
		tokens := max(0, r.tokens-cached[e]*blockTokens)
		if m.queued {
			tokens += e.prefill
		}
		return float64(tokens) * float64(e.inFlight+1)
	}))
	return e, cached[e] * blockTokens
}

func (m *lmetric) send(_ *fleet, r *request, l *flight) { m.index.add(l.engine, r.blocks) }
