package router_test

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/router"
)

var someEvents = []router.Event{
	{Kind: router.Sent, Origin: 3, ID: 300, Endpoint: "http://10.0.0.1:8000", Blocks: []uint64{1, 1 << 63}, Tokens: 512, Own: 2, Shared: true},
	{Kind: router.Sent, Endpoint: ""},
	{Kind: router.FirstToken, Origin: 1<<64 - 1, ID: 1<<64 - 1},
	{Kind: router.Released, Origin: 3, ID: 300, Failed: true},
}

// The encoding is spoken between gateways of different versions: a change is a
// new version byte.
func TestEvent_Golden(t *testing.T) {
	const want = "010101" + "0300000000000000" + "ac02" + "14" + "687474703a2f2f31302e302e302e313a38303030" + "8004" + "02" + "02" +
		"0100000000000000" + "0000000000000080"
	b, err := someEvents[0].AppendBinary(nil)
	require.NoError(t, err)
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("AppendBinary = %s\nwant           %s", got, want)
	}
}

func TestEvent_RoundTrip(t *testing.T) {
	for _, e := range someEvents {
		b, err := e.AppendBinary([]byte("before"))
		require.NoError(t, err)
		var got router.Event
		require.NoError(t, got.UnmarshalBinary(b[len("before"):]))
		require.Equal(t, e, got)
		for cut := range len(b) - len("before") { // nothing that is cut off is read
			was := router.Event{ID: 5}
			if err := was.UnmarshalBinary(b[len("before"):][:cut]); !errors.Is(err, router.ErrEvent) || was.ID != 5 {
				t.Errorf("%d bytes of %d: %v, event %+v, want ErrEvent and no change", cut, len(b), err, was)
			}
		}
	}
}

func FuzzEvent(f *testing.F) {
	for _, e := range someEvents {
		b, err := e.AppendBinary(nil)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Add([]byte{1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var e router.Event
		if e.UnmarshalBinary(b) != nil {
			return
		}
		p := newPool(t, router.Config{Endpoints: fleet(2)})
		require.NoError(t, p.ApplyAt(start, &e))
		again, err := e.AppendBinary(nil)
		require.NoError(t, err)
		var same router.Event
		require.NoError(t, same.UnmarshalBinary(again))
		require.Equal(t, e, same)
		if len(again) > len(b) {
			t.Errorf("%d bytes became %d", len(b), len(again))
		}
	})
}
