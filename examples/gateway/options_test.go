package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestRun_BadFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-nonsense", "nonsense"},
		{"extra", `"extra"`},
		{"-engines 0", "-engines 0"},
		{"-engines 1000000", "-engines 1"},
		{"-engines x", `"x"`},
		{"-policy fastest", `"fastest"`},
		{"-demo -policies affinity,fastest", `"fastest"`},
		{"-demo -policies ,", `""`},
		{"-speed 0", "-speed 0"},
		{"-speed NaN", "-speed NaN"},
		{"-speed -3", "-speed -3"},
		{"-demo -streams 0", "-streams 0"},
		{"-demo -streams -5", "-streams -5"},
		{"-demo -requests -1", "-requests -1"},
		{"-demo -speedup 2", "-speedup 2"},
		{"-demo -trace x -speedup Inf", "-speedup +Inf"},
		{"-demo -seed -1", `"-1"`},
		{"-json", "-json true"},
		{"-trace x", "-trace x"},
		{"-endpoints h1:8000", `"h1:8000"`},
		{"-endpoints http://h1:8000,", `""`},
		{"-endpoints http://h1:8000,ftp://x", `"ftp://x"`},
		{"-endpoints http://h1 -engines 3", "-engines 3"},
		{"-demo -endpoints http://h1", "-endpoints http://h1"},
		{"-demo -policy affinity", "-policy affinity"},
		{"-demo -addr :1", "-addr :1"},
		{"-endpoints http://h1 -speed 3", "-speed 3"},
		{"-demo -trace x -streams 3", "-streams 3"},
		{"-endpoints http://127.0.0.1:1,http://127.0.0.1:1", `"http://127.0.0.1:1"`},
	} {
		var stdout, stderr bytes.Buffer
		got := run(t.Context(), strings.Fields(c.args), &stdout, &stderr)
		text := stderr.String()
		if got != 2 || stdout.Len() != 0 || strings.Count(text, "\n") != 1 || !strings.Contains(text, c.want) {
			t.Errorf("run(%s) = %d, stdout %q, stderr %q; want 2 and one line with %s", c.args, got, stdout.String(), text, c.want)
		}
	}
}

func TestRun_Help(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if got := run(t.Context(), []string{"-help"}, &stdout, &stderr); got != 0 || !strings.Contains(stderr.String(), "-endpoints") {
		t.Errorf("run(-help) = %d, %q; want 0 and the flags", got, stderr.String())
	}
}

func TestOptions_DefaultSpeed(t *testing.T) {
	for _, c := range []struct {
		args string
		want float64
	}{
		{"", 1}, {"-demo", swarmSpeed}, {"-demo -trace x", traceSpeed}, {"-demo -speed 3", 3},
	} {
		o, err := parseOptions(strings.Fields(c.args), new(bytes.Buffer))
		if err != nil || o.speed != c.want {
			t.Errorf("parseOptions(%s) = speed %v, %v; want %v", c.args, o, err, c.want)
		}
	}
}

func TestRun_FailuresAtRunTime(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-endpoints http://127.0.0.1:1", "http://127.0.0.1:1"}, // nobody listens there
		{"-demo -trace testdata/missing.jsonl", "testdata/missing.jsonl"},
		{"-addr 127.0.0.1:99999", "127.0.0.1:99999"},
		{"-addr nonsense", "nonsense"},
	} {
		var stdout, stderr bytes.Buffer
		got := run(context.Background(), strings.Fields(c.args), &stdout, &stderr)
		if text := stderr.String(); got != 1 || strings.Count(text, "\n") != 1 || !strings.Contains(text, c.want) {
			t.Errorf("run(%s) = %d, stderr %q; want 1 and one line with %s", c.args, got, text, c.want)
		}
	}
}
