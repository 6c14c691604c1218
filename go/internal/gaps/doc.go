// Package gaps keeps the ledger of requests that were turned away: of which source, why, between
// when and when, how many, and their senders' own ids as far as those are known.
//
// It turns nobody away and asks no provider for anything. Answers over a request itself (401, 404,
// 413 …) are not in it: only refusals whose sender may send again. Whether one came again later and
// was stored it does not look at: a gap is open until somebody who did closes it.
//
// # Where it comes from
//
// The data planes count refusals by source and reason, exactly and for ever, and keep the last ids
// in rings that are written over. The ledger looks at both ten times a second, so counts are exact
// and ids are those that were seen in time. Between two looks nothing more is known of when a
// request was refused, so a gap spans the looks around it. Refusals of one source and reason that
// are seen less than 10 s apart are one gap.
//
// # What is bounded
//
// Single gaps, ids of one gap, ids of all. Ids give way first, of the oldest gap, and count as
// unnamed from then on. Gaps beyond the bound are put together into one for each source and reason,
// oldest first: their spans get coarse, and no refusal of an open gap is ever uncounted. Closed
// gaps go first, and for good.
//
// # What a crash leaves
//
// One file, written whole at most once a second, with the gaps and the counters that they were made
// from. The next life takes the difference to what a living data plane counts by then: that many
// were refused while nobody looked. Lost is only what a data plane refused since the last save that
// died as well. A file that cannot be believed is set aside.
package gaps
