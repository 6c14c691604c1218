//! Every bound of the server by name.

/// Bytes that a connection may send ahead of the answer to its current request.
pub const AHEAD_BYTES_MAX: usize = 64 * 1024;

/// Bytes that one worker keeps for requests that are not whole or wait for a slot.
pub const KEPT_BYTES_MAX: usize = 256 << 20;

/// A buffer that grew beyond this is not kept for the next request.
pub const BUFFER_BYTES_KEPT: usize = 64 * 1024;

/// Answer buffers that a worker keeps for use again.
pub const BUFFERS_KEPT: usize = 1024;

/// How long a closing connection may take to read its last answer.
pub const LINGER_NS: u64 = 2_000_000_000;

/// While draining, how long an idle connection stays quiet before it is closed: closing at once
/// would race with a request on its way.
pub const DRAIN_QUIET_NS: u64 = 150_000_000;

/// The belt on every sleep of a worker.
pub const SLEEP_NS_MAX: u64 = 1_000_000_000;

/// Lane use, in thousandths, from which requests acknowledged at `ring` wait as if no slot were free.
pub const LANE_PAUSE_MILLI: u64 = 500;

/// Lane use, in thousandths, from which requests are refused.
pub const LANE_SHED_MILLI: u64 = 900;

/// Seats of one worker's connection table; a token has 20 bits for them.
pub const SEATS_MAX: u32 = 1 << super::conn::SEAT_BITS;

const _: () = assert!(LANE_PAUSE_MILLI < LANE_SHED_MILLI && LANE_SHED_MILLI < 1000);
const _: () = assert!(BUFFER_BYTES_KEPT <= KEPT_BYTES_MAX);
