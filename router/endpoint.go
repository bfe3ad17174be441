package router

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Endpoint is a routing target: one engine, or several behind one address.
type Endpoint struct {
	// ID names the endpoint within its pool and must not be empty. It decides
	// placement: the same IDs give the same homes in every gateway and after every
	// restart.
	ID string
	// URL is where it is reached. The pool does not use it; an endpoint that
	// comes back under the same ID with another URL is a new one, with nothing
	// cached and nothing in flight.
	URL *url.URL
	// Weight is its capacity relative to the others, up to 2^20; 1 is usual. Zero
	// means that it takes no new requests but finishes those it has.
	Weight int
	// KVCacheTokens is the size of its KV cache in tokens. Zero means
	// Config.KVCacheTokens, or what the engine reports, or, where nobody says,
	// what is learned from the cached tokens that answers tell.
	KVCacheTokens int
	// Labels are for Request.Eligible. Like the URL, they are copied by the pool.
	Labels map[string]string
}

// maxWeight keeps sums of weights far from overflow.
const maxWeight = 1 << 20

// ParseEndpoints makes endpoints of weight 1 from base URLs such as
// "http://10.0.0.1:8000". The ID of each is its URL as given, and is shown in
// decisions, logs and events, so URLs with a user, a query or a fragment are errors;
// an Endpoint with an ID of its own may have them.
func ParseEndpoints(urls ...string) ([]Endpoint, error) {
	endpoints := make([]Endpoint, 0, len(urls))
	for _, s := range urls {
		u, err := url.Parse(s)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, fmt.Errorf("router: endpoint %q: want http://host:port", s)
		}
		if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("router: endpoint at %q: the ID, which logs show, would have a user, query or fragment in it", u.Host)
		}
		endpoints = append(endpoints, Endpoint{ID: s, URL: u, Weight: 1})
	}
	return endpoints, nil
}

// checkEndpoints returns a sorted copy of the endpoints, or what is wrong with them.
func checkEndpoints(endpoints []Endpoint) ([]Endpoint, error) {
	sorted := slices.Clone(endpoints)
	slices.SortFunc(sorted, func(a, b Endpoint) int { return strings.Compare(a.ID, b.ID) })
	for i := range sorted {
		e := &sorted[i]
		switch {
		case e.ID == "":
			return nil, fmt.Errorf("router: endpoint %d has no ID", slices.IndexFunc(endpoints, func(e Endpoint) bool { return e.ID == "" }))
		case i > 0 && sorted[i-1].ID == e.ID:
			return nil, fmt.Errorf("router: endpoint %q is listed twice", e.ID)
		case e.Weight < 0 || e.Weight > maxWeight:
			return nil, fmt.Errorf("router: endpoint %q: weight %d is not within 0 to %d", e.ID, e.Weight, maxWeight)
		case e.KVCacheTokens < 0:
			return nil, fmt.Errorf("router: endpoint %q: KV cache of %d tokens is negative", e.ID, e.KVCacheTokens)
		}
		e.Labels = maps.Clone(e.Labels)
		if e.URL != nil {
			u := *e.URL
			e.URL = &u
		}
	}
	return sorted, nil
}

// sameTarget says whether b is a as before, and not another engine under its
// name.
func sameTarget(a, b *Endpoint) bool {
	if a.URL == nil || b.URL == nil {
		return a.URL == b.URL
	}
	return a.URL.String() == b.URL.String() // the user part is a pointer, new in each parse
}
