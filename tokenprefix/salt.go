package tokenprefix

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
)

// ErrNoKey says that a value was asked for that only a secret key can protect.
var ErrNoKey = errors.New("tokenprefix: Hasher.Key is empty")

// CacheSalt returns a value for the cache_salt field of vLLM that is the same
// for every request of the tenant and that no other tenant can guess. A gateway
// that sets it, in place of whatever the client sent, keeps tenants out of each
// other's cache pages: without it, the time to the first token tells whether
// somebody else has sent a prefix before (CVE-2025-46570).
//
// The value is HMAC-SHA256 with h.Key over the text "warmroute cache_salt v1", a
// zero byte and the tenant, in unpadded base64url: 43 characters. It returns
// [ErrNoKey] if there is no key, as the value could then be computed by anyone.
func (h *Hasher) CacheSalt(tenant string) (string, error) {
	if len(h.Key) == 0 {
		return "", ErrNoKey
	}
	mac := hmac.New(sha256.New, h.Key)
	mac.Write([]byte("warmroute cache_salt v1\x00"))
	mac.Write([]byte(tenant))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), nil
}
