package scrape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// sample is one number of a page. It is valid until the next one is read.
type sample struct {
	name   []byte
	labels []label
	value  float64
}

type label struct{ name, value []byte }

// label returns the value of the label, empty if the sample has none of that name.
func (s *sample) label(name string) []byte {
	for _, l := range s.labels {
		if string(l.name) == name {
			return l.value
		}
	}
	return nil
}

// readPage calls visit with the samples whose name is wanted. A page that
// begins like JSON is JSON, any other is metrics text.
func readPage(page []byte, wanted func(name []byte) bool, visit func(*sample)) error {
	if first := bytes.TrimLeft(page, " \t\r\n"); len(first) > 0 && (first[0] == '[' || first[0] == '{') {
		return readJSON(first, wanted, visit)
	}
	return readText(page, wanted, visit)
}

// readText reads the Prometheus text format, version 0.0.4, and OpenMetrics 1.0,
// which add units, exemplars and an end mark to it. Sources:
// https://prometheus.io/docs/instrumenting/exposition_formats/ and
// https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md.
// It is more lenient than both where a line is not wanted: all it asks then is
// that the line begins as a metric does. Lines after the end mark are not read;
// neither is a last line without a line end, whose number may have been cut.
func readText(page []byte, wanted func(name []byte) bool, visit func(*sample)) error {
	var s sample
	for number := 1; len(page) > 0; number++ {
		end := bytes.IndexByte(page, '\n')
		whole := end >= 0
		if !whole {
			end = len(page) - 1
		}
		line := trimBlanks(page[:end+1])
		page = page[end+1:]
		if len(line) == 0 {
			continue
		}
		if line[0] == '#' {
			if string(line) == "# EOF" {
				return nil
			}
			continue
		}
		name := line[:nameLen(line)]
		if rest := line[len(name):]; len(name) == 0 || '0' <= name[0] && name[0] <= '9' ||
			len(rest) == 0 || rest[0] != '{' && rest[0] != ' ' && rest[0] != '\t' {
			return fmt.Errorf("scrape: line %d is not a metric: %.40q", number, line)
		}
		if !whole || !wanted(name) {
			continue
		}
		s.name = name
		if err := s.parse(line[len(name):]); err != nil {
			return fmt.Errorf("scrape: line %d: metric %s: %w", number, name, err)
		}
		visit(&s)
	}
	return nil
}

var (
	errLabels = errors.New("damaged labels")
	errValue  = errors.New("damaged value")
)

// parse reads labels and value; a timestamp or exemplar behind them is ignored.
func (s *sample) parse(rest []byte) error {
	s.labels = s.labels[:0]
	if rest[0] == '{' {
		var ok bool
		if rest, ok = s.parseLabels(rest[1:]); !ok {
			return errLabels
		}
	}
	value := trimBlanks(rest)
	if i := bytes.IndexAny(value, " \t"); i >= 0 {
		value = value[:i]
	}
	v, err := strconv.ParseFloat(string(value), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // out of range is infinite
		return errValue
	}
	s.value = v
	return nil
}

// parseLabels reads up to the closing brace and returns what follows it.
func (s *sample) parseLabels(rest []byte) ([]byte, bool) {
	for {
		rest = trimLeftBlanks(rest)
		if len(rest) > 0 && rest[0] == '}' {
			return rest[1:], true
		}
		n := nameLen(rest)
		name := rest[:n]
		rest = trimLeftBlanks(rest[n:])
		if n == 0 || len(rest) == 0 || rest[0] != '=' {
			return nil, false
		}
		rest = trimLeftBlanks(rest[1:])
		if len(rest) == 0 || rest[0] != '"' {
			return nil, false
		}
		rest = rest[1:]
		n, escaped := quotedLen(rest)
		if n < 0 {
			return nil, false
		}
		value := rest[:n]
		if escaped {
			value = unescape(value)
		}
		s.labels = append(s.labels, label{name, value})
		rest = trimLeftBlanks(rest[n+1:])
		switch {
		case len(rest) > 0 && rest[0] == ',':
			rest = rest[1:]
		case len(rest) == 0 || rest[0] != '}':
			return nil, false
		}
	}
}

// quotedLen returns the length of a quoted text up to its closing quote, -1 if
// there is none, and whether anything in it is escaped.
func quotedLen(text []byte) (n int, escaped bool) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i, escaped
		case '\\':
			escaped = true
			i++
		}
	}
	return -1, escaped
}

func unescape(value []byte) []byte {
	out := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c == '\\' && i+1 < len(value) {
			i++
			if c = value[i]; c == 'n' {
				c = '\n'
			}
		}
		out = append(out, c)
	}
	return out
}

func nameLen(text []byte) int {
	n := 0
	for n < len(text) && isNameByte(text[n]) {
		n++
	}
	return n
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || c == '_' || c == ':' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func trimBlanks(text []byte) []byte {
	text = trimLeftBlanks(text)
	for len(text) > 0 && isBlank(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return text
}

func trimLeftBlanks(text []byte) []byte {
	for len(text) > 0 && isBlank(text[0]) {
		text = text[1:]
	}
	return text
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// readJSON reads the numbers of an object as samples without labels, named by
// their path, with dots. Of an array, a log of the engine's iterations, the last
// element counts, which is the newest.
func readJSON(page []byte, wanted func(name []byte) bool, visit func(*sample)) error {
	if page[0] == '[' {
		var log []json.RawMessage
		if err := json.Unmarshal(page, &log); err != nil {
			return fmt.Errorf("scrape: page in JSON: %w", err)
		}
		if len(log) == 0 {
			return nil
		}
		page = log[len(log)-1]
	}
	var object map[string]any
	if err := json.Unmarshal(page, &object); err != nil {
		return fmt.Errorf("scrape: page in JSON: %w", err)
	}
	visitNumbers("", object, wanted, visit)
	return nil
}

func visitNumbers(path string, object map[string]any, wanted func([]byte) bool, visit func(*sample)) {
	for key, value := range object {
		name := strings.TrimPrefix(path+"."+key, ".")
		switch value := value.(type) {
		case float64:
			if wanted([]byte(name)) {
				visit(&sample{name: []byte(name), value: value})
			}
		case map[string]any:
			visitNumbers(name, value, wanted, visit)
		}
	}
}
