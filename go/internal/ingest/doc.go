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
// # What a crash leaves
//
// Below `verified` the C lines say what was decided, so a new life replies the same again; above it
// every frame is judged anew, which nobody was promised anything about yet. The store knows per
// lane how far the journal reaches, so nothing is stored twice.
package ingest
