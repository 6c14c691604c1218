// Package store keeps every acknowledged event until it is delivered: it joins the journal (the
// truth), the index (a view that can be lost) and the queues of due deliveries (memory alone).
//
// It judges no request, dials no destination and knows no provider. It reads no frame above
// `verified`, and it never decides who is told what.
//
// # States
//
// A delivery is one event at one destination. The applier alone moves it, in journal order:
//
//	           ┌───────────── Replay ─────────────┐
//	           ▼                                  │
//	frame ▶ pending ──Done, Skip──▶ delivered ────┤
//	           │ ▲                                │
//	         Retry Replay ◀── dead ───────────────┘
//	           ▼ │             ▲ │
//	        retrying ──Dead────┘ └─Drop──▶ dead, out of the dead letters
//
// Replay also makes a delivery to a destination that the event never went to. Of the living ones
// under one ordering key all but one are blocked; a dead letter may keep them so (see order.go).
//
// An event whose dedup key is living is a duplicate: it is recorded and has no deliveries. Which
// is decided from record fields in journal order, so that a replay decides the same.
//
// # Who waits for whom
//
// One committer calls Append. The applier follows it through memory, a few milliseconds behind
// under load, and never holds it up, but for a bound on how far it may be behind: while there is
// space, Append takes no lock that is held while the index is written or read. Everything else
// takes the lock of the queues for a moment.
//
// # What a crash leaves
//
// The journal up to the last durable group. The index, written late and without a log of its own,
// holds an exact prefix of it and the number of its last group in the same batch; the rest is read
// from the journal at Open. An index that is lost is built again from the segments that are left:
// what gone ones have decided for them was carried forward (see carry.go). Leases, queued outcomes
// and the set of recent keys are gone: a delivery whose outcome was not durable is made again under
// the same event ID.
package store
