// Package protect decides when a destination is left alone: it holds the breakers, feeds them
// outcomes and signals, shares their state with other hosts, and tells who wants to know.
//
// The rules are package breaker's; here are the locks, the clocks and the goroutines around them.
// It sends no event, knows no kind of signal and no way to reach another host: sources and the
// board are handed in.
//
// # States
//
// A circuit is one breaker with its lock: that of a destination, or of a group of destinations that
// share a dependency. A destination's Gate passes through the circuits of its groups, in the order
// of their names, and then through its own; it admits what all of them admit and reports to all.
// Locks of several circuits are taken in that order.
//
// Nothing that a gate does waits for a source, the board or a listener: levels and leases come in
// from goroutines of their own, and what goes out is put into bounded queues.
//
// # Probes
//
// A circuit that wants its probe asks the board for a lease, and without a board grants it to
// itself. A gate asks for the lease of a circuit only when those before it let it through, so two
// hosts never hold one lease each and wait for the other's. A lease under which a probe was made is
// given back a little later than the note about it went out, so that who gets it next has heard.
//
// # What a crash leaves
//
// A lease, until its time is over. A new process begins closed, or where the board says.
package protect
