package loadstats

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Headers of ORCA, open request cost aggregation: an endpoint that was asked with
// ORCAFormatHeader puts its load on its answer, in a header or in a trailer.
// Source: the xds.data.orca.v3.OrcaLoadReport message
// (https://github.com/cncf/xds/blob/main/xds/data/orca/v3/orca_load_report.proto)
// and its HTTP forms as Envoy reads them (source/common/orca there).
const (
	ORCAHeader       = "Endpoint-Load-Metrics"        // TEXT, JSON or BIN and the report
	ORCABinaryHeader = "Endpoint-Load-Metrics-Bin"    // the message in base64
	ORCAFormatHeader = "Endpoint-Load-Metrics-Format" // on the request: text or json
)

// maxORCAMetrics bounds a TEXT report. Engines send two metrics; the bound keeps
// the search for duplicates cheap whatever arrives.
const maxORCAMetrics = 64

// RequestORCA asks an engine for a report: it sets [ORCAFormatHeader] in the
// headers of the request that goes to the engine. Whatever the client sent under
// any of the three names is removed, for a client must neither choose the format
// nor forge a report. The header, an http.Header with canonical keys, must not
// be nil.
//
// vLLM answers with reports only on responses that do not stream, so a fleet
// that streams needs another source.
func RequestORCA(header map[string][]string) {
	RemoveORCA(header)
	header[ORCAFormatHeader] = []string{"text"}
}

// RemoveORCA removes the three headers, from a response before the client sees
// it or from a request that asks for no report.
func RemoveORCA(header map[string][]string) {
	delete(header, ORCAHeader)
	delete(header, ORCABinaryHeader)
	delete(header, ORCAFormatHeader)
}

// ReadORCA reads the report in the headers or trailers of an engine's answer
// that arrived at the given time. The header is an http.Header with canonical
// keys; of a header sent twice the first counts, and of a binary and a text
// report the binary one. The error matches [ErrNoReading] if there is no report
// or nothing in it that a [Report] has a place for; it is another error if the
// report is damaged, and then nothing of it is used.
func ReadORCA(at time.Time, header map[string][]string) (Report, error) {
	if values := header[ORCABinaryHeader]; len(values) > 0 {
		return ParseORCA(at, "BIN "+values[0])
	}
	if values := header[ORCAHeader]; len(values) > 0 {
		return ParseORCA(at, values[0])
	}
	return Report{}, fmt.Errorf("%w: no ORCA header", ErrNoReading)
}

// ParseORCA reads one value of [ORCAHeader], in any of its three forms:
//
//	TEXT named_metrics.kv_cache_usage_perc=0.42, named_metrics.num_requests_waiting=5
//	JSON {"named_metrics": {"kv_cache_usage_perc": 0.42, "num_requests_waiting": 5}}
//	BIN  the OrcaLoadReport message in base64, padded or not
//
// The older ":" in place of "=", and both spellings of field names in JSON, are
// understood; a value without a format word, or with the word in small letters,
// is not. Errors are those of [ReadORCA].
//
// Of the metrics those count that are known to come from engines, as named
// metrics or utilizations: kv_cache_usage_perc (vLLM) and kv_cache_utilization
// (Triton), num_requests_running, num_requests_waiting, and max_token_capacity
// (Triton). Values that are not finite or make no sense are unknown.
func ParseORCA(at time.Time, value string) (Report, error) {
	r := Report{At: at}
	if err := visitORCA(value, r.addORCA); err != nil {
		return Report{}, err
	}
	if !r.Known() {
		return Report{}, fmt.Errorf("%w in ORCA report", ErrNoReading)
	}
	return r, nil
}

// addORCA does not depend on the order of metrics, which a JSON object has not.
func (r *Report) addORCA(group, name string, value float64) {
	if group != "named_metrics" && group != "utilization" {
		return
	}
	switch name {
	case "kv_cache_usage_perc", "kv_cache_utilization":
		if usage := Ratio(value); usage.known && (!r.KVCacheUsage.known || usage.f > r.KVCacheUsage.f) {
			r.KVCacheUsage = usage
		}
	case "num_requests_running":
		r.Running = r.Running.larger(Rounded(value))
	case "num_requests_waiting":
		r.Waiting = r.Waiting.larger(Rounded(value))
	case "max_token_capacity":
		if capacity := Rounded(value); capacity.n > 0 { // zero: not measured yet
			r.KVCacheTokens = r.KVCacheTokens.larger(capacity)
		}
	}
}

// larger returns the larger of two counts; a known one is larger than unknown.
func (c Count) larger(d Count) Count {
	if d.known && (!c.known || d.n > c.n) {
		return d
	}
	return c
}

// visitORCA calls visit with each metric of a report: those of the message
// itself have the group "", those of its maps the name of the map.
func visitORCA(value string, visit func(group, name string, v float64)) error {
	format, report, _ := strings.Cut(strings.TrimLeft(value, " \t"), " ")
	report = strings.Trim(report, " \t")
	switch format {
	case "TEXT":
		return visitORCAText(report, visit)
	case "JSON":
		return visitORCAJSON(report, visit)
	case "BIN":
		message, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(report, "="))
		if err != nil {
			return fmt.Errorf("loadstats: ORCA report in BIN: %w", err)
		}
		return visitORCAMessage(string(message), visit)
	}
	return fmt.Errorf("loadstats: ORCA format %.20q is not TEXT, JSON or BIN", format)
}

func visitORCAText(report string, visit func(group, name string, v float64)) error {
	if report == "" {
		return nil
	}
	var seen [maxORCAMetrics]string
	for n := 0; report != ""; n++ {
		entry, rest, more := strings.Cut(report, ",")
		report = strings.Trim(rest, " \t")
		if more && report == "" {
			return errors.New("loadstats: ORCA report ends with a comma")
		}
		name, number, ok := strings.Cut(entry, "=")
		if !ok {
			name, number, _ = strings.Cut(entry, ":")
		}
		name, number = strings.Trim(name, " \t"), strings.Trim(number, " \t")
		group, key := "", name
		if prefix, suffix, ok := strings.Cut(name, "."); ok {
			group, key = prefix, suffix
		}
		if key == "" {
			return fmt.Errorf("loadstats: ORCA entry %.80q has no metric name", entry)
		}
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return fmt.Errorf("loadstats: ORCA metric %.80q: value %.80q is not a number", name, number)
		}
		if n == maxORCAMetrics {
			return fmt.Errorf("loadstats: ORCA report of more than %d metrics", maxORCAMetrics)
		}
		for _, s := range seen[:n] {
			if s == name {
				return fmt.Errorf("loadstats: ORCA metric %.80q appears twice", name)
			}
		}
		seen[n] = name
		visit(group, key, v)
	}
	return nil
}

// visitORCAJSON takes both spellings of JSON for protocol buffers. A value that
// is neither a number nor an object of numbers is no metric.
func visitORCAJSON(report string, visit func(group, name string, v float64)) error {
	var fields map[string]any
	if err := json.Unmarshal([]byte(report), &fields); err != nil {
		return fmt.Errorf("loadstats: ORCA report in JSON: %w", err)
	}
	for field, value := range fields {
		switch value := value.(type) {
		case float64:
			visit("", snakeCase(field), value)
		case map[string]any:
			group := snakeCase(field)
			for name, v := range value {
				if v, ok := v.(float64); ok {
					visit(group, name, v)
				}
			}
		}
	}
	return nil
}

// snakeCase turns namedMetrics into named_metrics.
func snakeCase(name string) string {
	upper := func(r rune) bool { return 'A' <= r && r <= 'Z' }
	if strings.IndexFunc(name, upper) < 0 {
		return name
	}
	var b strings.Builder
	for _, r := range name {
		if upper(r) {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
