//! Every bound of the server by name.

/// Bytes that a connection may send ahead of the answer to its current request, decrypted where it
/// speaks TLS: the bound on how deep requests are pipelined, in bytes because only they cost.
pub const AHEAD_BYTES_MAX: usize = 64 * 1024;

/// Receiving goes on below this, so that it is not turned off and on with every request.
pub const AHEAD_BYTES_AGAIN: usize = AHEAD_BYTES_MAX / 2;

/// Answer bytes that may wait behind those being sent; a peer that reads no faster gets no further
/// request served.
pub const UNSENT_BYTES_MAX: usize = 64 * 1024;

/// Requests of one connection that are begun in one go; the others wait for those of its
/// neighbours.
pub const REQUESTS_PER_VISIT: usize = 32;

/// Bytes that one worker keeps for requests that are not whole or wait for a slot, where a snapshot
/// does not say.
pub const KEPT_BYTES_MAX: usize = 256 << 20;

/// Most bytes of a body that any source may take, whatever the memory.
pub const BODY_BYTES_MAX: u64 = 64 << 20;

/// Times that the largest frame must fit into what a worker keeps: a lone source gets half of it.
pub const KEPT_FRAMES_MIN: u64 = 2;

/// Seats of a worker for connections beyond the bounds on them, each of which lasts until it was
/// told so. Beyond these they are closed without an answer.
pub const TURNED_AWAY_MAX: u32 = 256;

/// TLS handshakes that one worker begins in one turn: each takes a fraction of a millisecond of its
/// thread, and whoever has a connection already waits that long.
pub const HANDSHAKES_PER_TURN: usize = 16;

/// TLS handshakes of one worker that may wait for their turn.
pub const HANDSHAKES_HELD_MAX: usize = 64 * 1024;

/// What a frame takes beside its body, at most: head, header index and lines.
pub const FRAME_HEAD_BYTES_MAX: u64 = 128 * 1024;

/// A buffer that grew beyond this is not kept for the next request.
pub const BUFFER_BYTES_KEPT: usize = 32 * 1024;

/// Buffers that a worker keeps for use again.
pub const BUFFERS_KEPT: usize = 1024;

/// How long a closing connection may take to read its last answer.
pub const LINGER_NS: u64 = 2_000_000_000;

/// The same while the daemon stops: it is to end within a second.
pub const STOP_LINGER_NS: u64 = 250_000_000;

/// While another data plane takes over, how long an idle connection stays quiet before it is
/// closed: closing at once would race with a request on its way, and one from the other side of the
/// earth is on its way for a while.
pub const DRAIN_QUIET_NS: u64 = 1_000_000_000;

/// The same while the daemon stops.
pub const STOP_QUIET_NS: u64 = 150_000_000;

/// The belt on every sleep of a worker.
pub const SLEEP_NS_MAX: u64 = 1_000_000_000;

/// How long after its reply the control plane's bell may ring: it is preempted between the two now
/// and then.
pub const BELL_NS_MAX: u64 = 100_000_000;

/// Lane use, in thousandths, from which requests acknowledged at `ring` wait as if no slot were
/// free.
pub const LANE_PAUSE_MILLI: u64 = 500;

/// Lane use, in thousandths, from which requests are refused.
pub const LANE_SHED_MILLI: u64 = 900;

/// Ids that the filter of repeats has room for, 8 bytes each: what a thousand refusals a second are
/// in four minutes, the longest `Retry-After`. Small enough to stay in a processor's caches; a
/// table of 8 MiB cost a sixth of a refusal.
pub const REPEATS_KEPT: usize = 1 << 18;

/// How often it is looked whether an overload is over, when nothing else happens.
pub const OVERLOAD_LOOK_NS: u64 = 100_000_000;

/// How often the standing of the sources is published, at most.
pub const STANDING_NS: u64 = 20_000_000;

/// Seats of one worker's connection table; a token has 20 bits for them.
pub const SEATS_MAX: u32 = 1 << super::conn::SEAT_BITS;

const _: () = {
    assert!(LANE_PAUSE_MILLI < LANE_SHED_MILLI && LANE_SHED_MILLI < 1000);
    assert!(BUFFER_BYTES_KEPT <= KEPT_BYTES_MAX);
    // The largest body with its head is within the half of the memory that a lone source gets.
    assert!(KEPT_FRAMES_MIN * (BODY_BYTES_MAX + FRAME_HEAD_BYTES_MAX) <= KEPT_BYTES_MAX as u64);
    assert!(STOP_QUIET_NS <= DRAIN_QUIET_NS && STOP_LINGER_NS <= LINGER_NS);
    assert!(TURNED_AWAY_MAX < SEATS_MAX);
    assert!(BODY_BYTES_MAX <= sluice_core::limits::BODY_BYTES_MAX);
    assert!(FRAME_HEAD_BYTES_MAX >= 2 * sluice_core::limits::HEAD_BYTES_MAX as u64);
    // One timer for each connection.
    assert!(SEATS_MAX as usize <= sluice_core::limits::TIMERS_MAX);
};
