package scrape_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/loadstats/scrape"
)

// transport answers requests without a network.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) { return t(req) }

func client(t transport) *http.Client { return &http.Client{Transport: t} }

func page(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}
}

func TestScraper_Report(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		s := &scrape.Scraper{Client: client(func(req *http.Request) (*http.Response, error) {
			asked = append(asked, req.Method+" "+req.URL.String())
			time.Sleep(time.Second)
			return page(200, string(readFile(t, "vllm_v0_legacy.prom"))), nil
		})}
		want := files["vllm_v0_legacy.prom"].want
		for _, endpoint := range []string{"http://10.0.0.1:8000", "http://10.0.0.1:8000/"} {
			want.At = time.Now()
			got, err := s.Report(t.Context(), endpoint)
			if err != nil || got != want {
				t.Errorf("Report(%s) = %+v, %v, want %+v, stamped before the answer", endpoint, got, err, want)
			}
		}
		for _, got := range asked {
			if got != "GET http://10.0.0.1:8000/metrics" {
				t.Errorf("asked for %s", got)
			}
		}
		if len(asked) != 2 {
			t.Errorf("%d requests for two reports: %v", len(asked), asked)
		}
	})
}

func TestScraper_URLAndProfile(t *testing.T) {
	profile := scrape.Profile{Running: []scrape.Metric{{Name: "acme_running"}}}
	s := &scrape.Scraper{
		Client: client(func(req *http.Request) (*http.Response, error) {
			if got := req.URL.String(); got != "http://engine-7:9400/stats?model=m" {
				t.Errorf("asked for %s", got)
			}
			return page(200, "acme_running 4\nvllm:num_requests_waiting 9\n"), nil
		}),
		URL:     func(endpoint string) string { return "http://" + endpoint + ":9400/stats?model=m" },
		Profile: &profile,
	}
	got, err := s.Report(t.Context(), "engine-7")
	if err != nil || got.Running != loadstats.Known(4) || got.Waiting != (loadstats.Count{}) {
		t.Errorf("Report = %+v, %v, want 4 running", got, err)
	}
}

func TestScraper_Errors(t *testing.T) {
	down := errors.New("connection refused")
	tests := []struct {
		name     string
		endpoint string
		resp     func() (*http.Response, error)
		want     error  // nil if it matches nothing
		text     string // in the message
	}{
		{"down", "http://e", func() (*http.Response, error) { return nil, down }, down, "http://e/metrics"},
		{"not found", "http://e", func() (*http.Response, error) { return page(404, "404 page not found"), nil }, scrape.ErrStatus, "404 of http://e/metrics"},
		{"metrics off", "http://e", func() (*http.Response, error) {
			return page(501, string(readFile(t, "llamacpp_metrics_disabled_501.prom"))), nil
		}, scrape.ErrStatus, "501"},
		{"a good page with a bad status", "http://e", func() (*http.Response, error) {
			return page(503, "vllm:num_requests_running 0\n"), nil
		}, scrape.ErrStatus, "503"},
		{"login form", "http://e", func() (*http.Response, error) {
			return page(200, string(readFile(t, "html_error_page.prom"))), nil
		}, nil, "line 1 is not a metric"},
		{"empty", "http://e", func() (*http.Response, error) { return page(200, ""), nil }, loadstats.ErrNoReading, "http://e/metrics"},
		{"broken off", "http://e", func() (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(io.MultiReader(
				strings.NewReader("vllm:num_requests_running 1\n"), errReader{io.ErrUnexpectedEOF}))}, nil
		}, io.ErrUnexpectedEOF, "read http://e/metrics"},
		{"too large", "http://e", func() (*http.Response, error) {
			return page(200, strings.Repeat("vllm:num_requests_running 1\n", 40)), nil
		}, nil, "larger than 1000 bytes"},
		{"no address", "engine-7", func() (*http.Response, error) { return page(200, ""), nil }, nil, "scrape: "},
		{"bad address", "http://e:port", nil, nil, "scrape: "},
	}
	for _, tt := range tests {
		s := &scrape.Scraper{MaxBytes: 1000, Client: client(func(req *http.Request) (*http.Response, error) {
			if req.URL.Scheme == "" {
				return nil, errors.New("unsupported protocol scheme")
			}
			return tt.resp()
		})}
		got, err := s.Report(t.Context(), tt.endpoint)
		if got != noReading || err == nil || !strings.Contains(err.Error(), tt.text) || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: Report = %+v, %v, want an error with %q", tt.name, got, err, tt.text)
		}
	}
}

func TestScraper_AnyMaxBytes(t *testing.T) {
	for _, most := range []int64{math.MinInt64, -1, 0, 100, math.MaxInt64} {
		s := &scrape.Scraper{MaxBytes: most, Client: client(func(*http.Request) (*http.Response, error) {
			return page(200, "vllm:num_requests_running 3\n"), nil
		})}
		if r, err := s.Report(t.Context(), "http://e"); err != nil || r.Running != loadstats.Known(3) {
			t.Errorf("MaxBytes %d: %v running, %v, want 3", most, r.Running, err)
		}
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestScraper_StopsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scrape.Scraper{Client: client(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if r, err := s.Report(ctx, "http://e"); r != noReading || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Report = %+v, %v, want the deadline", r, err)
		}
	})
}

// The whole way: engines on the network, compressed, polled into a table.
func TestScraper_WithPoller(t *testing.T) {
	serve := func(running int) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path != "/metrics" || req.Header.Get("Accept-Encoding") != "gzip" {
				http.NotFound(w, req)
				return
			}
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
			z := gzip.NewWriter(w)
			fmt.Fprintf(z, "vllm:num_requests_running{engine=\"0\"} %d\n# EOF\n", running)
			z.Close()
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	a, b := serve(1), serve(2)
	var table loadstats.Table
	done := make(chan struct{}, 1)
	scraper := &scrape.Scraper{}
	poller := &loadstats.Poller{
		Table: &table, Interval: time.Millisecond,
		Endpoints: func() []string { return []string{a, b} },
		Reporter: reporterFunc(func(ctx context.Context, endpoint string) (loadstats.Report, error) {
			r, err := scraper.Report(ctx, endpoint)
			sa, _ := table.Latest(a)
			sb, _ := table.Latest(b)
			if err != nil || sa.Known() && sb.Known() {
				select {
				case done <- struct{}{}:
				default:
				}
			}
			return r, err
		}),
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := poller.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	<-done
	for endpoint, want := range map[string]int64{a: 1, b: 2} {
		if r, _ := table.Latest(endpoint); r.Running != loadstats.Known(want) {
			t.Errorf("Latest(%s) = %+v, want %d running", endpoint, r, want)
		}
		if s, ok := poller.Status(endpoint); !ok || s.Failures != 0 {
			t.Errorf("Status(%s) = %+v, %v", endpoint, s, ok)
		}
	}
	cancel()
	wg.Wait()
}

type reporterFunc func(context.Context, string) (loadstats.Report, error)

func (f reporterFunc) Report(ctx context.Context, endpoint string) (loadstats.Report, error) {
	return f(ctx, endpoint)
}

// Buffers are used again; concurrent reports must not see each other's pages.
func TestScraper_ConcurrentReports(t *testing.T) {
	s := &scrape.Scraper{Client: client(func(req *http.Request) (*http.Response, error) {
		n := strings.TrimPrefix(req.URL.Host, "e")
		return page(200, strings.Repeat("# padding\n", len(n)*50)+"vllm:num_requests_running "+n+"\n"), nil
	})}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 200 {
				n := int64(w*1000 + i)
				r, err := s.Report(t.Context(), fmt.Sprintf("http://e%d", n))
				if err != nil || r.Running != loadstats.Known(n) {
					t.Errorf("Report(e%d) = %+v, %v", n, r, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
