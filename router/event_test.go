package router_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/router"
)

var someEvents = []router.Event{
	{Kind: router.Sent, Origin: 3, ID: 300, Endpoint: "http://10.0.0.1:8000", Blocks: []uint64{1, 1 << 63}, Tokens: 512, Own: 2, Shared: true},
	{Kind: router.Sent, Endpoint: ""},
	{Kind: router.FirstToken, Origin: 1<<64 - 1, ID: 1<<64 - 1},
	{Kind: router.Released, Origin: 3, ID: 300, Failed: true},
	{Kind: router.Waiting, Origin: 3, ID: 300, Due: -3 * time.Second, Blocks: []uint64{1, 1 << 63}, Tokens: 600},
	{Kind: router.Waiting, Origin: 3, ID: 300, Due: time.Hour},
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
	waiting := router.Event{Kind: router.Waiting, Origin: 3, ID: 300, Due: -3 * time.Second, Blocks: []uint64{1}, Tokens: 300}
	b, err = waiting.AppendBinary(nil)
	require.NoError(t, err)
	const wantWaiting = "010400" + "0300000000000000" + "ac02" + "fff782ad16" + "ac02" + "00" + "01" + "0100000000000000"
	if got := hex.EncodeToString(b); got != wantWaiting {
		t.Errorf("AppendBinary = %s\nwant           %s", got, wantWaiting)
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

func TestEvent_WhatIsNotUnderstood(t *testing.T) {
	b, err := someEvents[0].AppendBinary(nil)
	require.NoError(t, err)
	for name, change := range map[string]func([]byte) []byte{
		"later version":    func(b []byte) []byte { b[0] = 2; return b },
		"unknown kind":     func(b []byte) []byte { b[1] = 5; return b },
		"kind zero":        func(b []byte) []byte { b[1] = 0; return b },
		"bytes left over":  func(b []byte) []byte { return append(b, 0) },
		"block left over":  func(b []byte) []byte { return append(b, 1, 2, 3, 4, 5, 6, 7, 8) },
		"endpoint too far": func(b []byte) []byte { b[13] = 100; return b },
		"too many tokens":  func(b []byte) []byte { return huge(b[:34]) },
		"too many of own":  func(b []byte) []byte { return huge(b[:36]) },
	} {
		e := router.Event{ID: 5}
		if err := e.UnmarshalBinary(change(bytes.Clone(b))); !errors.Is(err, router.ErrEvent) || e.ID != 5 {
			t.Errorf("%s: %v, event %+v, want ErrEvent and no change", name, err, e)
		}
	}
	// Flags that a later version may set mean nothing here.
	b[2] |= 0x80
	var e router.Event
	require.NoError(t, e.UnmarshalBinary(b))
	require.Equal(t, someEvents[0], e)
}

// huge appends a number that is too large and nothing else.
func huge(b []byte) []byte {
	return append(binary.AppendUvarint(bytes.Clone(b), 1<<31), 0, 0)
}

// Which outcomes are laid to the endpoint by those who are told.
func TestEvent_ReleasedSaysWhatTheOutcomeMeans(t *testing.T) {
	for _, c := range []struct {
		outcome            router.Outcome
		failed, uncomputed bool
	}{
		{router.Outcome{}, false, false},
		{refused, true, true},
		{router.Outcome{StatusCode: 500}, true, true},
		{router.Outcome{StatusCode: 503}, true, true},
		{router.Outcome{StatusCode: 429}, false, true},
		{router.Outcome{StatusCode: 404}, false, true},
		{router.Outcome{Abandoned: true, StatusCode: 500}, false, false},
	} {
		var got []router.Event
		p := newPool(t, router.Config{Endpoints: fleet(1), Origin: 3, Hooks: router.Hooks{Announce: func(e *router.Event) { got = append(got, *e) }}})
		at := start.Add(time.Second)
		pick(t, p, router.Request{}).ReleaseAt(start, router.Outcome{}) // has number 0
		got = nil
		pick(t, p, router.Request{Prefix: prompt(1, 2)}).ReleaseAt(at, c.outcome)
		want := []router.Event{
			{Kind: router.Sent, Origin: 3, ID: 1, Endpoint: "e0", Blocks: prompt(1, 2).Blocks, Tokens: 512, Own: 1, Shared: true, At: start},
			{Kind: router.Released, Origin: 3, ID: 1, Failed: c.failed, Uncomputed: c.uncomputed, At: at},
		}
		require.Equal(t, want, got, "%+v", c.outcome)
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
