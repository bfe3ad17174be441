package routertest

import (
	"fmt"
	"time"

	"github.com/warmroute/warmroute/balancer"
	"github.com/warmroute/warmroute/loadstats"
	"github.com/warmroute/warmroute/router"
)

// Scenario is a question to [Simulate]: what would this router do to this traffic
// on these engines? Only the workload is required; the zero value of everything
// else is the ordinary case. All times are from the beginning of the simulation.
type Scenario struct {
	// Workload is the traffic.
	Workload Workload
	// Policy is what the pool of each gateway chooses by. Nil means
	// balancer.Affinity. It is not used if there is a Router.
	Policy balancer.Policy
	// Router makes the router of each gateway. Nil means a [router.Pool] of
	// Gateway.Config with the Policy.
	Router func(*Gateway) (router.Router, error)
	// Queue says that requests may wait in the router's queue, as with
	// Pool.Acquire: gateways ask by Enqueue. A Router needs that method then, and
	// DispatchAt; a [router.Pool] has both. Queue.Fair and the bounds are set in the
	// configuration of a pool that Router makes.
	Queue bool
	// Engines are those that are there in the beginning; their endpoints are e0,
	// e1 and so on. Nil means eight of the default.
	Engines []EngineSpec
	// Changes happen to engines on the way, in the order of their times.
	Changes []Change
	// Gateways are where requests arrive.
	Gateways Gateways
	// Clients are those that send them.
	Clients Clients
	// Reports are what engines tell about themselves. The zero value is nothing,
	// which is what a single gateway needs.
	Reports Reports
	// Seed is for what is left to chance: which gateway a request goes to, and
	// the pools' ties.
	Seed uint64
	// Interval is the length of the intervals of Result.Series. Zero means 10 s.
	Interval time.Duration
}

// EngineSpec describes a simulated engine. The zero value is about a 70B model on
// four datacenter GPUs: a prompt of 30,000 tokens takes 3 s alone.
type EngineSpec struct {
	// KVCacheTokens is the size of its KV cache. Zero means 400,000.
	KVCacheTokens int
	// Configured is the size of the KV cache that the gateways are configured
	// with. Zero means the true one; negative means that nobody told them, so
	// that a pool has to learn it.
	Configured int
	// Speed is how many times faster than the default the engine is, from 0.01
	// to 100. Zero means 1.
	Speed float64
	// Weight is that of its endpoint. Zero means 1.
	Weight int
}

func (e EngineSpec) endpoint(number int) router.Endpoint {
	tokens := e.Configured
	if tokens == 0 {
		tokens = e.KVCacheTokens
	}
	return router.Endpoint{ID: endpointID(number), Weight: e.Weight, KVCacheTokens: max(0, tokens)}
}

func endpointID(number int) string { return fmt.Sprint("e", number) }

// Gateways describes where requests arrive.
type Gateways struct {
	// Count is their number. Zero means 1.
	Count int
	// Sticky says that all requests of a conversation go to the same gateway,
	// as they do over one connection. Otherwise each goes to any.
	Sticky bool
	// AnnounceDelay is the time after which what one gateway decides is known to
	// the others, through Gateway.Announce. Zero means that they share nothing.
	AnnounceDelay time.Duration
	// Discovery is the time after which a change of the fleet is known to the
	// gateways.
	Discovery time.Duration
	// Latency is the time from a gateway to an engine, and the same back.
	Latency time.Duration
}

// Clients describes how those behave who send the requests.
type Clients struct {
	// Timeout is the time without a first token after which a client gives an
	// attempt up and sends the same request again. Zero means never.
	Timeout time.Duration
	// Duplicates is how many times it does that for a request; after that it
	// waits.
	Duplicates int
	// Cancel says that the gateway takes back an attempt that was given up, and
	// the engine drops it. Otherwise the engine serves it to the end, and nobody
	// is there to read the answer.
	Cancel bool
	// SessionKeys says that clients name their conversation, so that
	// Request.Key is set to it.
	SessionKeys bool
}

// Reports describes what engines tell about themselves: their running and waiting
// requests, the usage and the size of their KV cache.
type Reports struct {
	// Every is the time between the reports of an engine. Zero means that there
	// are none.
	Every time.Duration
	// Late is the age of a report when it arrives.
	Late time.Duration
	// Alter may change a report before it arrives, or lose it by returning
	// false. Nil means that all reports arrive as they are. To be repeatable it
	// must depend on its arguments only; the time of a report is r.At, and a
	// simulation begins at time.Unix(1_000_000, 0).
	Alter func(endpoint string, r *loadstats.Report) bool
}

// ChangeKind says what happens to an engine.
type ChangeKind uint8

// What can happen to an engine.
const (
	// Crash: the engine is gone, with its cache and all it was doing. Gateways
	// are told after Gateways.Discovery; until then those who connect get an
	// error.
	Crash ChangeKind = iota + 1
	// Restart: as a crash, but it is back at once with an empty cache, and
	// nobody is told.
	Restart
	// Join: an engine as described in Change.Engine is there, new or in the
	// place of one that crashed.
	Join
	// Drain: the endpoint takes no new requests, and finishes those it has.
	Drain
	// Slow: from now on the engine runs at Change.Speed. Nobody is told.
	Slow
)

var changeNames = [...]string{Crash: "crash", Restart: "restart", Join: "join", Drain: "drain", Slow: "slow"}

// String returns the kind in lower case.
func (k ChangeKind) String() string {
	if k >= Crash && k <= Slow {
		return changeNames[k]
	}
	return fmt.Sprintf("change %d", uint8(k))
}

// Change is something that happens to an engine on the way.
type Change struct {
	At       time.Duration
	Kind     ChangeKind
	Endpoint int        // number of the endpoint; a new one has the next number
	Engine   EngineSpec // of a Join
	Speed    float64    // of Slow: as EngineSpec.Speed
}

// setDefaults fills in what is zero, or tells what is wrong. It must not change
// what the caller's slices hold.
func (s *Scenario) setDefaults() error {
	if s.Workload.start == nil {
		return fmt.Errorf("routertest: Scenario.Workload is empty")
	}
	engines := s.Engines
	if engines == nil {
		engines = make([]EngineSpec, 8)
	}
	s.Engines = make([]EngineSpec, len(engines))
	for i, e := range engines {
		if err := e.setDefaults(fmt.Sprintf("routertest: Scenario.Engines[%d].", i)); err != nil {
			return err
		}
		s.Engines[i] = e
	}
	if s.Gateways.Count == 0 {
		s.Gateways.Count = 1
	}
	if s.Interval == 0 {
		s.Interval = 10 * time.Second
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Gateways.Count", int64(s.Gateways.Count)},
		{"Gateways.AnnounceDelay", int64(s.Gateways.AnnounceDelay)},
		{"Gateways.Discovery", int64(s.Gateways.Discovery)},
		{"Gateways.Latency", int64(s.Gateways.Latency)},
		{"Clients.Timeout", int64(s.Clients.Timeout)},
		{"Clients.Duplicates", int64(s.Clients.Duplicates)},
		{"Reports.Every", int64(s.Reports.Every)},
		{"Reports.Late", int64(s.Reports.Late)},
		{"Interval", int64(s.Interval)},
	} {
		if f.value < 0 {
			return fmt.Errorf("routertest: Scenario.%s %d is negative", f.name, f.value)
		}
	}
	return s.checkChanges()
}

// setDefaults is that of an engine whose fields are called so in errors.
func (e *EngineSpec) setDefaults(name string) error {
	if e.KVCacheTokens == 0 {
		e.KVCacheTokens = 400_000
	}
	if e.Speed == 0 {
		e.Speed = 1
	}
	if e.Weight == 0 {
		e.Weight = 1
	}
	switch {
	case e.KVCacheTokens < 16 || e.KVCacheTokens > 1<<30:
		return fmt.Errorf("%sKVCacheTokens %d is outside 16 to 2^30", name, e.KVCacheTokens)
	case e.Weight < 0:
		return fmt.Errorf("%sWeight %d is negative", name, e.Weight)
	}
	return checkSpeed(name, e.Speed)
}

func checkSpeed(name string, speed float64) error {
	if !(speed >= 0.01 && speed <= 100) {
		return fmt.Errorf("%sSpeed %v is outside 0.01 to 100", name, speed)
	}
	return nil
}

func (s *Scenario) checkChanges() error {
	changes := make([]Change, len(s.Changes))
	copy(changes, s.Changes)
	s.Changes = changes
	number := len(s.Engines)
	for i := range changes {
		c := &changes[i]
		name := fmt.Sprintf("routertest: Scenario.Changes[%d].", i)
		switch {
		case c.Kind < Crash || c.Kind > Slow:
			return fmt.Errorf("%sKind %d does not exist", name, c.Kind)
		case c.At < 0 || i > 0 && c.At < changes[i-1].At:
			return fmt.Errorf("%sAt %v is negative or before that of the change before", name, c.At)
		case c.Kind == Join && c.Endpoint == number:
			number++
		case c.Endpoint < 0 || c.Endpoint >= number:
			return fmt.Errorf("%sEndpoint %d of %v: there are %d then", name, c.Endpoint, c.Kind, number)
		}
		var err error
		switch c.Kind {
		case Join:
			err = c.Engine.setDefaults(name + "Engine.")
		case Slow:
			err = checkSpeed(name, c.Speed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
