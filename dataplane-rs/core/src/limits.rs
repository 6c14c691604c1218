//! Every bound of this crate by name, and how the bounds hang together.
//!
//! These are not tuned numbers: what an operator or the limiter sets arrives with a snapshot or the
//! control page and must lie within them.

/// Most bytes of a head: request line, header block and the empty line. Offsets into the header
/// block are 16 bits wide, so the block has to end within 64 KiB.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Fewest bytes that a bound on heads may be set to.
pub const HEAD_BYTES_MIN: usize = 1024;

/// Most fields of one head.
pub const FIELDS_MAX: usize = 128;

/// Most bytes that any route may take as a body. Lengths in a frame are 32 bits wide, and a frame
/// is at most a quarter of its ring.
pub const BODY_BYTES_MAX: u64 = 1 << 30;

/// Digits of a chunk size, leading zeros included: 64 bits.
pub const CHUNK_SIZE_DIGITS_MAX: u8 = 16;

/// Chunk extension bytes of one whole body. They are dropped, so they only cost.
pub const CHUNK_EXTENSION_BYTES_MAX: u32 = 4 * 1024;

/// Trailer section bytes of one body. Trailers are dropped.
pub const TRAILER_BYTES_MAX: u32 = 8 * 1024;

/// Trailer fields of one body.
pub const TRAILER_FIELDS_MAX: u32 = 64;

/// Bytes of a method's name, as wide as its place in a frame.
pub const METHOD_BYTES_MAX: usize = 24;

/// Source slots of one snapshot.
pub const SOURCES_MAX: usize = 1024;

/// Routes of one snapshot.
pub const ROUTES_MAX: usize = 4096;

/// Bytes of a route's path.
pub const PATH_BYTES_MAX: usize = 2048;

/// Networks in the allow list of one route.
pub const NETWORKS_MAX: usize = 4096;

/// Requests that one worker can hold.
pub const HELD_MAX: usize = 65_536;

/// How often waiters beyond their bound are looked for while somebody waits.
pub const EXPIRE_INTERVAL_NS: u64 = 5_000_000;

/// The youngest and the oldest age of an overload that `Retry-After` is computed from.
pub const RETRY_AFTER_BASE_S_MIN: u64 = 5;
/// See [`RETRY_AFTER_BASE_S_MIN`].
pub const RETRY_AFTER_BASE_S_MAX: u64 = 60;

/// `Retry-After` while the journal is full or cannot be written, before jitter.
pub const RETRY_AFTER_JOURNAL_S: u64 = 300;

/// Timers that one wheel can hold.
pub const TIMERS_MAX: usize = 1 << 20;

/// A timer tick is 2 to this power nanoseconds, about 4.2 ms: no timer fires early, and none later
/// than one tick after its deadline was reached.
pub const TIMER_TICK_SHIFT: u32 = 22;

const _: () = {
    assert!(HEAD_BYTES_MAX <= 1 << 16);
    assert!(HEAD_BYTES_MIN < HEAD_BYTES_MAX);
    // The longest path and the shortest request line fit into the longest head.
    assert!(PATH_BYTES_MAX + METHOD_BYTES_MAX + "  HTTP/1.1\r\n".len() < HEAD_BYTES_MAX);
    // A 64-bit chunk size, added to a body within its bound, cannot overflow once compared first.
    assert!(CHUNK_SIZE_DIGITS_MAX as u32 * 4 <= u64::BITS);
    assert!(BODY_BYTES_MAX + 2 * HEAD_BYTES_MAX as u64 <= u32::MAX as u64);
    assert!(SOURCES_MAX <= u16::MAX as usize);
    assert!(SOURCES_MAX <= ROUTES_MAX);
    // Indices are 32 bits wide, and the last one means none.
    assert!(HELD_MAX < u32::MAX as usize);
    assert!(TIMERS_MAX < u32::MAX as usize);
    assert!(RETRY_AFTER_BASE_S_MIN < RETRY_AFTER_BASE_S_MAX);
    // A waiter looked for every interval leaves at most two timer ticks after its bound.
    assert!(EXPIRE_INTERVAL_NS < 2 << TIMER_TICK_SHIFT);
};
