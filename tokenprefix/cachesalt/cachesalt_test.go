package cachesalt_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/warmroute/warmroute/tokenprefix/cachesalt"
)

var secret = []byte("0123456789abcdef0123456789abcdef")

func TestDerive(t *testing.T) {
	// printf 'warmroute cache_salt v1\0tenant-a' |
	//   openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef -binary | basenc --base64url
	const want = "iEWK97yubbApMvt2bhqoBJvH_k3mayOZF-dxI4cSZW0"
	got, err := cachesalt.Derive(secret, "tenant-a")
	if err != nil || got != want {
		t.Errorf("Derive(tenant-a) = %s, %v, want %s", got, err, want)
	}
	other, err := cachesalt.Derive(secret, "tenant-b")
	if err != nil || other == got || len(other) != 43 {
		t.Errorf("Derive(tenant-b) = %s, %v, want another of 43 characters", other, err)
	}
	if _, err := cachesalt.Derive(nil, "tenant-a"); !errors.Is(err, cachesalt.ErrNoKey) {
		t.Errorf("Derive without a key = %v, want ErrNoKey", err)
	}
}

func ExampleDerive() {
	salt, err := cachesalt.Derive([]byte("0123456789abcdef0123456789abcdef"), "tenant-a")
	fmt.Println(salt, err)
	// Output: iEWK97yubbApMvt2bhqoBJvH_k3mayOZF-dxI4cSZW0 <nil>
}
