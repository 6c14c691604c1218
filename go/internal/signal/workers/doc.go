// Package workers measures what the workers behind a destination say of themselves: the share of
// them that has waited for a lock for too long.
//
// It asks no worker anything and decides nothing. A worker reports by gRPC (ReportWorker), or by a
// heartbeat in Redis, in whatever language it is written: a string at the key
//
//	{prefix}:worker:{breaker}:{worker}    EX 15
//
// that holds
//
//	{"state": "lock_wait", "state_ms": 2500, "at": "2030-01-02T03:04:05Z"}
//
// The state is "idle", "busy" or "lock_wait"; state_ms is how long it has lasted; at is for the
// eyes of people and is not read. The TTL is how long the worker counts as living, at most 10
// minutes, and has to be there: a key without one would outlive its worker.
//
// A wait counts as long as it was when the worker said so. A worker reports from where its own wait
// does not hold it up, every few seconds: one that says nothing is forgotten, and a wait that began
// and ended between two reports is none of the breaker's business.
//
// Reports are in memory and are lost with the process; the next ones come soon.
package workers
