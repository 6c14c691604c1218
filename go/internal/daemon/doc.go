// Package daemon puts the parts of `sluice run` together, in the order that the protocol asks for,
// and takes them apart again.
//
// It has no logic of its own beyond that order: configs become tables and snapshots here, and the
// ports of the services are tied to each other.
//
// Start: data directory (lock, journal, index) → tmpfs (lock, control page) → the group in doubt →
// the new config's names, durable → lanes that a crash left → data plane → delivery. The admin
// socket and /healthz serve from the beginning, /readyz turns 200 at the end.
//
// Stop: the data plane drains, its lanes are emptied and ended, deliveries in flight finish, the
// journal gets its idle mark. A bound lies on each step; what does not finish inside is kept by the
// journal and goes on at the next start.
//
// Another program in this one's place: the next program proves that it can go on, deliveries in
// flight finish, all but the data plane is let go, and the program is executed under the same pid.
// What comes meanwhile waits in the lanes. Where the execution fails, this program starts again in
// place, and takes the data plane up as the next one would have done.
package daemon
