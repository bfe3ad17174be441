// Package ring places keys on the members of a fleet, each key with a whole
// order of preference: the home first, then the member that takes over when
// the home is full or gone, and so on.
//
// A [Ring] is an immutable slot table of weighted rendezvous rankings. It gives
// what a router of prompt prefixes needs at the same time:
//
//   - A lookup costs one hash and one load, whatever the size of the fleet.
//   - Removing a member moves its own keys and no others; adding one moves only
//     the keys it takes. A change of weight moves only keys of that member.
//   - The placement depends on the members and their weights alone: not on the
//     order in which they were listed, the changes that led there, the process
//     or the architecture. Gateways that know the same fleet agree on every home
//     without talking to each other.
//
// [Ordinals] is the same for fleets that are numbered from 0 and grow and shrink
// at the end only, such as the pods of a StatefulSet: it keeps no table at all.
//
// [Bounded] adds bounded loads: it counts what is in flight and walks past
// members that hold more than their share.
//
// Placement is part of the interface: a version that placed a key elsewhere
// would empty the caches of a running fleet, so such a change is announced in
// the changelog as "Placement changed".
package ring
