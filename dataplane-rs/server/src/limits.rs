//! Every bound of the server by name.

/// Bytes that a connection may send ahead of the answer to its current request.
pub const AHEAD_BYTES_MAX: usize = 64 * 1024;

/// Receiving goes on below this, so that it is not turned off and on with every request.
pub const AHEAD_BYTES_AGAIN: usize = AHEAD_BYTES_MAX / 2;

/// Answer bytes that may wait behind those being sent; a peer that reads no faster gets no further
/// request served.
pub const UNSENT_BYTES_MAX: usize = 64 * 1024;

/// Requests of one connection that are begun in one go; the others wait for those of its
/// neighbours.
pub const REQUESTS_PER_VISIT: usize = 32;

/// Bytes that one worker keeps for requests that are not whole or wait for a slot.
pub const KEPT_BYTES_MAX: usize = 256 << 20;

/// Most bytes of a body that any source may take: some of them fit at once into what one source
/// may keep.
pub const BODY_BYTES_MAX: u64 = KEPT_BYTES_MAX as u64 / 4;

/// What a frame takes beside its body, at most: head, header index and lines.
pub const FRAME_HEAD_BYTES_MAX: u64 = 128 * 1024;

/// A buffer that grew beyond this is not kept for the next request.
pub const BUFFER_BYTES_KEPT: usize = 32 * 1024;

/// Buffers that a worker keeps for use again.
pub const BUFFERS_KEPT: usize = 1024;

/// How long a closing connection may take to read its last answer.
pub const LINGER_NS: u64 = 2_000_000_000;

/// The same while draining: the process is to end within a second.
pub const DRAIN_LINGER_NS: u64 = 250_000_000;

/// While draining, how long an idle connection stays quiet before it is closed: closing at once
/// would race with a request on its way.
pub const DRAIN_QUIET_NS: u64 = 150_000_000;

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
    assert!(2 * (BODY_BYTES_MAX + FRAME_HEAD_BYTES_MAX) <= KEPT_BYTES_MAX as u64);
    assert!(BODY_BYTES_MAX <= sluice_core::limits::BODY_BYTES_MAX);
    assert!(FRAME_HEAD_BYTES_MAX >= 2 * sluice_core::limits::HEAD_BYTES_MAX as u64);
    // One timer for each connection.
    assert!(SEATS_MAX as usize <= sluice_core::limits::TIMERS_MAX);
};
