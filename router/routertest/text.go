package routertest

import (
	"bytes"
	"encoding/json"
)

// text is the content of a message: a string, or a list of parts of which text
// counts as it is and everything else by its JSON.
type text []byte

// UnmarshalJSON implements json.Unmarshaler. The content is most of a request, so
// strings don't go through encoding/json a second time.
func (t *text) UnmarshalJSON(b []byte) error {
	var err error
	switch b[0] {
	case '"':
		*t, err = unquote(nil, b)
	case '[':
		*t, err = appendParts(nil, b)
	case 'n':
		*t = nil
	default:
		err = json.Unmarshal(b, new(string)) // an error that names the type
	}
	return err
}

func appendParts(dst, list []byte) ([]byte, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(list, &parts); err != nil {
		return nil, err
	}
	for _, raw := range parts {
		var p struct {
			Text json.RawMessage `json:"text"`
		}
		if err := json.Unmarshal(raw, &p); err != nil || len(p.Text) == 0 || p.Text[0] != '"' {
			dst = append(dst, raw...)
			continue
		}
		var err error
		if dst, err = unquote(dst, p.Text); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// unquote appends the value of a JSON string, which is known to be valid JSON, to
// dst. Bytes that are not UTF-8 stay as they are.
func unquote(dst, quoted []byte) ([]byte, error) {
	start, s := len(dst), quoted[1:len(quoted)-1]
	if dst == nil {
		dst = make([]byte, 0, len(s))
	}
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return append(dst, s...), nil
		}
		c := s[i+1]
		switch c {
		case 'n':
			c = '\n'
		case 't':
			c = '\t'
		case 'r':
			c = '\r'
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'u':
			// The rules of surrogates are encoding/json's.
			var v string
			err := json.Unmarshal(quoted, &v)
			return append(dst[:start], v...), err
		}
		dst = append(append(dst, s[:i]...), c)
		s = s[i+2:]
	}
}
