package routertest

import "github.com/warmroute/warmroute/balancer"

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
