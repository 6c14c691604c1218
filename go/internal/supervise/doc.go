// Package supervise keeps a data plane running: it adopts one that outlived an earlier control
// plane, starts one where there is none, replaces one that died, and drains the last one at the
// end.
//
// It reads no lane and judges no frame; lanes are handed to whoever serves them through a port.
//
// # States of a generation
//
//	started ──hello, snapshot──▶ accepting ──drain──▶ draining ──▶ dead
//	   └──── not ready in time ───▶ killed                           │
//	                              lanes drained as orphans ◀─────────┘
//
// One generation accepts at a time. Its number only grows. The listening sockets belong to this
// package and go to each generation in turn, so that a crash closes none: new connections wait in
// the accept queue for the milliseconds that a new process takes. Doorbells are a generation's own,
// since the orphans of the one before still listen on theirs.
//
// At a start the newest ready generation stays and older ones drain; silent ones and those that
// were never ready are killed, after their command line said that they are ours. One that does not
// take our config serves under its own until another one does.
//
// # What a crash leaves
//
// A data plane that goes on under its last snapshot, its gRPC socket, and a second socket that
// hands its descriptors to the next control plane.
package supervise
