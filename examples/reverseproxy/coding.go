package reverseproxy

import (
	"bytes"
	"compress/gzip"
)

// decode appends the plain form of a body to dst, nil if it is larger than the
// limit, damaged, or in a coding that is not known here. The limit is on what is
// produced, so that a few kilobytes can't become gigabytes. The endpoint gets
// the body as it came.
func decode(dst []byte, coding string, body []byte, limit int) []byte {
	if coding != "gzip" && coding != "x-gzip" {
		return nil
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	plain, whole, err := readUpTo(dst, z, limit, -1)
	if err != nil || !whole {
		return nil
	}
	return plain
}
