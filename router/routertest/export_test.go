package routertest

import (
	"net/http"
	"time"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/internal/engine"
)

// NewLateEngine returns an engine without a port whose driver never comes.
func NewLateEngine() *Engine {
	m, err := engine.New(engine.Config{})
	if err != nil {
		panic(err)
	}
	return &Engine{
		config: EngineConfig{Speed: 1}, wake: make(chan struct{}, 1), quit: make(chan struct{}),
		server: new(http.Server), epoch: time.Now(), model: m, jobs: make(map[int64]*job),
	}
}

// Submit gives the engine a prompt of one token that wants one back.
func (e *Engine) Submit() error {
	_, _, err := e.submit(&prompt{tokens: 1, maxTokens: 1})
	return err
}

// MeanTTFT is the mean time to first token, in seconds, of so many requests.
func (e *Engine) MeanTTFT() (mean float64, count int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advance()
	for _, n := range e.ttft.counts {
		count += n
	}
	return e.ttft.sum / float64(max(1, count)), count
}

// ParsePrompt is what the engine makes of a body.
func ParsePrompt(body []byte, chat bool) (tokens, maxTokens int, blocks []uint64, err error) {
	p, err := parsePrompt(body, chat)
	if err != nil {
		return 0, 0, nil, err
	}
	return p.tokens, p.maxTokens, p.blocks, nil
}

// ParseText is the text of the content of a message.
func ParseText(content []byte) (string, error) {
	var t text
	err := t.UnmarshalJSON(content)
	return string(t), err
}

// Obeys reports whether a policy obeys one of the laws of TestPolicy.
func Obeys(p balancer.Policy, name string) bool {
	for _, l := range laws() {
		if l.name == name {
			return l.check(p) == nil
		}
	}
	panic("no law " + name)
}
