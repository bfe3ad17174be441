package ring

// Compute ranks the members for the slot and keeps the result, as the first key
// of the slot does.
func Compute(r *Ring, slot uint64) { r.compute(slot) }

// NegLog is negLog.
func NegLog(u uint64) uint64 { return negLog(u) }

// NewWithHash is New with another hash of IDs.
func NewWithHash(members []Member, hash func(string) uint64) (*Ring, error) {
	return build(Config{}, members, hash)
}
