package reverseproxy

import (
	"strconv"

	"github.com/warmroute/warmroute/tokenprefix"
)

// ask fills in what the router is asked, from all that can be known before the
// request is sent. What can't be read is no error: the engine will say what it
// thinks of it.
func (x *exchange) ask() {
	h := x.handler
	var (
		scope tokenprefix.Scope
		meta  tokenprefix.Meta
	)
	if h.Scope != nil {
		scope = h.Scope(x.client)
		x.asked.Tenant = scope.Tenant
	}
	text, decoded := x.text()
	if decoded != nil {
		defer h.shared.bodies.Put(decoded)
	}
	if len(text) > 0 {
		var err error
		meta, err = h.Hasher.BodyAs(&x.scratch.signature, scope, tokenprefix.ShapeOf(x.client.URL.Path), text)
		if err == nil && meta.Absence == tokenprefix.AbsenceNone {
			x.asked.Prefix = &x.scratch.signature
			x.asked.MaxOutputTokens = meta.MaxOutputTokens
		}
		x.streams = meta.Stream
	}
	if h.Responses != nil {
		x.tenant = scope.Tenant
		x.holder = h.Responses.holder(scope.Tenant, x.client.URL.Path, &meta)
	}
	if h.Refine != nil {
		h.Refine(x.client, &meta, &x.asked)
	}
}

// text returns the whole body in plain, or nil if there is no such thing, and the
// buffer that it is in if it had to be decoded. The endpoint gets it as it came.
func (x *exchange) text() (text []byte, decoded *[]byte) {
	h := x.handler
	body := x.body.whole()
	if h.Hasher == nil || len(body) == 0 {
		return nil, nil
	}
	coding := x.client.Header.Get("Content-Encoding")
	if coding == "" || coding == "identity" {
		return body, nil
	}
	decode := h.decoder(coding)
	if decode == nil {
		return nil, nil
	}
	decoded = h.shared.bodies.Get().(*[]byte)
	plain, err := decode((*decoded)[:0], body, h.shared.maxPeek)
	if err != nil {
		return nil, decoded
	}
	*decoded = plain
	return plain, decoded
}

// maxCacheKey is the longest prompt_cache_key that OpenAI's API accepts.
const maxCacheKey = 64

// CacheKey returns an affinity key for router.Request.Key from the
// prompt_cache_key of a body, or "" if it has none of use. Tenants have keys of
// their own, whatever their clients send.
//
// With a signature at hand the key is rarely needed: it moves only the home of a
// prompt that no endpoint has cached, and conversations with one system prompt
// are better off with one home.
func CacheKey(scope tokenprefix.Scope, meta *tokenprefix.Meta) string {
	if n := len(meta.PromptCacheKey); n == 0 || n > maxCacheKey {
		return ""
	}
	return strconv.Itoa(len(scope.Tenant)) + ":" + scope.Tenant + ":" + string(meta.PromptCacheKey)
}
