package ring

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

const (
	// MaxMembers is the largest number of members of a [Ring].
	MaxMembers = 1<<16 - 1
	// MaxWeight is the largest weight of a [Member].
	MaxWeight = 1 << 20
	// MaxSlots is the largest number of slots of a [Ring].
	MaxSlots = 1 << 20

	minSlots     = 1 << 8
	defaultSlots = 1 << 16
)

var (
	// ErrInvalid is wrapped by every error about an argument that can't be used;
	// the text names the field and its value.
	ErrInvalid = errors.New("invalid")
	// ErrUnknown is wrapped by the error of [Ring.Without] about a member that
	// the ring does not have.
	ErrUnknown = errors.New("unknown member")
)

// Member is one member of a fleet.
type Member struct {
	// ID is the member's name, unique in the ring and not empty. Keys follow
	// the name: a member that comes back under its name gets its keys back.
	ID string
	// Weight is the member's share of the keys in proportion to the others', from
	// 0 to [MaxWeight]. A member of weight 0 is known and takes no keys, which
	// drains it.
	Weight int
}

// Config holds the settings of a ring. The zero value is a good default for
// fleets of up to about 256 members. All processes that must agree on homes need
// the same Config.
type Config struct {
	// Slots is the number of slots that keys fall into, a power of two from 256
	// to [MaxSlots]; 0 means 65,536. It must stay the same for the life of a
	// fleet, because another number moves nearly every key; that is why it does
	// not follow the number of members. With N members of equal weight the fullest
	// holds about 1 + 3.3·sqrt(N/Slots) times the mean number of keys, so fleets
	// of a thousand members are better off with 1<<18. Memory is at most
	// 8 bytes a slot, 4 with up to 255 members and 2 with up to 15.
	Slots int
	// SlotCap, if not 0, limits each member to SlotCap times its proportional
	// share of the slots, rounded up; 1.1 is a good value. The price is that a
	// membership change moves some keys of other members too, and that the whole
	// table is computed at once: Slots·N·1.5 ns, about 0.1 s for 1,024 members.
	// It is kept to six decimals and must be at least 1.
	SlotCap float64
}

// Ring is a fleet of members and the order of preference of every key over them.
// It is immutable and safe for concurrent use; changes make a new ring, which
// the owner publishes as it likes, for instance by an atomic pointer. The zero
// value is an empty ring.
//
// Members are numbered by position in the order of their IDs, from 0. Numbers
// hold for one ring only; IDs outlive changes.
//
// The algorithm is highest random weight, or rendezvous (Thaler and Ravishankar,
// "Using name-based mappings to increase hit rates", IEEE/ACM ToN 1998), weighted
// by the logarithm method (Schindelhauer and Schomaker, "Weighted distributed hash
// tables", SPAA 2005), over slots instead of keys. The ranking of a slot is
// computed when its first key arrives, at about 1.5 ns a member, and then kept.
type Ring struct {
	config  Config
	members []Member // sorted by ID
	scorers []scorer // those of positive weight, in the same order
	equal   bool     // these have the same weight
	table   table
}

// New returns a ring of the members with the default [Config]. The order of
// members does not matter, and the slice is not kept. No members at all make a
// ring that places no key.
//
// An empty or repeated ID, a weight below 0 or above [MaxWeight], and more
// than [MaxMembers] members are errors that wrap [ErrInvalid].
func New(members []Member) (*Ring, error) { return Config{}.New(members) }

// New returns a ring of the members with this configuration; see the function
// [New]. A bad configuration is an error that wraps [ErrInvalid], too.
func (c Config) New(members []Member) (*Ring, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	sorted := slices.Clone(members)
	slices.SortFunc(sorted, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return build(c, sorted, xxhash.Sum64String)
}

func (c Config) check() error {
	if n := c.Slots; n != 0 && (n < minSlots || n > MaxSlots || n&(n-1) != 0) {
		return fmt.Errorf("ring: %w: Slots %d is not a power of two from %d to %d", ErrInvalid, n, minSlots, MaxSlots)
	}
	if f := c.SlotCap; f != 0 && !(f >= 1 && f <= math.MaxUint16) {
		return fmt.Errorf("ring: %w: SlotCap %v is not a number of at least 1 (and at most %d)", ErrInvalid, f, math.MaxUint16)
	}
	return nil
}

// build makes a ring of members sorted by ID, which it keeps. hash turns an ID
// into the seed of its scores.
func build(c Config, members []Member, hash func(string) uint64) (*Ring, error) {
	if len(members) > MaxMembers {
		return nil, fmt.Errorf("ring: %w: %d members are more than %d", ErrInvalid, len(members), MaxMembers)
	}
	scorers := make([]scorer, 0, len(members))
	for i, m := range members {
		if err := m.check(); err != nil {
			return nil, err
		}
		if i > 0 && members[i-1].ID == m.ID {
			return nil, fmt.Errorf("ring: %w: member %q is listed twice", ErrInvalid, m.ID)
		}
		if m.Weight > 0 {
			scorers = append(scorers, scorer{hash(m.ID), uint32(m.Weight), uint32(i)})
		}
	}
	slots := c.Slots
	if slots == 0 {
		slots = defaultSlots
	}
	r := &Ring{config: c, members: members, scorers: scorers, equal: true}
	for i := range scorers {
		r.equal = r.equal && scorers[i].weight == scorers[0].weight
	}
	r.table = newTable(slots, len(members), len(scorers))
	if c.SlotCap > 0 {
		r.capSlots()
	}
	return r, nil
}

func (m Member) check() error {
	switch {
	case m.ID == "":
		return fmt.Errorf("ring: %w: a member of weight %d has no ID", ErrInvalid, m.Weight)
	case m.Weight < 0:
		return fmt.Errorf("ring: %w: member %q: weight %d is negative", ErrInvalid, m.ID, m.Weight)
	case m.Weight > MaxWeight:
		return fmt.Errorf("ring: %w: member %q: weight %d is more than %d", ErrInvalid, m.ID, m.Weight, MaxWeight)
	}
	return nil
}

// Len returns the number of members, those of weight 0 included.
func (r *Ring) Len() int { return len(r.members) }

// Member returns the member at position i in the order of IDs, from 0 to Len-1.
// At any other position, such as the -1 of a [Ring.Lookup] that found nobody,
// there is no member, and the result is the zero Member.
func (r *Ring) Member(i int) Member {
	if i < 0 || i >= len(r.members) {
		return Member{}
	}
	return r.members[i]
}

// Index returns the position of the member with the ID, or -1 if the ring has
// no such member.
func (r *Ring) Index(id string) int {
	if i, found := r.search(id); found {
		return i
	}
	return -1
}

func (r *Ring) search(id string) (int, bool) {
	return slices.BinarySearchFunc(r.members, id, func(m Member, id string) int { return strings.Compare(m.ID, id) })
}

// With returns a ring that also has the member m, or, if r has a member of that
// ID, one in which it has the weight of m. It equals a new ring of the resulting
// members; r stays as it is. Only keys that m gains or loses move. The errors are
// those of [New].
func (r *Ring) With(m Member) (*Ring, error) {
	i, found := r.search(m.ID)
	if found && r.members[i] == m {
		return r, nil // the same ring, with its table already computed
	}
	var members []Member
	if found {
		members = slices.Clone(r.members)
		members[i] = m
	} else {
		members = slices.Insert(slices.Clip(r.members), i, m)
	}
	return build(r.config, members, xxhash.Sum64String)
}

// Without returns a ring that lacks the member with the ID. It equals a new ring
// of the remaining members; r stays as it is. Only the keys of that member move.
// If r has no such member, the error wraps [ErrUnknown].
func (r *Ring) Without(id string) (*Ring, error) {
	i, found := r.search(id)
	if !found {
		return nil, fmt.Errorf("ring: %w %q", ErrUnknown, id)
	}
	return build(r.config, slices.Concat(r.members[:i], r.members[i+1:]), xxhash.Sum64String)
}
