//! Every bound of this crate by name.
//!
//! rustls has bounds of its own besides, all in 0.23: 32 empty records in a row, 32 key updates
//! between two records of data, 4 warnings, 1 renegotiation request that is answered, and 65535
//! bytes for a handshake message, so also for a chain of client certificates.

/// Bytes of a record's header (RFC 8446 §5.1).
pub const RECORD_HEADER_BYTES: usize = 5;

/// Most bytes of a record's plaintext (RFC 8446 §5.1).
pub const RECORD_PLAIN_BYTES_MAX: usize = 1 << 14;

/// Most bytes of a record with its header: TLS 1.2 lets a cipher add 2048 (RFC 5246 §6.2.3), and
/// rustls refuses what says that it is longer as soon as the header is there.
pub const RECORD_BYTES_MAX: usize = RECORD_HEADER_BYTES + RECORD_PLAIN_BYTES_MAX + 2048;

/// What a record adds to its plaintext at most: the header, and with the suites of rustls an 8-byte
/// nonce or a content type, and a 16-byte tag.
pub const RECORD_OVERHEAD_MAX: usize = RECORD_HEADER_BYTES + 8 + 1 + 16;

/// Most bytes that a session keeps: a partial record, or the records of a handshake message that is
/// not whole. The second is the bound of rustls's own buffer for these.
pub const KEPT_BYTES_MAX: usize = 0xffff;

/// Most bytes of a client's names. A frame counts them in 255 words of 8 bytes.
pub const CLIENT_NAMES_BYTES_MAX: usize = 2040;

/// Most certificates of one listener.
pub const CERTIFICATES_MAX: usize = 1024;

/// Most ticket keys in force; those beyond are not used. One seals, the others outlive their turn.
pub const TICKET_KEYS_MAX: usize = 16;

/// Seconds for which a ticket is good.
pub const TICKET_LIFETIME_SECONDS: u32 = 12 * 60 * 60;

/// Most bytes that a ticket holds. A session with a longer chain of client certificates gets none.
pub const TICKET_BYTES_MAX: usize = 16 * 1024;

const _: () = assert!(RECORD_BYTES_MAX <= KEPT_BYTES_MAX);
const _: () = assert!(TICKET_BYTES_MAX <= RECORD_PLAIN_BYTES_MAX);
