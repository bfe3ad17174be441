package zstdbody_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/warmroute/warmroute/examples/reverseproxy"
	"github.com/warmroute/warmroute/examples/reverseproxy/zstdbody"
)

const limit = 1 << 20

func compress(t *testing.T, plain []byte, o ...zstd.EOption) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil, o...)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	return e.EncodeAll(plain, nil)
}

func TestNew_Decodes(t *testing.T) {
	plain, err := os.ReadFile("../testdata/bodies/chat_basic.json")
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := os.ReadFile("../testdata/bodies/chat_basic.json.zst") // by another encoder
	if err != nil {
		t.Fatal(err)
	}
	decode := zstdbody.New()
	two := append(compress(t, plain[:100]), compress(t, plain[100:])...) // frames follow one another
	for i, body := range [][]byte{foreign, compress(t, plain), two} {
		got, err := decode([]byte("before:"), body, limit)
		if err != nil || string(got) != "before:"+string(plain) {
			t.Errorf("decode of body %d = %.60q, %v; want chat_basic.json", i, got, err)
		}
	}
}

// C78: the limit is one on what comes out, however little goes in.
func TestC78_Limit(t *testing.T) {
	decode := zstdbody.New()
	at := bytes.Repeat([]byte("x"), limit)
	if got, err := decode(nil, compress(t, at), limit); err != nil || len(got) != limit {
		t.Errorf("decode of %d bytes = %d, %v; want all", limit, len(got), err)
	}
	bomb := compress(t, make([]byte, 64<<20))
	for _, body := range [][]byte{
		compress(t, append(at, 'x')), bomb, bytes.Repeat(compress(t, make([]byte, 64<<10)), 1000),
	} {
		got, err := decode(nil, body, limit)
		if !errors.Is(err, reverseproxy.ErrTooLarge) || len(got) > limit+1 {
			t.Errorf("decode of a bomb of %d bytes = %d bytes, %v; want ErrTooLarge", len(body), len(got), err)
		}
	}
	if _, err := decode(nil, compress(t, make([]byte, 64<<20), zstd.WithWindowSize(64<<20), zstd.WithSingleSegment(true)), limit); err == nil {
		t.Error("decode of a frame with a window of 64 MiB succeeds, want an error")
	}
}

func TestNew_Damaged(t *testing.T) {
	decode := zstdbody.New()
	whole := compress(t, []byte(strings.Repeat("some text ", 1000)))
	for n := 1; n < len(whole); n++ {
		if _, err := decode(nil, whole[:n], limit); err == nil {
			t.Errorf("decode of the first %d of %d bytes succeeds, want an error", n, len(whole))
		}
	}
	if _, err := decode(nil, []byte("not zstd at all"), limit); err == nil {
		t.Error("decode of text succeeds, want an error")
	}
	if got, err := decode(nil, whole, limit); err != nil || len(got) != 10_000 {
		t.Errorf("decode after failures = %d bytes, %v; want 10000", len(got), err)
	}
}

func TestNew_Concurrent(t *testing.T) {
	decode := zstdbody.New()
	var wg sync.WaitGroup
	for i := range 8 {
		plain := strings.Repeat(string(rune('a'+i)), 10_000)
		body := compress(t, []byte(plain))
		wg.Go(func() {
			for range 50 {
				if got, err := decode(nil, body, limit); err != nil || string(got) != plain {
					t.Errorf("decode = %.20q, %v; want %.20q", got, err, plain)
					return
				}
			}
		})
	}
	wg.Wait()
}
