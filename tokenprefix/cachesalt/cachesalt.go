// Package cachesalt derives values for the cache_salt field of vLLM, which keep
// tenants out of each other's cache pages. It stands apart from tokenprefix so
// that the router does not depend on cryptography.
package cachesalt

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
)

// ErrNoKey says that the key is empty: the value could then be computed by
// anyone and would protect nothing.
var ErrNoKey = errors.New("cachesalt: the key is empty")

// Derive returns a cache_salt that is the same for every request of the tenant
// and that no other tenant can guess. A gateway that sets it, in place of
// whatever the client sent, keeps tenants out of each other's cache pages:
// without it, the time to the first token tells whether somebody else has sent a
// prefix before (CVE-2025-46570). Give it 32 random bytes as the key; that of
// tokenprefix.Hasher.Key will do.
//
// The value is HMAC-SHA256 with the key over the text "warmroute cache_salt v1",
// a zero byte and the tenant, in unpadded base64url: 43 characters.
func Derive(key []byte, tenant string) (string, error) {
	if len(key) == 0 {
		return "", ErrNoKey
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("warmroute cache_salt v1\x00"))
	mac.Write([]byte(tenant))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), nil
}
