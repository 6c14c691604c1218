// Package journal is the durable log of every acknowledged event: groups of frames, one checksum
// and one sync each, in segment files that are used again.
//
// It does not know what a frame says, what has been delivered, or which lane lives; it keeps no
// index and decides nothing about retention. It does not take the lock of the data directory.
//
// # Form on disk
//
// A directory holds the file JOURNAL (the journal's id and format), and segment files. A segment
// is one use of a file: it has a number, which only grows, and a random epoch. It is a row of
// groups, each on blocks of its own:
//
//	┌────────┬───────┬────────┬─────────────────────┬─────────┐
//	│ header │ spans │ table* │ frames              │ padding │   * in a segment's first group
//	└────────┴───────┴────────┴─────────────────────┴─────────┘
//	  128 B   32 B ×  to 64 B   as they lie in lanes  to 4096 B
//
// The header, all numbers little-endian:
//
//	 0 magic "SLUICEGR"  u64 │ 32 group number    u64 │ 64 frames         u32 │ 96  block   u32
//	 8 CRC32C            u32 │ 40 time, ns        u64 │ 68 table length   u32 │ 100 zero  28 B
//	12 format 1          u16 │ 48 length          u64 │ 72 frames length  u64 │
//	14 flags             u16 │ 56 length of head  u32 │ 80 journal id    16 B │
//	16 epoch             u64 │ 60 spans           u32 │                       │
//	24 segment number    u64 │                        │                       │
//
// Flags: 1 a table follows the spans; 2 an idle mark. The CRC32C is seeded with the epoch (its 8
// bytes go in first) and covers the head from byte 12 to its end and both lines (128 bytes) of
// every frame. A frame's payload hangs on it by the checksum in the D line. A span is lane id,
// from, to.
//
// The table, 64 bytes (segments u32, lanes u32, config version u32, zero), then 80 bytes for each
// living segment and 24 for each living lane (id, to):
//
//	0 number u64 │ 16 file u64 │ 32 offset of last grp u64 │ 48 last group u64 │ 64 last time  u64
//	8 epoch  u64 │ 24 end  u64 │ 40 first group        u64 │ 56 first time u64 │ 72 events u32
//	                                                                           │ 76 damaged u8
//
// The table states where segments end and where lanes stand before the group that carries it. A
// first group also carries the catalogue as its last frame, so that no older segment is needed for
// names. Behind the events of a group come OUTCOMES (see outcome.go), CONFIG (JSON), LANE-END (the
// lane's id), RESCUE (a line with the event's Seq and the group that its outcomes reach to, then
// the event's frame as it was) and CARRIED frames (see carried.go). A later format keeps the
// JOURNAL file's form, and the first 14 bytes of the header.
//
// # States
//
// A file is unused, living, or waiting. Only the committer's calls move it:
//
//	          first group durable                 Drop
//	unused ───────────────────────▶ living ─────────────────▶ waiting ◀── found at a start and in
//	  ▲  └── first group failed ──▶ removed; if that fails ──▶   │        no table
//	  │                                                          │
//	  └──── a first group of this run, whose table was ──────────┘
//	        made after that, is durable
//
// Poisoned files that may be unused are removed, damaged ones are renamed and kept.
//
// A group is in flight, then durable when its sync returned. Group n+1 is written after that, so a
// valid successor proves its predecessor. An error of a write or sync ends the segment for ever
// (it is poisoned); the group goes to the next one under the same number.
//
// # What a crash leaves
//
// Every durable group, and perhaps the one in flight, whole or torn. The last group found is in
// doubt whatever it looks like: it may lie in the page cache alone, where a sync that succeeds now
// proves nothing. Settle writes it again to a new file, whose table ends the old segment before
// it. A torn group is cut in silence (Recovery.Torn). Bytes that were acknowledged and are gone
// are Damage: a table entry that is not met, a valid group behind an invalid one, a number that a
// witness has seen. What is left lives on, and numbers continue above every witness.
//
// Not seen: a last group that the device lost after saying that it had it, and that neither an
// idle mark, nor the index, nor the control page has witnessed, which is the last second or so.
package journal
