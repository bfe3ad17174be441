package scrape

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/warmroute/warmroute/loadstats"
)

// defaultMaxBytes is many times the page of a busy engine with several ranks.
const defaultMaxBytes = 16 << 20

// Scraper fetches the metrics pages of endpoints. It implements
// [loadstats.Reporter]: give it to a [loadstats.Poller] to keep a table filled,
// or ask it once.
//
// The zero value fetches <endpoint>/metrics and understands every engine of this
// package. Set the fields before first use and do not change them after it. A
// Scraper is safe for concurrent use and must not be copied after first use.
type Scraper struct {
	// Client makes the requests, and is the place for credentials and TLS. Nil
	// means [http.DefaultClient]. How long a request may take is up to the
	// context of Report.
	Client *http.Client
	// URL returns the address of an endpoint's page, query included. Nil means
	// the endpoint, which then is an address itself, and "/metrics". No other
	// address is ever tried: a page may have side effects.
	URL func(endpoint string) string
	// Profile says what to read. Nil means [AnyEngine].
	Profile *Profile
	// MaxBytes is the size beyond which a page is refused, in bytes after
	// decompression. Zero or negative means 16 MiB.
	MaxBytes int64

	buffers sync.Pool // of *bytes.Buffer
	known   sync.Once
	profile Profile
}

var _ loadstats.Reporter = (*Scraper)(nil)

// Report fetches the page of the endpoint and reads it. The time of the report
// is that of the request: what the page says may be newer, never older.
//
// Errors name the address. They match [loadstats.ErrNoReading] if the page was
// fetched and tells nothing, and [ErrStatus] if the engine answered with
// anything but 200.
func (s *Scraper) Report(ctx context.Context, endpoint string) (loadstats.Report, error) {
	s.known.Do(func() {
		if s.profile = AnyEngine(); s.Profile != nil {
			s.profile = *s.Profile
		}
	})
	url := strings.TrimSuffix(endpoint, "/") + "/metrics"
	if s.URL != nil {
		url = s.URL(endpoint)
	}
	page, _ := s.buffers.Get().(*bytes.Buffer)
	if page == nil {
		page = new(bytes.Buffer)
	}
	page.Reset()
	defer s.buffers.Put(page)

	at := time.Now()
	if err := s.fetch(ctx, url, page); err != nil {
		return loadstats.Report{}, err
	}
	r, err := s.profile.Parse(at, page.Bytes())
	if err != nil {
		return loadstats.Report{}, fmt.Errorf("%w (%s)", err, url)
	}
	return r, nil
}

// ErrStatus says that an engine answered, with another status than 200: it has
// no such page, or does not show it to everybody.
var ErrStatus = errors.New("scrape: status")

func (s *Scraper) fetch(ctx context.Context, url string, page *bytes.Buffer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("scrape: %w", err)
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.5, application/json;q=0.3")
	client := s.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("scrape: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%w %d of %s", ErrStatus, resp.StatusCode, url)
	}
	limit := s.MaxBytes
	if limit <= 0 {
		limit = defaultMaxBytes
	}
	limit = min(limit, math.MaxInt64-1) // one more byte tells that there are too many
	n, err := page.ReadFrom(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return fmt.Errorf("scrape: read %s: %w", url, err)
	}
	if n > limit {
		return fmt.Errorf("scrape: page %s is larger than %d bytes", url, limit)
	}
	return nil
}
