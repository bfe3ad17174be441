package loadstats

import (
	"encoding/binary"
	"errors"
	"math"
)

// orcaField names the fields of xds.data.orca.v3.OrcaLoadReport by number.
// Fields of other numbers are skipped.
func orcaField(number uint64) (name string) {
	switch number {
	case 1:
		return "cpu_utilization"
	case 2:
		return "mem_utilization"
	case 3:
		return "rps"
	case 4:
		return "request_cost"
	case 5:
		return "utilization"
	case 6:
		return "rps_fractional"
	case 7:
		return "eps"
	case 8:
		return "named_metrics"
	case 9:
		return "application_utilization"
	}
	return ""
}

// Wire types of protocol buffers
// (https://protobuf.dev/programming-guides/encoding/). Groups, the two others,
// were withdrawn before this message was made.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

var errORCAMessage = errors.New("loadstats: ORCA report in BIN: not an OrcaLoadReport message")

// visitORCAMessage reads the encoded message: numbers on top, and maps from
// string to double, which are repeated messages of a key (1) and a value (2).
func visitORCAMessage(message string, visit func(group, name string, v float64)) error {
	for message != "" {
		f, rest, ok := nextWireField(message)
		if !ok {
			return errORCAMessage
		}
		message = rest
		name := orcaField(f.number)
		switch {
		case name == "":
		case f.wire == wireFixed64:
			visit("", name, math.Float64frombits(f.value))
		case f.wire == wireVarint: // rps was an integer
			visit("", name, float64(f.value))
		case f.wire == wireBytes:
			key, v, ok := wireMapEntry(f.bytes)
			if !ok {
				return errORCAMessage
			}
			visit(name, key, v)
		}
	}
	return nil
}

func wireMapEntry(entry string) (key string, value float64, ok bool) {
	for entry != "" {
		f, rest, ok := nextWireField(entry)
		if !ok {
			return "", 0, false
		}
		entry = rest
		switch {
		case f.number == 1 && f.wire == wireBytes:
			key = f.bytes
		case f.number == 2 && f.wire == wireFixed64:
			value = math.Float64frombits(f.value)
		}
	}
	return key, value, true
}

// wireField is one field of an encoded message: value for the numeric wire
// types, bytes for the other.
type wireField struct {
	number, wire, value uint64
	bytes               string
}

func nextWireField(s string) (f wireField, rest string, ok bool) {
	tag, s, ok := varint(s)
	if !ok {
		return f, "", false
	}
	f.number, f.wire = tag>>3, tag&7
	switch f.wire {
	case wireVarint:
		f.value, s, ok = varint(s)
		return f, s, ok
	case wireFixed64:
		if len(s) < 8 {
			return f, "", false
		}
		f.value = binary.LittleEndian.Uint64([]byte(s[:8]))
		return f, s[8:], true
	case wireFixed32:
		if len(s) < 4 {
			return f, "", false
		}
		return f, s[4:], true
	case wireBytes:
		n, s, ok := varint(s)
		if !ok || n > uint64(len(s)) {
			return f, "", false
		}
		f.bytes = s[:n]
		return f, s[n:], true
	}
	return f, "", false
}

func varint(s string) (v uint64, rest string, ok bool) {
	for i := 0; i < len(s) && i < binary.MaxVarintLen64; i++ {
		v |= uint64(s[i]&0x7f) << (7 * i)
		if s[i] < 0x80 {
			return v, s[i+1:], true
		}
	}
	return 0, "", false
}
