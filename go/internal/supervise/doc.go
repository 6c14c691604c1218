// Package supervise keeps a data plane running: it adopts one that outlived an earlier control
// plane, starts one where there is none, replaces one that died, has another one take its place
// where that is asked for, and drains the last one at the end.
//
// It reads no lane and judges no frame; lanes are handed to whoever serves them through a port. It
// opens no socket itself.
//
// # States of a generation
//
//	started ──hello, snapshot──▶ accepting ──drain──▶ draining ──▶ dead
//	   └──── not ready in time ───▶ killed                           │
//	                              lanes drained as orphans ◀─────────┘
//
// One generation is current; its number only grows. The listening sockets belong to this package
// and go to each generation in turn, so that a crash closes none: new connections wait in the
// accept queue for the milliseconds that a new process takes. Doorbells are a generation's own,
// since the orphans of the one before still listen on theirs.
//
// # Upgrade
//
//	start g+1 ─▶ hello, lanes, snapshot ─▶ g+1 accepts, current ─▶ drain g ─▶ g is dead
//	   └───────────── fails ─────▶ kill g+1; g noticed nothing
//
// Program, settings and sockets of g+1 become those by which a crash is mended in the moment in
// which it is current, and not before: a broken program at the path harms nobody until somebody
// asks for an upgrade, and then not either. One generation is started at a time. Where g dies while
// g+1 starts, g+1 is given up and g replaced; where g+1 dies while g drains, g+1 is replaced.
//
// # Start
//
// The newest ready generation stays and older ones drain; silent ones and those that were never
// ready are killed, after their command line said that they are ours. One that has other settings
// or sockets than the config wants, or does not take the config, serves on until another one does.
// So a control plane that was killed in the middle of an upgrade finishes or undoes it.
//
// # What a crash leaves
//
// A data plane that goes on under its last snapshot, its gRPC socket, and a second socket that
// hands its descriptors to the next control plane.
package supervise
