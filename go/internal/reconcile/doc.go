// Package reconcile asks providers for what was missed and takes it in.
//
// It proves nothing: what a provider has on record carries no signature that holds, so what is
// taken from it is marked as unverified. It delivers nothing: an event that was taken in is durable
// and due like any other. It decides about no event that came by itself.
//
// # A run
//
// One source at a time, over a stretch of time: the provider's list is read page by page, what is
// stored already is left out, and the rest is taken in or asked for again, the oldest first. A
// stretch with more than fits in memory is halved, where the provider can be asked for half of it;
// where it cannot, what fits is taken first, in the order of the list. At the end the gaps of the
// ledger are closed of which everything is stored.
//
// Runs begin by hand, by the schedule of the config, and soon after a gap ended.
//
// # Never twice
//
// An event is known by what its sender calls it, read as intake would read it: one that is stored
// is left out, and one that comes by webhook in the same moment has the same dedup key, so that one
// of the two is a duplicate. A record without such an id is never taken in. Shopify lists
// resources, not events; there a record is known when a stored request has the same resource in the
// same or a later state.
//
// # States
//
//	  ┌──────── ended ◀─────────────┐
//	  ▼                             │
//	idle ── begin ──▶ running ── a slice done ─┐
//	                     ▲                     │
//	                     └─────────────────────┘
//
// The service alone moves them. How far a run has come is written to one file for each source,
// whole or not at all. After a crash the next life goes on behind the last slice that was done;
// what was done beyond it is found to be known.
//
// # What is waited for
//
// The provider's limits, as it announces them; our own admission, behind everybody who waits there;
// and a bound on events a second. Nothing is taken in while the store is short of room.
package reconcile
