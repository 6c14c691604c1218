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

/// Places of one source in which an id may be.
pub const ID_PLACES_MAX: usize = 8;

/// Bytes of a sender's id.
pub const ID_BYTES_MAX: usize = 1024;

/// Bytes of a body in which an id is looked for; one behind them is not known.
pub const ID_SCAN_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a JSON pointer, and so the bound on its depth.
pub const POINTER_BYTES_MAX: usize = 256;

/// Bytes of a field's name in a snapshot.
pub const FIELD_NAME_BYTES_MAX: usize = 256;

/// Names of fields that mark a repeat, of one source.
pub const RETRY_HEADERS_MAX: usize = 8;

/// Handshakes of one source.
pub const HANDSHAKES_MAX: usize = 16;

/// Query keys, and likewise fields, that one handshake is known by.
pub const HANDSHAKE_NAMES_MAX: usize = 8;

/// Requests that one worker can hold.
pub const HELD_MAX: usize = 65_536;

/// Workers of a data plane: sets of them are words.
pub const WORKERS_MAX: usize = 64;

/// How often waiters beyond their bound are looked for while somebody waits.
pub const EXPIRE_INTERVAL_NS: u64 = 5_000_000;

/// Service times that are kept free at the end of a sender's budget: an answer has its spread
/// around one of them.
pub const BUDGET_SERVICES: u64 = 2;

/// Shortest bound on a hold while its class is overloaded, of the classes within their share.
pub const HOLD_BOUND_NS_MIN: u64 = 50_000_000;

/// As [`HOLD_BOUND_NS_MIN`], of the classes beyond their share and of repeats.
pub const HOLD_BOUND_OVER_SHARE_NS_MIN: u64 = 10_000_000;

/// As [`HOLD_BOUND_NS_MIN`], of all classes while the limit is on its way up.
pub const HOLD_BOUND_GROWING_NS_MIN: u64 = 250_000_000;

/// Service times that a request of class High may wait for; the others wait for one, which is what
/// it takes to bridge one release.
pub const HOLD_BOUND_HIGH_SERVICES: u64 = 3;

/// With `overload: codel` a hold is bounded by this many targets while overloaded.
pub const CODEL_BOUND_TARGETS: u64 = 2;

/// Service times in the interval after which a queue that was never empty means overload.
pub const OVERLOAD_SERVICES: u64 = 3;

/// Shortest of such intervals.
pub const OVERLOAD_INTERVAL_NS_MIN: u64 = 100_000_000;

/// Longest of such intervals.
pub const OVERLOAD_INTERVAL_NS_MAX: u64 = 500_000_000;

/// An overload does not end while more than one in so many requests of the class is shed.
pub const OVERLOAD_SHED_ONE_IN: u64 = 50;

/// A share's bucket holds so many events and those of so long.
pub const SHARE_BURST_EVENTS: u64 = 2;
/// See [`SHARE_BURST_EVENTS`].
pub const SHARE_BURST_NS: u64 = 200_000_000;

/// A source of priority high owes no more than so many events and those of so long.
pub const SHARE_DEBT_EVENTS: u64 = 2;
/// See [`SHARE_DEBT_EVENTS`].
pub const SHARE_DEBT_NS: u64 = 1_000_000_000;

/// A source has one admission by the floor each so long.
pub const FLOOR_INTERVAL_NS: u64 = 500_000_000;

/// And after a rest as many at once as come in so long. Also the depth of the floor of all sources.
pub const FLOOR_DEPTH_NS: u64 = 1_000_000_000;

/// A source without a success for so long may use the floor.
pub const FLOOR_STARVED_NS: u64 = 10_000_000_000;

/// The peak of slots taken is that of the last one to two of these.
pub const PEAK_NS: u64 = 100_000_000;

/// A request seen again after longer than this is no repeat.
pub const REPEAT_WINDOW_NS: u64 = 3600 * 1_000_000_000;

/// Ids that a filter of repeats can remember.
pub const REPEAT_ENTRIES_MAX: usize = 1 << 24;

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
    assert!(SOURCES_MAX <= ROUTES_MAX && ROUTES_MAX <= u16::MAX as usize);
    // Indices are 32 bits wide, and the last one means none.
    assert!(HELD_MAX < u32::MAX as usize);
    assert!(TIMERS_MAX < u32::MAX as usize);
    assert!(RETRY_AFTER_BASE_S_MIN < RETRY_AFTER_BASE_S_MAX);
    assert!(WORKERS_MAX <= u64::BITS as usize);
    // Who is bounded is looked for often enough, and overloads are judged over several bounds.
    assert!(EXPIRE_INTERVAL_NS < HOLD_BOUND_OVER_SHARE_NS_MIN);
    assert!(HOLD_BOUND_OVER_SHARE_NS_MIN < HOLD_BOUND_NS_MIN);
    assert!(HOLD_BOUND_NS_MIN < HOLD_BOUND_GROWING_NS_MIN);
    assert!(OVERLOAD_INTERVAL_NS_MIN < OVERLOAD_INTERVAL_NS_MAX);
    assert!(FLOOR_INTERVAL_NS <= FLOOR_DEPTH_NS);
    // A waiter looked for every interval leaves at most two timer ticks after its bound.
    assert!(EXPIRE_INTERVAL_NS < 2 << TIMER_TICK_SHIFT);
};
