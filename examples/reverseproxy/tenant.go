package reverseproxy

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/warmroute/warmroute/tokenprefix"
)

// HeaderTenant returns a Handler.Scope that takes the tenant from a header which
// an authenticating proxy in front sets, and which it removes from what clients
// send.
func HeaderTenant(name string) func(*http.Request) tokenprefix.Scope {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) tokenprefix.Scope {
		return tokenprefix.Scope{Tenant: r.Header.Get(name)}
	}
}

// BearerTenant is a Handler.Scope that makes every API key a tenant of its own.
// The name of the tenant is a hash, so that keys don't get into tables and logs.
func BearerTenant(r *http.Request) tokenprefix.Scope {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		key = r.Header.Get("X-Api-Key") // Anthropic's
	}
	if key == "" {
		return tokenprefix.Scope{}
	}
	hash := sha256.Sum256([]byte(key))
	return tokenprefix.Scope{Tenant: hex.EncodeToString(hash[:8])}
}
