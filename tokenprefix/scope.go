package tokenprefix

import "encoding/binary"

// formatVersion is the version of the canonical stream and of the chain. A
// change to either changes every signature, and so where every prompt lives.
const formatVersion = 1

// A Scope says who may share a prefix. All four texts seed the chain, each with
// its length, so two prompts in different scopes have no block in common, and
// adapter "a" with salt "bc" is not adapter "ab" with salt "c".
//
// [Hasher.Body] takes an empty Model, Adapter or Salt from the body (see there);
// a field that is set here wins over the body. Tenant is never taken from the
// body, since a client must not choose whose cache it shares.
type Scope struct {
	Tenant  string // whose request it is, as the gateway authenticated it
	Model   string // model name; replicas of another model share no prefix
	Adapter string // LoRA adapter or the like that changes what the cache holds
	Salt    string // any further separation, such as vLLM's cache_salt
}

// domain separates the three kinds of input of a chain.
type domain byte

const (
	domainTokens domain = 'T' // little-endian token ids
	domainText   domain = 'X' // text as it is
	domainBody   domain = 'B' // canonical stream of a body
	domainMedia  domain = 'I' // canonical stream of one image, audio or video part
)

// A bodyScope is the part of a scope that a body may give.
type bodyScope struct{ model, adapter, salt []byte }

// appendSeed appends the unambiguous encoding of domain and scope to dst.
func appendSeed(dst []byte, d domain, s Scope, b bodyScope) []byte {
	dst = append(dst, "warmroute"...)
	dst = append(dst, formatVersion, byte(d))
	dst = appendSized(dst, s.Tenant, nil)
	dst = appendSized(dst, s.Model, b.model)
	dst = appendSized(dst, s.Adapter, b.adapter)
	return appendSized(dst, s.Salt, b.salt)
}

// appendSized appends the text, or other if it is empty, behind its length.
func appendSized(dst []byte, text string, other []byte) []byte {
	if text == "" {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(len(other)))
		return append(dst, other...)
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(text)))
	return append(dst, text...)
}
