// Package ingest takes frames from the lanes to the journal and answers them: intake judges, the
// committer makes durable, the replier answers and gives room back.
//
// It computes no limit, delivers nothing and reads no client socket. It owns no durable state: what
// it knows lies in the lanes' words, the frames' C lines and the store.
//
// # States of a frame
//
//	committed ─judge─▶ verified ─┬─ to be stored ──▶ durable ─▶ replied ─▶ released
//	                             └─ refused, duplicate, answered ──▶ replied ─▶ released
//
// Verdicts become final in lane order, with one store of `verified`; only then may a reply leave:
// at once for `ring`, refusals, duplicates and handshakes, after the sync for the rest. Room is
// given back up to min(durable, first frame without a reply).
//
// # States of a sender that waits for the delivery
//
//	waiting ─┬─ every destination through ───────────────▶ decided ─┬─▶ replied
//	         │  or: one failed, a breaker opened, the               │
//	         │  budget is nearly over, it repeats another           │
//	         └─ its frame durable ───────────────────────▶ stored ──┘
//
// At `delivered` a frame gives its room back when it is durable; the wait lives on in memory and is
// answered when it is both decided and stored, in whichever order. 200 says that every destination
// has the event or has refused it for good, 202 that it is durable and will be delivered.
//
// # What a crash leaves
//
// Below `verified` the C lines say what was decided, so a new life replies the same again; above it
// every frame is judged anew, which nobody was promised anything about yet. The store knows per
// lane how far the journal reaches, so nothing is stored twice. Waits are found again in the lanes
// and, where a frame has given its room back, in the journal: see Unanswered and Resume.
package ingest
