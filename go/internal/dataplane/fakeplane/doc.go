// Package fakeplane is a data plane for tests: a test binary that is run again as one, with lanes,
// counters and sockets like the real program's, and with faults on demand.
//
// It accepts no connection and writes no frame. It is in no program, only in tests.
package fakeplane
