package router

import "math/bits"

const (
	// minCapacity and maxCapacity bound what is learned, in tokens: powers of two.
	minCapacity = 1 << minOctave
	maxCapacity = 1 << maxOctave
	minOctave   = 14
	maxOctave   = 28
	// binsPerOctave makes a bin of capacities 1.6 % wide at most.
	binsPerOctave = 64
	evidenceBins  = (maxOctave - minOctave) * binsPerOctave

	// freshWeight is what evidence weighs when it is new, and fadeAfter after how
	// many further pieces its weight is halved, down to one: old evidence is
	// outvoted by what contradicts it, but not forgotten as long as nothing does.
	freshWeight = 32
	fadeAfter   = 512
	// reviewEvery is after how many pieces, at the latest, the bounds are looked at
	// again: what is less than proven doesn't change them, but other endpoints do.
	reviewEvery = 32

	// unprovenShare is how much of a capacity may be unproven, relative to what is
	// proven, as long as nothing has been missing. With less, a light load makes the
	// shadow too small to remember what it could use; with much more, the fleet
	// finds out that it is too large when it is full.
	unprovenShare = 1.0 / 2
	// safety is the share that is kept below a capacity at which something was
	// missing. Where memory is short, one that is believed 3 % too large costs more
	// than one that is believed 10 % too small.
	safety = 1.0 / 32
)

// evidence is what the answers of an endpoint say about the size of its cache.
// Each says that it is at least so large, since something was found, or smaller
// than that, since something was missing. Some are wrong: an engine may have been
// short of memory for a moment, or have computed something for others. So the
// evidence is counted, and the capacity that contradicts the least of it is taken.
type evidence struct {
	// found and missing are the weights of what speaks for at least a bin, and
	// for less than one.
	found, missing [evidenceBins]uint16
	pieces         int // since weights were halved
	proven         int // what bounds returned last
}

// bin returns where a capacity in tokens counts, and binTokens where a bin begins.
func bin(tokens int) int {
	tokens = max(minCapacity, min(tokens, maxCapacity-1))
	octave := bits.Len(uint(tokens)) - 1
	return (octave-minOctave)*binsPerOctave + tokens>>(octave-bits.Len(binsPerOctave-1)) - binsPerOctave
}

func binTokens(bin int) int {
	return (bin%binsPerOctave + binsPerOctave) << (bin/binsPerOctave + minOctave - bits.Len(binsPerOctave-1))
}

// add counts a find that needs a cache of so many tokens, or a miss that none so
// large would have had; zero is none.
func (e *evidence) add(found, missing int) {
	if found > 0 {
		e.found[bin(found)] += freshWeight
	}
	if missing > 0 {
		e.missing[max(1, bin(missing))] += freshWeight // the least is always possible
	}
	e.pieces++
	if e.pieces < fadeAfter {
		return
	}
	e.pieces = 0
	for i := range e.found {
		e.found[i] -= e.found[i] / 2
		e.missing[i] -= e.missing[i] / 2
	}
}

// bounds returns the largest capacity that was proven, and the largest that
// nothing speaks against, both in tokens; that is maxCapacity if nothing was ever
// missing. Where evidence contradicts itself, they are what contradicts the least
// of it.
func (e *evidence) bounds() (proven, most int) {
	against := 0 // the weight that speaks against a bin, less that against all of them
	least, at := 0, 0
	for i := range e.found {
		against += int(e.missing[i]) - int(e.found[i])
		if i == 0 || against <= least {
			least, at = against, i
		}
	}
	most = maxCapacity
	if at < evidenceBins-1 {
		most = binTokens(at)
	}
	for at > 0 && e.found[at] == 0 {
		at--
	}
	e.proven = binTokens(at)
	return e.proven, most
}
