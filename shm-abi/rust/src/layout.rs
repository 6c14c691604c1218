// Code generated from layout.abi by shm-abi/gen. DO NOT EDIT.

use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Names this layout; attach refuses a page with another one.
pub const LAYOUT_HASH: u64 = 0xf071e4bf445b78f3;

/// "SLCLANE1"
pub const LANE_MAGIC: u64 = 3550329923610823763;
/// "\0SLCTRL1"
pub const CONTROL_MAGIC: u64 = 3552304727948284672;
/// "\0SLCUNT1"
pub const COUNTERS_MAGIC: u64 = 3554552134010426112;
/// `PAGE_SIZE` of layout.abi.
pub const PAGE_SIZE: u64 = 4096;
/// `LINE_SIZE` of layout.abi.
pub const LINE_SIZE: u64 = 64;
/// the D line and the C line
pub const FRAME_HEADER: u64 = 128;
/// header index offsets are u16
pub const HEADER_BLOCK_MAX: u64 = 65536;
/// head and body of one reply
pub const REPLY_INLINE_MAX: u64 = 65536;
/// `WORKERS_MAX` of layout.abi.
pub const WORKERS_MAX: u64 = 64;
/// `SOURCES_MAX` of layout.abi.
pub const SOURCES_MAX: u64 = 1024;
/// `LATENCY_BUCKETS` of layout.abi.
pub const LATENCY_BUCKETS: u64 = 24;
/// `HOLD_BUCKETS` of layout.abi.
pub const HOLD_BUCKETS: u64 = 16;
/// `CLASSES` of layout.abi.
pub const CLASSES: u64 = 8;
/// of a worker's ring of refusals
pub const REFUSED_ENTRIES: u64 = 1024;
/// `REFUSED_ID_BYTES` of layout.abi.
pub const REFUSED_ID_BYTES: u64 = 96;

/// A value of KIND.
pub const KIND_EVENT: u16 = 1;
/// A value of KIND.
pub const KIND_OUTCOMES: u16 = 2;
/// A value of KIND.
pub const KIND_CONFIG: u16 = 3;
/// A value of KIND.
pub const KIND_LANE_END: u16 = 4;
/// a whole frame that moved to a younger segment and keeps its name
pub const KIND_RESCUE: u16 = 5;

/// A value of STATE.
pub const STATE_NONE: u16 = 0;
/// A value of STATE.
pub const STATE_VERIFIED: u16 = 1;
/// A value of STATE.
pub const STATE_REFUSED: u16 = 2;
/// A value of STATE.
pub const STATE_DUPLICATE: u16 = 3;
/// A value of STATE.
pub const STATE_ANSWERED: u16 = 4;

/// A value of ACK.
pub const ACK_RING: u8 = 1;
/// A value of ACK.
pub const ACK_DURABLE: u8 = 2;
/// A value of ACK.
pub const ACK_DELIVERED: u8 = 3;

/// A value of FRAME_FLAG.
pub const FRAME_FLAG_TLS: u16 = 1;
/// A value of FRAME_FLAG.
pub const FRAME_FLAG_HTTP10: u16 = 2;

/// taken without a proof: `provider: none` or `enforce: false`
pub const VERDICT_FLAG_UNVERIFIED: u8 = 1;
/// answered 202: a breaker of its destinations was not closed
pub const VERDICT_FLAG_DEGRADED: u8 = 2;

/// its bound on waiting was spent
pub const SHED_HOLD: u16 = 1;
/// the queue was full, or too much memory waits
pub const SHED_HELD_FULL: u16 = 2;
/// the lane was over 90 % full
pub const SHED_LANE: u16 = 3;
/// over its source's own rate
pub const SHED_RATE: u16 = 4;
/// the journal is full or cannot be written
pub const SHED_JOURNAL: u16 = 5;
/// A value of SHED.
pub const SHED_STOPPING: u16 = 6;
/// no reply inside the sender's budget
pub const SHED_BUDGET: u16 = 7;
/// pushed out by one of a higher class
pub const SHED_CLASS: u16 = 8;

/// 200 {"status":"accepted","id":…}
pub const REPLY_ACCEPTED: u16 = 1;
/// 200 {"status":"duplicate","id":…}
pub const REPLY_DUPLICATE: u16 = 2;
/// 202 with the degraded headers
pub const REPLY_QUEUED: u16 = 3;
/// a canned answer for `code`
pub const REPLY_REFUSED: u16 = 4;
/// head lines and body bytes follow
pub const REPLY_INLINE: u16 = 5;

/// One frame's first line. The data plane writes it before `commit`; never again afterwards.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLine {
    /// whole frame, both lines included, a multiple of 64
    pub length: u32,
    /// The field of that name.
    pub kind: u16,
    /// The field of that name.
    pub flags: u16,
    /// over [128, length), padding included (zeroed)
    pub crc32c: u32,
    /// assigned once, never reused
    pub source_id: u32,
    /// The field of that name.
    pub config_version: u32,
    /// request number on its connection
    pub seq: u32,
    /// wall clock, ns since 1970: the request was whole
    pub received_ns: u64,
    /// boot clock, ns: the slot was taken
    pub admitted_ns: u64,
    /// seat (20 bits) | connection number of this worker (44 bits)
    pub token: u64,
    /// where in its lane this frame begins
    pub position: u64,
    /// boot clock, ns: end of the sender's budget, 503 from then; 0: not known
    pub until_ns: u64,
}

impl Default for DLine {
    /// All zero.
    fn default() -> Self {
        Self::from_bytes(&[0; 64])
    }
}

impl DLine {
    /// Reads the 64 bytes of the line.
    pub fn from_bytes(b: &[u8; 64]) -> Self {
        Self {
            length: u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            kind: u16::from_le_bytes([b[4], b[5]]),
            flags: u16::from_le_bytes([b[6], b[7]]),
            crc32c: u32::from_le_bytes([b[8], b[9], b[10], b[11]]),
            source_id: u32::from_le_bytes([b[12], b[13], b[14], b[15]]),
            config_version: u32::from_le_bytes([b[16], b[17], b[18], b[19]]),
            seq: u32::from_le_bytes([b[20], b[21], b[22], b[23]]),
            received_ns: u64::from_le_bytes([
                b[24], b[25], b[26], b[27], b[28], b[29], b[30], b[31],
            ]),
            admitted_ns: u64::from_le_bytes([
                b[32], b[33], b[34], b[35], b[36], b[37], b[38], b[39],
            ]),
            token: u64::from_le_bytes([b[40], b[41], b[42], b[43], b[44], b[45], b[46], b[47]]),
            position: u64::from_le_bytes([b[48], b[49], b[50], b[51], b[52], b[53], b[54], b[55]]),
            until_ns: u64::from_le_bytes([b[56], b[57], b[58], b[59], b[60], b[61], b[62], b[63]]),
        }
    }

    /// The 64 bytes of the line.
    pub fn to_bytes(&self) -> [u8; 64] {
        let mut b = [0; 64];
        b[0..4].copy_from_slice(&self.length.to_le_bytes());
        b[4..6].copy_from_slice(&self.kind.to_le_bytes());
        b[6..8].copy_from_slice(&self.flags.to_le_bytes());
        b[8..12].copy_from_slice(&self.crc32c.to_le_bytes());
        b[12..16].copy_from_slice(&self.source_id.to_le_bytes());
        b[16..20].copy_from_slice(&self.config_version.to_le_bytes());
        b[20..24].copy_from_slice(&self.seq.to_le_bytes());
        b[24..32].copy_from_slice(&self.received_ns.to_le_bytes());
        b[32..40].copy_from_slice(&self.admitted_ns.to_le_bytes());
        b[40..48].copy_from_slice(&self.token.to_le_bytes());
        b[48..56].copy_from_slice(&self.position.to_le_bytes());
        b[56..64].copy_from_slice(&self.until_ns.to_le_bytes());
        b
    }
}

const _: () = assert!(size_of::<DLine>() == 64);
const _: () = assert!(offset_of!(DLine, length) == 0);
const _: () = assert!(offset_of!(DLine, kind) == 4);
const _: () = assert!(offset_of!(DLine, flags) == 6);
const _: () = assert!(offset_of!(DLine, crc32c) == 8);
const _: () = assert!(offset_of!(DLine, source_id) == 12);
const _: () = assert!(offset_of!(DLine, config_version) == 16);
const _: () = assert!(offset_of!(DLine, seq) == 20);
const _: () = assert!(offset_of!(DLine, received_ns) == 24);
const _: () = assert!(offset_of!(DLine, admitted_ns) == 32);
const _: () = assert!(offset_of!(DLine, token) == 40);
const _: () = assert!(offset_of!(DLine, position) == 48);
const _: () = assert!(offset_of!(DLine, until_ns) == 56);

/// One frame's second line. The control plane writes it between `commit` and `verified`; above
/// `verified` it is garbage and is never believed.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CLine {
    /// The field of that name.
    pub state: u16,
    /// HTTP status
    pub reply_code: u16,
    /// The field of that name.
    pub ack: u8,
    /// The field of that name.
    pub flags: u8,
    /// which configured secret matched
    pub secret_index: u16,
    /// The field of that name.
    pub event_id: [u8; 16],
    /// all zero: none
    pub dedup_key: [u8; 16],
    /// wall clock end of the window
    pub dedup_until_ns: u64,
    /// 0: none
    pub order_key: u64,
    /// The field of that name.
    pub route_version: u32,
    /// The field of that name.
    pub reserved: u32,
}

impl Default for CLine {
    /// All zero.
    fn default() -> Self {
        Self::from_bytes(&[0; 64])
    }
}

impl CLine {
    /// Reads the 64 bytes of the line.
    pub fn from_bytes(b: &[u8; 64]) -> Self {
        Self {
            state: u16::from_le_bytes([b[0], b[1]]),
            reply_code: u16::from_le_bytes([b[2], b[3]]),
            ack: u8::from_le_bytes([b[4]]),
            flags: u8::from_le_bytes([b[5]]),
            secret_index: u16::from_le_bytes([b[6], b[7]]),
            event_id: core::array::from_fn(|n| b[8 + n]),
            dedup_key: core::array::from_fn(|n| b[24 + n]),
            dedup_until_ns: u64::from_le_bytes([
                b[40], b[41], b[42], b[43], b[44], b[45], b[46], b[47],
            ]),
            order_key: u64::from_le_bytes([b[48], b[49], b[50], b[51], b[52], b[53], b[54], b[55]]),
            route_version: u32::from_le_bytes([b[56], b[57], b[58], b[59]]),
            reserved: u32::from_le_bytes([b[60], b[61], b[62], b[63]]),
        }
    }

    /// The 64 bytes of the line.
    pub fn to_bytes(&self) -> [u8; 64] {
        let mut b = [0; 64];
        b[0..2].copy_from_slice(&self.state.to_le_bytes());
        b[2..4].copy_from_slice(&self.reply_code.to_le_bytes());
        b[4..5].copy_from_slice(&self.ack.to_le_bytes());
        b[5..6].copy_from_slice(&self.flags.to_le_bytes());
        b[6..8].copy_from_slice(&self.secret_index.to_le_bytes());
        b[8..24].copy_from_slice(&self.event_id);
        b[24..40].copy_from_slice(&self.dedup_key);
        b[40..48].copy_from_slice(&self.dedup_until_ns.to_le_bytes());
        b[48..56].copy_from_slice(&self.order_key.to_le_bytes());
        b[56..60].copy_from_slice(&self.route_version.to_le_bytes());
        b[60..64].copy_from_slice(&self.reserved.to_le_bytes());
        b
    }
}

const _: () = assert!(size_of::<CLine>() == 64);
const _: () = assert!(offset_of!(CLine, state) == 0);
const _: () = assert!(offset_of!(CLine, reply_code) == 2);
const _: () = assert!(offset_of!(CLine, ack) == 4);
const _: () = assert!(offset_of!(CLine, flags) == 5);
const _: () = assert!(offset_of!(CLine, secret_index) == 6);
const _: () = assert!(offset_of!(CLine, event_id) == 8);
const _: () = assert!(offset_of!(CLine, dedup_key) == 24);
const _: () = assert!(offset_of!(CLine, dedup_until_ns) == 40);
const _: () = assert!(offset_of!(CLine, order_key) == 48);
const _: () = assert!(offset_of!(CLine, route_version) == 56);
const _: () = assert!(offset_of!(CLine, reserved) == 60);

/// The first line of an event's payload, at 128. After it, without gaps: target, client names (padded
/// with zeroes to their words), header block, header index (8 bytes an entry: name offset, name length, value offset, value length, u16 each, from the
/// start of the header block; padded to start on 8), then on the next 64-byte line the body.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadHead {
    /// The field of that name.
    pub target_length: u32,
    /// The field of that name.
    pub headers_length: u32,
    /// The field of that name.
    pub headers_count: u32,
    /// from the frame's start; a multiple of 64
    pub body_offset: u32,
    /// The field of that name.
    pub body_length: u32,
    /// The field of that name.
    pub peer_port: u16,
    /// The field of that name.
    pub method_length: u8,
    /// client names in words of 8 bytes; 0: no client certificate
    pub client_words: u8,
    /// The field of that name.
    pub method: [u8; 24],
    /// IPv4 as ::ffff:a.b.c.d; all zero: a Unix socket
    pub peer_ip: [u8; 16],
}

impl Default for PayloadHead {
    /// All zero.
    fn default() -> Self {
        Self::from_bytes(&[0; 64])
    }
}

impl PayloadHead {
    /// Reads the 64 bytes of the line.
    pub fn from_bytes(b: &[u8; 64]) -> Self {
        Self {
            target_length: u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            headers_length: u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
            headers_count: u32::from_le_bytes([b[8], b[9], b[10], b[11]]),
            body_offset: u32::from_le_bytes([b[12], b[13], b[14], b[15]]),
            body_length: u32::from_le_bytes([b[16], b[17], b[18], b[19]]),
            peer_port: u16::from_le_bytes([b[20], b[21]]),
            method_length: u8::from_le_bytes([b[22]]),
            client_words: u8::from_le_bytes([b[23]]),
            method: core::array::from_fn(|n| b[24 + n]),
            peer_ip: core::array::from_fn(|n| b[48 + n]),
        }
    }

    /// The 64 bytes of the line.
    pub fn to_bytes(&self) -> [u8; 64] {
        let mut b = [0; 64];
        b[0..4].copy_from_slice(&self.target_length.to_le_bytes());
        b[4..8].copy_from_slice(&self.headers_length.to_le_bytes());
        b[8..12].copy_from_slice(&self.headers_count.to_le_bytes());
        b[12..16].copy_from_slice(&self.body_offset.to_le_bytes());
        b[16..20].copy_from_slice(&self.body_length.to_le_bytes());
        b[20..22].copy_from_slice(&self.peer_port.to_le_bytes());
        b[22..23].copy_from_slice(&self.method_length.to_le_bytes());
        b[23..24].copy_from_slice(&self.client_words.to_le_bytes());
        b[24..48].copy_from_slice(&self.method);
        b[48..64].copy_from_slice(&self.peer_ip);
        b
    }
}

const _: () = assert!(size_of::<PayloadHead>() == 64);
const _: () = assert!(offset_of!(PayloadHead, target_length) == 0);
const _: () = assert!(offset_of!(PayloadHead, headers_length) == 4);
const _: () = assert!(offset_of!(PayloadHead, headers_count) == 8);
const _: () = assert!(offset_of!(PayloadHead, body_offset) == 12);
const _: () = assert!(offset_of!(PayloadHead, body_length) == 16);
const _: () = assert!(offset_of!(PayloadHead, peer_port) == 20);
const _: () = assert!(offset_of!(PayloadHead, method_length) == 22);
const _: () = assert!(offset_of!(PayloadHead, client_words) == 23);
const _: () = assert!(offset_of!(PayloadHead, method) == 24);
const _: () = assert!(offset_of!(PayloadHead, peer_ip) == 48);

/// One reply. Body bytes follow; entries start on 64-byte lines.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyEntry {
    /// whole entry, a multiple of 64
    pub length: u32,
    /// The field of that name.
    pub kind: u16,
    /// HTTP status
    pub code: u16,
    /// The field of that name.
    pub token: u64,
    /// The field of that name.
    pub seq: u32,
    /// The field of that name.
    pub flags: u32,
    /// REPLY_INLINE: header lines, each ended by CRLF
    pub head_length: u32,
    /// The field of that name.
    pub body_length: u32,
    /// The field of that name.
    pub event_id: [u8; 16],
    /// the frame that is answered
    pub position: u64,
    /// 0: none
    pub retry_after_s: u32,
    /// The field of that name.
    pub reserved: u32,
}

impl Default for ReplyEntry {
    /// All zero.
    fn default() -> Self {
        Self::from_bytes(&[0; 64])
    }
}

impl ReplyEntry {
    /// Reads the 64 bytes of the line.
    pub fn from_bytes(b: &[u8; 64]) -> Self {
        Self {
            length: u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            kind: u16::from_le_bytes([b[4], b[5]]),
            code: u16::from_le_bytes([b[6], b[7]]),
            token: u64::from_le_bytes([b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]]),
            seq: u32::from_le_bytes([b[16], b[17], b[18], b[19]]),
            flags: u32::from_le_bytes([b[20], b[21], b[22], b[23]]),
            head_length: u32::from_le_bytes([b[24], b[25], b[26], b[27]]),
            body_length: u32::from_le_bytes([b[28], b[29], b[30], b[31]]),
            event_id: core::array::from_fn(|n| b[32 + n]),
            position: u64::from_le_bytes([b[48], b[49], b[50], b[51], b[52], b[53], b[54], b[55]]),
            retry_after_s: u32::from_le_bytes([b[56], b[57], b[58], b[59]]),
            reserved: u32::from_le_bytes([b[60], b[61], b[62], b[63]]),
        }
    }

    /// The 64 bytes of the line.
    pub fn to_bytes(&self) -> [u8; 64] {
        let mut b = [0; 64];
        b[0..4].copy_from_slice(&self.length.to_le_bytes());
        b[4..6].copy_from_slice(&self.kind.to_le_bytes());
        b[6..8].copy_from_slice(&self.code.to_le_bytes());
        b[8..16].copy_from_slice(&self.token.to_le_bytes());
        b[16..20].copy_from_slice(&self.seq.to_le_bytes());
        b[20..24].copy_from_slice(&self.flags.to_le_bytes());
        b[24..28].copy_from_slice(&self.head_length.to_le_bytes());
        b[28..32].copy_from_slice(&self.body_length.to_le_bytes());
        b[32..48].copy_from_slice(&self.event_id);
        b[48..56].copy_from_slice(&self.position.to_le_bytes());
        b[56..60].copy_from_slice(&self.retry_after_s.to_le_bytes());
        b[60..64].copy_from_slice(&self.reserved.to_le_bytes());
        b
    }
}

const _: () = assert!(size_of::<ReplyEntry>() == 64);
const _: () = assert!(offset_of!(ReplyEntry, length) == 0);
const _: () = assert!(offset_of!(ReplyEntry, kind) == 4);
const _: () = assert!(offset_of!(ReplyEntry, code) == 6);
const _: () = assert!(offset_of!(ReplyEntry, token) == 8);
const _: () = assert!(offset_of!(ReplyEntry, seq) == 16);
const _: () = assert!(offset_of!(ReplyEntry, flags) == 20);
const _: () = assert!(offset_of!(ReplyEntry, head_length) == 24);
const _: () = assert!(offset_of!(ReplyEntry, body_length) == 28);
const _: () = assert!(offset_of!(ReplyEntry, event_id) == 32);
const _: () = assert!(offset_of!(ReplyEntry, position) == 48);
const _: () = assert!(offset_of!(ReplyEntry, retry_after_s) == 56);
const _: () = assert!(offset_of!(ReplyEntry, reserved) == 60);

/// First page of a lane file; request ring and reply ring follow. Each cursor has two cache lines.
#[repr(C, align(64))]
pub struct LaneHeader {
    magic: AtomicU64,
    layout_hash: AtomicU64,
    boot_id: [AtomicU8; 16],
    journal_id: [AtomicU8; 16],
    lane_id: [AtomicU8; 16],
    generation: AtomicU32,
    pid: AtomicU32,
    worker: AtomicU32,
    version: AtomicU32,
    request_capacity: AtomicU64,
    reply_capacity: AtomicU64,
    _pad0: [u8; 32],
    commit: AtomicU64,
    _pad1: [u8; 120],
    consume: AtomicU64,
    _pad2: [u8; 120],
    verified: AtomicU64,
    _pad3: [u8; 120],
    reply_commit: AtomicU64,
    _pad4: [u8; 120],
    reply_consume: AtomicU64,
    _pad5: [u8; 120],
    dp_ticket: AtomicU64,
    _pad6: [u8; 120],
    cp_ticket: AtomicU64,
    _pad7: [u8; 120],
    closed: AtomicU64,
    _pad8: [u8; 120],
    retired: AtomicU64,
    _pad9: [u8; 2936],
}

impl LaneHeader {
    /// The field of that name.
    pub fn magic(&self) -> u64 {
        self.magic.load(Ordering::Acquire)
    }

    /// Publishes `magic`.
    pub fn store_magic(&self, v: u64) {
        self.magic.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn layout_hash(&self) -> u64 {
        self.layout_hash.load(Ordering::Acquire)
    }

    /// Publishes `layout_hash`.
    pub fn store_layout_hash(&self, v: u64) {
        self.layout_hash.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn boot_id(&self) -> [u8; 16] {
        core::array::from_fn(|i| self.boot_id[i].load(Ordering::Acquire))
    }

    /// Publishes `boot_id`.
    pub fn store_boot_id(&self, v: [u8; 16]) {
        for (to, from) in self.boot_id.iter().zip(v) {
            to.store(from, Ordering::Release);
        }
    }

    /// The field of that name.
    pub fn journal_id(&self) -> [u8; 16] {
        core::array::from_fn(|i| self.journal_id[i].load(Ordering::Acquire))
    }

    /// Publishes `journal_id`.
    pub fn store_journal_id(&self, v: [u8; 16]) {
        for (to, from) in self.journal_id.iter().zip(v) {
            to.store(from, Ordering::Release);
        }
    }

    /// The field of that name.
    pub fn lane_id(&self) -> [u8; 16] {
        core::array::from_fn(|i| self.lane_id[i].load(Ordering::Acquire))
    }

    /// Publishes `lane_id`.
    pub fn store_lane_id(&self, v: [u8; 16]) {
        for (to, from) in self.lane_id.iter().zip(v) {
            to.store(from, Ordering::Release);
        }
    }

    /// The field of that name.
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Publishes `generation`.
    pub fn store_generation(&self, v: u32) {
        self.generation.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Acquire)
    }

    /// Publishes `pid`.
    pub fn store_pid(&self, v: u32) {
        self.pid.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn worker(&self) -> u32 {
        self.worker.load(Ordering::Acquire)
    }

    /// Publishes `worker`.
    pub fn store_worker(&self, v: u32) {
        self.worker.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// Publishes `version`.
    pub fn store_version(&self, v: u32) {
        self.version.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn request_capacity(&self) -> u64 {
        self.request_capacity.load(Ordering::Acquire)
    }

    /// Publishes `request_capacity`.
    pub fn store_request_capacity(&self, v: u64) {
        self.request_capacity.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn reply_capacity(&self) -> u64 {
        self.reply_capacity.load(Ordering::Acquire)
    }

    /// Publishes `reply_capacity`.
    pub fn store_reply_capacity(&self, v: u64) {
        self.reply_capacity.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn commit(&self) -> u64 {
        self.commit.load(Ordering::Acquire)
    }

    /// Publishes `commit`.
    pub fn store_commit(&self, v: u64) {
        self.commit.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn consume(&self) -> u64 {
        self.consume.load(Ordering::Acquire)
    }

    /// The field of that name.
    pub fn verified(&self) -> u64 {
        self.verified.load(Ordering::Acquire)
    }

    /// The field of that name.
    pub fn reply_commit(&self) -> u64 {
        self.reply_commit.load(Ordering::Acquire)
    }

    /// The field of that name.
    pub fn reply_consume(&self) -> u64 {
        self.reply_consume.load(Ordering::Acquire)
    }

    /// Publishes `reply_consume`.
    pub fn store_reply_consume(&self, v: u64) {
        self.reply_consume.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn dp_ticket(&self) -> u64 {
        self.dp_ticket.load(Ordering::Acquire)
    }

    /// Publishes `dp_ticket`.
    pub fn store_dp_ticket(&self, v: u64) {
        self.dp_ticket.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn cp_ticket(&self) -> u64 {
        self.cp_ticket.load(Ordering::Acquire)
    }

    /// The field of that name.
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::Acquire)
    }

    /// Publishes `closed`.
    pub fn store_closed(&self, v: u64) {
        self.closed.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn retired(&self) -> u64 {
        self.retired.load(Ordering::Acquire)
    }
}

const _: () = assert!(size_of::<LaneHeader>() == 4096);
const _: () = assert!(offset_of!(LaneHeader, magic) == 0);
const _: () = assert!(offset_of!(LaneHeader, layout_hash) == 8);
const _: () = assert!(offset_of!(LaneHeader, boot_id) == 16);
const _: () = assert!(offset_of!(LaneHeader, journal_id) == 32);
const _: () = assert!(offset_of!(LaneHeader, lane_id) == 48);
const _: () = assert!(offset_of!(LaneHeader, generation) == 64);
const _: () = assert!(offset_of!(LaneHeader, pid) == 68);
const _: () = assert!(offset_of!(LaneHeader, worker) == 72);
const _: () = assert!(offset_of!(LaneHeader, version) == 76);
const _: () = assert!(offset_of!(LaneHeader, request_capacity) == 80);
const _: () = assert!(offset_of!(LaneHeader, reply_capacity) == 88);
const _: () = assert!(offset_of!(LaneHeader, commit) == 128);
const _: () = assert!(offset_of!(LaneHeader, consume) == 256);
const _: () = assert!(offset_of!(LaneHeader, verified) == 384);
const _: () = assert!(offset_of!(LaneHeader, reply_commit) == 512);
const _: () = assert!(offset_of!(LaneHeader, reply_consume) == 640);
const _: () = assert!(offset_of!(LaneHeader, dp_ticket) == 768);
const _: () = assert!(offset_of!(LaneHeader, cp_ticket) == 896);
const _: () = assert!(offset_of!(LaneHeader, closed) == 1024);
const _: () = assert!(offset_of!(LaneHeader, retired) == 1152);

/// Numbers that the control plane tunes and every worker reads. Made once, kept over restarts.
#[repr(C, align(64))]
pub struct ControlPage {
    magic: AtomicU64,
    layout_hash: AtomicU64,
    journal_id: [AtomicU8; 16],
    _pad0: [u8; 32],
    policy_version: AtomicU64,
    _pad1: [u8; 56],
    limit: AtomicU64,
    max_held: AtomicU64,
    hold_budget_ns: AtomicU64,
    hold_bound_ns: AtomicU64,
    growing: AtomicU64,
    service_time_ns: AtomicU64,
    floor_slots: AtomicU64,
    floor_rate_milli: AtomicU64,
    repeat_share_milli: AtomicU64,
    share_rate_milli: AtomicU64,
    codel_target_ns: AtomicU64,
    codel_interval_ns: AtomicU64,
    pace_interval_ns: AtomicU64,
    pace_depth_ns: AtomicU64,
    base_limit_milli: AtomicU64,
    _pad2: [u8; 8],
    writable: AtomicU64,
    journal_full: AtomicU64,
    _pad3: [u8; 48],
    durable_group: AtomicU64,
    _pad4: [u8; 56],
    cp_beat: AtomicU64,
    stopping: AtomicU64,
    newest_generation: AtomicU64,
    elder_limit: AtomicU64,
    _pad5: [u8; 3680],
}

impl ControlPage {
    /// The field of that name.
    pub fn magic(&self) -> u64 {
        self.magic.load(Ordering::Acquire)
    }

    /// The field of that name.
    pub fn layout_hash(&self) -> u64 {
        self.layout_hash.load(Ordering::Acquire)
    }

    /// The field of that name.
    pub fn journal_id(&self) -> [u8; 16] {
        core::array::from_fn(|i| self.journal_id[i].load(Ordering::Acquire))
    }

    /// even: at rest
    pub fn policy_version(&self) -> u64 {
        self.policy_version.load(Ordering::Acquire)
    }

    /// requests in flight, the host's
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    /// The field of that name.
    pub fn max_held(&self) -> u64 {
        self.max_held.load(Ordering::Acquire)
    }

    /// upper bound of any hold
    pub fn hold_budget_ns(&self) -> u64 {
        self.hold_budget_ns.load(Ordering::Acquire)
    }

    /// H: the adaptive bound while a class is overloaded; 0: none
    pub fn hold_bound_ns(&self) -> u64 {
        self.hold_bound_ns.load(Ordering::Acquire)
    }

    /// 1: the limit is on its way up, who waits may wait longer
    pub fn growing(&self) -> u64 {
        self.growing.load(Ordering::Acquire)
    }

    /// W: from a slot taken to the frame durable, in the mean
    pub fn service_time_ns(&self) -> u64 {
        self.service_time_ns.load(Ordering::Acquire)
    }

    /// slots beyond the limit for the floor
    pub fn floor_slots(&self) -> u64 {
        self.floor_slots.load(Ordering::Acquire)
    }

    /// thousandths of an event a second, the floor of all sources
    pub fn floor_rate_milli(&self) -> u64 {
        self.floor_rate_milli.load(Ordering::Acquire)
    }

    /// thousandths of the limit that repeats may use; 0: all of it
    pub fn repeat_share_milli(&self) -> u64 {
        self.repeat_share_milli.load(Ordering::Acquire)
    }

    /// each source's share, thousandths of an event a second; 0: no bound
    pub fn share_rate_milli(&self) -> u64 {
        self.share_rate_milli.load(Ordering::Acquire)
    }

    /// 0: `overload: queue`
    pub fn codel_target_ns(&self) -> u64 {
        self.codel_target_ns.load(Ordering::Acquire)
    }

    /// The field of that name.
    pub fn codel_interval_ns(&self) -> u64 {
        self.codel_interval_ns.load(Ordering::Acquire)
    }

    /// `pacing: little`: one slot each so long; 0: off
    pub fn pace_interval_ns(&self) -> u64 {
        self.pace_interval_ns.load(Ordering::Acquire)
    }

    /// The field of that name.
    pub fn pace_depth_ns(&self) -> u64 {
        self.pace_depth_ns.load(Ordering::Acquire)
    }

    /// the limit without its alternation: where a restart goes on
    pub fn base_limit_milli(&self) -> u64 {
        self.base_limit_milli.load(Ordering::Acquire)
    }

    /// 1: the journal takes groups
    pub fn writable(&self) -> u64 {
        self.writable.load(Ordering::Acquire)
    }

    /// 1: answer 503 Ingestion-Queue-Full
    pub fn journal_full(&self) -> u64 {
        self.journal_full.load(Ordering::Acquire)
    }

    /// The field of that name.
    pub fn durable_group(&self) -> u64 {
        self.durable_group.load(Ordering::Acquire)
    }

    /// boot clock, ns
    pub fn cp_beat(&self) -> u64 {
        self.cp_beat.load(Ordering::Acquire)
    }

    /// The field of that name.
    pub fn stopping(&self) -> u64 {
        self.stopping.load(Ordering::Acquire)
    }

    /// of the data planes that run
    pub fn newest_generation(&self) -> u64 {
        self.newest_generation.load(Ordering::Acquire)
    }

    /// the limit of each older one, which finishes what it has
    pub fn elder_limit(&self) -> u64 {
        self.elder_limit.load(Ordering::Acquire)
    }
}

const _: () = assert!(size_of::<ControlPage>() == 4096);
const _: () = assert!(offset_of!(ControlPage, magic) == 0);
const _: () = assert!(offset_of!(ControlPage, layout_hash) == 8);
const _: () = assert!(offset_of!(ControlPage, journal_id) == 16);
const _: () = assert!(offset_of!(ControlPage, policy_version) == 64);
const _: () = assert!(offset_of!(ControlPage, limit) == 128);
const _: () = assert!(offset_of!(ControlPage, max_held) == 136);
const _: () = assert!(offset_of!(ControlPage, hold_budget_ns) == 144);
const _: () = assert!(offset_of!(ControlPage, hold_bound_ns) == 152);
const _: () = assert!(offset_of!(ControlPage, growing) == 160);
const _: () = assert!(offset_of!(ControlPage, service_time_ns) == 168);
const _: () = assert!(offset_of!(ControlPage, floor_slots) == 176);
const _: () = assert!(offset_of!(ControlPage, floor_rate_milli) == 184);
const _: () = assert!(offset_of!(ControlPage, repeat_share_milli) == 192);
const _: () = assert!(offset_of!(ControlPage, share_rate_milli) == 200);
const _: () = assert!(offset_of!(ControlPage, codel_target_ns) == 208);
const _: () = assert!(offset_of!(ControlPage, codel_interval_ns) == 216);
const _: () = assert!(offset_of!(ControlPage, pace_interval_ns) == 224);
const _: () = assert!(offset_of!(ControlPage, pace_depth_ns) == 232);
const _: () = assert!(offset_of!(ControlPage, base_limit_milli) == 240);
const _: () = assert!(offset_of!(ControlPage, writable) == 256);
const _: () = assert!(offset_of!(ControlPage, journal_full) == 264);
const _: () = assert!(offset_of!(ControlPage, durable_group) == 320);
const _: () = assert!(offset_of!(ControlPage, cp_beat) == 384);
const _: () = assert!(offset_of!(ControlPage, stopping) == 392);
const _: () = assert!(offset_of!(ControlPage, newest_generation) == 400);
const _: () = assert!(offset_of!(ControlPage, elder_limit) == 408);

/// First page of a data plane's counters file; one WorkerCounters each, then the source tables.
#[repr(C, align(64))]
pub struct CountersHeader {
    magic: AtomicU64,
    layout_hash: AtomicU64,
    generation: AtomicU32,
    pid: AtomicU32,
    workers: AtomicU32,
    sources: AtomicU32,
    _pad0: [u8; 96],
    inflight: AtomicU64,
    held: AtomicU64,
    peak: AtomicU64,
    overloaded: AtomicU64,
    overload_since_ns: AtomicU64,
    metered_ns: AtomicU64,
    area_ns: AtomicU64,
    saturated_ns: AtomicU64,
    _pad1: [u8; 64],
    dp_beat: AtomicU64,
    _pad2: [u8; 56],
    connections: AtomicU64,
    _pad3: [u8; 3768],
}

impl CountersHeader {
    /// The field of that name.
    pub fn magic(&self) -> u64 {
        self.magic.load(Ordering::Acquire)
    }

    /// Publishes `magic`.
    pub fn store_magic(&self, v: u64) {
        self.magic.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn layout_hash(&self) -> u64 {
        self.layout_hash.load(Ordering::Acquire)
    }

    /// Publishes `layout_hash`.
    pub fn store_layout_hash(&self, v: u64) {
        self.layout_hash.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Publishes `generation`.
    pub fn store_generation(&self, v: u32) {
        self.generation.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Acquire)
    }

    /// Publishes `pid`.
    pub fn store_pid(&self, v: u32) {
        self.pid.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn workers(&self) -> u32 {
        self.workers.load(Ordering::Acquire)
    }

    /// Publishes `workers`.
    pub fn store_workers(&self, v: u32) {
        self.workers.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn sources(&self) -> u32 {
        self.sources.load(Ordering::Acquire)
    }

    /// Publishes `sources`.
    pub fn store_sources(&self, v: u32) {
        self.sources.store(v, Ordering::Release);
    }

    /// slots taken, all workers
    pub fn inflight(&self) -> u64 {
        self.inflight.load(Ordering::Acquire)
    }

    /// Publishes `inflight`.
    pub fn store_inflight(&self, v: u64) {
        self.inflight.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Acquire)
    }

    /// Publishes `held`.
    pub fn store_held(&self, v: u64) {
        self.held.store(v, Ordering::Release);
    }

    /// most slots taken at once in the last 100 to 200 ms
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Acquire)
    }

    /// Publishes `peak`.
    pub fn store_peak(&self, v: u64) {
        self.peak.store(v, Ordering::Release);
    }

    /// bit per class
    pub fn overloaded(&self) -> u64 {
        self.overloaded.load(Ordering::Acquire)
    }

    /// Publishes `overloaded`.
    pub fn store_overloaded(&self, v: u64) {
        self.overloaded.store(v, Ordering::Release);
    }

    /// boot clock; 0: no class is overloaded
    pub fn overload_since_ns(&self) -> u64 {
        self.overload_since_ns.load(Ordering::Acquire)
    }

    /// Publishes `overload_since_ns`.
    pub fn store_overload_since_ns(&self, v: u64) {
        self.overload_since_ns.store(v, Ordering::Release);
    }

    /// boot clock: the next two are counted up to here
    pub fn metered_ns(&self) -> u64 {
        self.metered_ns.load(Ordering::Acquire)
    }

    /// Publishes `metered_ns`.
    pub fn store_metered_ns(&self, v: u64) {
        self.metered_ns.store(v, Ordering::Release);
    }

    /// slots taken × time
    pub fn area_ns(&self) -> u64 {
        self.area_ns.load(Ordering::Acquire)
    }

    /// Adds to `area_ns`; one thread only.
    pub fn add_area_ns(&self, n: u64) {
        let v = self.area_ns.load(Ordering::Relaxed);
        self.area_ns.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// time with all slots of the limit taken
    pub fn saturated_ns(&self) -> u64 {
        self.saturated_ns.load(Ordering::Acquire)
    }

    /// Adds to `saturated_ns`; one thread only.
    pub fn add_saturated_ns(&self, n: u64) {
        let v = self.saturated_ns.load(Ordering::Relaxed);
        self.saturated_ns
            .store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn dp_beat(&self) -> u64 {
        self.dp_beat.load(Ordering::Acquire)
    }

    /// Publishes `dp_beat`.
    pub fn store_dp_beat(&self, v: u64) {
        self.dp_beat.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Acquire)
    }

    /// Adds to `connections` and gives what it was.
    pub fn add_connections(&self, n: u64) -> u64 {
        self.connections.fetch_add(n, Ordering::AcqRel)
    }

    /// Takes from `connections` and gives what it was.
    pub fn sub_connections(&self, n: u64) -> u64 {
        self.connections.fetch_sub(n, Ordering::AcqRel)
    }
}

const _: () = assert!(size_of::<CountersHeader>() == 4096);
const _: () = assert!(offset_of!(CountersHeader, magic) == 0);
const _: () = assert!(offset_of!(CountersHeader, layout_hash) == 8);
const _: () = assert!(offset_of!(CountersHeader, generation) == 16);
const _: () = assert!(offset_of!(CountersHeader, pid) == 20);
const _: () = assert!(offset_of!(CountersHeader, workers) == 24);
const _: () = assert!(offset_of!(CountersHeader, sources) == 28);
const _: () = assert!(offset_of!(CountersHeader, inflight) == 128);
const _: () = assert!(offset_of!(CountersHeader, held) == 136);
const _: () = assert!(offset_of!(CountersHeader, peak) == 144);
const _: () = assert!(offset_of!(CountersHeader, overloaded) == 152);
const _: () = assert!(offset_of!(CountersHeader, overload_since_ns) == 160);
const _: () = assert!(offset_of!(CountersHeader, metered_ns) == 168);
const _: () = assert!(offset_of!(CountersHeader, area_ns) == 176);
const _: () = assert!(offset_of!(CountersHeader, saturated_ns) == 184);
const _: () = assert!(offset_of!(CountersHeader, dp_beat) == 256);
const _: () = assert!(offset_of!(CountersHeader, connections) == 320);

/// One worker's counts.
#[repr(C, align(64))]
pub struct WorkerCounters {
    accepted: AtomicU64,
    closed: AtomicU64,
    requests: AtomicU64,
    frames: AtomicU64,
    frame_bytes: AtomicU64,
    replies: AtomicU64,
    late_replies: AtomicU64,
    rings: AtomicU64,
    wakes: AtomicU64,
    belt_wakes: AtomicU64,
    budget_over: AtomicU64,
    lane_full: AtomicU64,
    recv_starved: AtomicU64,
    accept_paused: AtomicU64,
    cq_overflow: AtomicU64,
    turns: AtomicU64,
    unrouted: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    turn_ns_max: AtomicU64,
    malformed: AtomicU64,
    refused_connections: AtomicU64,
    tls_handshakes: AtomicU64,
    tls_resumed: AtomicU64,
    samples: AtomicU64,
    sample_sum_ns: AtomicU64,
    void_ns: AtomicU64,
    drops: AtomicU64,
    refused_entries: AtomicU64,
    floored: AtomicU64,
    tls_failed: AtomicU64,
    tls_late: AtomicU64,
    class_offered: [AtomicU64; 8],
    class_admitted: [AtomicU64; 8],
    class_held: [AtomicU64; 8],
    class_shed: [AtomicU64; 8],
    tls_held: AtomicU64,
    proxy_refused: AtomicU64,
    kept_bytes: AtomicU64,
    kept_refused: AtomicU64,
    too_slow: AtomicU64,
    _pad0: [u8; 3544],
}

impl WorkerCounters {
    /// connections
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Acquire)
    }

    /// Adds to `accepted`; one thread only.
    pub fn add_accepted(&self, n: u64) {
        let v = self.accepted.load(Ordering::Relaxed);
        self.accepted.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::Acquire)
    }

    /// Adds to `closed`; one thread only.
    pub fn add_closed(&self, n: u64) {
        let v = self.closed.load(Ordering::Relaxed);
        self.closed.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// requests parsed
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Acquire)
    }

    /// Adds to `requests`; one thread only.
    pub fn add_requests(&self, n: u64) {
        let v = self.requests.load(Ordering::Relaxed);
        self.requests.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Acquire)
    }

    /// Adds to `frames`; one thread only.
    pub fn add_frames(&self, n: u64) {
        let v = self.frames.load(Ordering::Relaxed);
        self.frames.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn frame_bytes(&self) -> u64 {
        self.frame_bytes.load(Ordering::Acquire)
    }

    /// Adds to `frame_bytes`; one thread only.
    pub fn add_frame_bytes(&self, n: u64) {
        let v = self.frame_bytes.load(Ordering::Relaxed);
        self.frame_bytes.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn replies(&self) -> u64 {
        self.replies.load(Ordering::Acquire)
    }

    /// Adds to `replies`; one thread only.
    pub fn add_replies(&self, n: u64) {
        let v = self.replies.load(Ordering::Relaxed);
        self.replies.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// token, seq or state did not fit
    pub fn late_replies(&self) -> u64 {
        self.late_replies.load(Ordering::Acquire)
    }

    /// Adds to `late_replies`; one thread only.
    pub fn add_late_replies(&self, n: u64) {
        let v = self.late_replies.load(Ordering::Relaxed);
        self.late_replies
            .store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// doorbells written to the control plane
    pub fn rings(&self) -> u64 {
        self.rings.load(Ordering::Acquire)
    }

    /// Adds to `rings`; one thread only.
    pub fn add_rings(&self, n: u64) {
        let v = self.rings.load(Ordering::Relaxed);
        self.rings.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// doorbells received
    pub fn wakes(&self) -> u64 {
        self.wakes.load(Ordering::Acquire)
    }

    /// Adds to `wakes`; one thread only.
    pub fn add_wakes(&self, n: u64) {
        let v = self.wakes.load(Ordering::Relaxed);
        self.wakes.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// replies that only the bound on a sleep found
    pub fn belt_wakes(&self) -> u64 {
        self.belt_wakes.load(Ordering::Acquire)
    }

    /// Adds to `belt_wakes`; one thread only.
    pub fn add_belt_wakes(&self, n: u64) {
        let v = self.belt_wakes.load(Ordering::Relaxed);
        self.belt_wakes.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// 503 after the sender's budget
    pub fn budget_over(&self) -> u64 {
        self.budget_over.load(Ordering::Acquire)
    }

    /// Adds to `budget_over`; one thread only.
    pub fn add_budget_over(&self, n: u64) {
        let v = self.budget_over.load(Ordering::Relaxed);
        self.budget_over.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn lane_full(&self) -> u64 {
        self.lane_full.load(Ordering::Acquire)
    }

    /// Adds to `lane_full`; one thread only.
    pub fn add_lane_full(&self, n: u64) {
        let v = self.lane_full.load(Ordering::Relaxed);
        self.lane_full.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// ENOBUFS
    pub fn recv_starved(&self) -> u64 {
        self.recv_starved.load(Ordering::Acquire)
    }

    /// Adds to `recv_starved`; one thread only.
    pub fn add_recv_starved(&self, n: u64) {
        let v = self.recv_starved.load(Ordering::Relaxed);
        self.recv_starved
            .store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// EMFILE, ENFILE
    pub fn accept_paused(&self) -> u64 {
        self.accept_paused.load(Ordering::Acquire)
    }

    /// Adds to `accept_paused`; one thread only.
    pub fn add_accept_paused(&self, n: u64) {
        let v = self.accept_paused.load(Ordering::Relaxed);
        self.accept_paused
            .store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn cq_overflow(&self) -> u64 {
        self.cq_overflow.load(Ordering::Acquire)
    }

    /// Adds to `cq_overflow`; one thread only.
    pub fn add_cq_overflow(&self, n: u64) {
        let v = self.cq_overflow.load(Ordering::Relaxed);
        self.cq_overflow.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Acquire)
    }

    /// Adds to `turns`; one thread only.
    pub fn add_turns(&self, n: u64) {
        let v = self.turns.load(Ordering::Relaxed);
        self.turns.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// answers without a source: 404 and the like
    pub fn unrouted(&self) -> u64 {
        self.unrouted.load(Ordering::Acquire)
    }

    /// Adds to `unrouted`; one thread only.
    pub fn add_unrouted(&self, n: u64) {
        let v = self.unrouted.load(Ordering::Relaxed);
        self.unrouted.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn bytes_in(&self) -> u64 {
        self.bytes_in.load(Ordering::Acquire)
    }

    /// Adds to `bytes_in`; one thread only.
    pub fn add_bytes_in(&self, n: u64) {
        let v = self.bytes_in.load(Ordering::Relaxed);
        self.bytes_in.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn bytes_out(&self) -> u64 {
        self.bytes_out.load(Ordering::Acquire)
    }

    /// Adds to `bytes_out`; one thread only.
    pub fn add_bytes_out(&self, n: u64) {
        let v = self.bytes_out.load(Ordering::Relaxed);
        self.bytes_out.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn turn_ns_max(&self) -> u64 {
        self.turn_ns_max.load(Ordering::Acquire)
    }

    /// Publishes `turn_ns_max`.
    pub fn store_turn_ns_max(&self, v: u64) {
        self.turn_ns_max.store(v, Ordering::Release);
    }

    /// The field of that name.
    pub fn malformed(&self) -> u64 {
        self.malformed.load(Ordering::Acquire)
    }

    /// Adds to `malformed`; one thread only.
    pub fn add_malformed(&self, n: u64) {
        let v = self.malformed.load(Ordering::Relaxed);
        self.malformed.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// max_connections
    pub fn refused_connections(&self) -> u64 {
        self.refused_connections.load(Ordering::Acquire)
    }

    /// Adds to `refused_connections` and gives what it was.
    pub fn add_refused_connections(&self, n: u64) -> u64 {
        self.refused_connections.fetch_add(n, Ordering::AcqRel)
    }

    /// Takes from `refused_connections` and gives what it was.
    pub fn sub_refused_connections(&self, n: u64) -> u64 {
        self.refused_connections.fetch_sub(n, Ordering::AcqRel)
    }

    /// completed ones
    pub fn tls_handshakes(&self) -> u64 {
        self.tls_handshakes.load(Ordering::Acquire)
    }

    /// Adds to `tls_handshakes`; one thread only.
    pub fn add_tls_handshakes(&self, n: u64) {
        let v = self.tls_handshakes.load(Ordering::Relaxed);
        self.tls_handshakes
            .store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// of these: by a ticket
    pub fn tls_resumed(&self) -> u64 {
        self.tls_resumed.load(Ordering::Acquire)
    }

    /// Adds to `tls_resumed`; one thread only.
    pub fn add_tls_resumed(&self, n: u64) {
        let v = self.tls_resumed.load(Ordering::Relaxed);
        self.tls_resumed.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// slots given back by frames that became durable
    pub fn samples(&self) -> u64 {
        self.samples.load(Ordering::Acquire)
    }

    /// Adds to `samples`; one thread only.
    pub fn add_samples(&self, n: u64) {
        let v = self.samples.load(Ordering::Relaxed);
        self.samples.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// how long those were taken
    pub fn sample_sum_ns(&self) -> u64 {
        self.sample_sum_ns.load(Ordering::Acquire)
    }

    /// Adds to `sample_sum_ns`; one thread only.
    pub fn add_sample_sum_ns(&self, n: u64) {
        let v = self.sample_sum_ns.load(Ordering::Relaxed);
        self.sample_sum_ns
            .store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// how long the others were: part of area_ns, of no sample
    pub fn void_ns(&self) -> u64 {
        self.void_ns.load(Ordering::Acquire)
    }

    /// Adds to `void_ns`; one thread only.
    pub fn add_void_ns(&self, n: u64) {
        let v = self.void_ns.load(Ordering::Relaxed);
        self.void_ns.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// no answer in time, or the journal refused
    pub fn drops(&self) -> u64 {
        self.drops.load(Ordering::Acquire)
    }

    /// Adds to `drops`; one thread only.
    pub fn add_drops(&self, n: u64) {
        let v = self.drops.load(Ordering::Relaxed);
        self.drops.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// ever written to the ring of refusals
    pub fn refused_entries(&self) -> u64 {
        self.refused_entries.load(Ordering::Acquire)
    }

    /// Adds to `refused_entries`; one thread only.
    pub fn add_refused_entries(&self, n: u64) {
        let v = self.refused_entries.load(Ordering::Relaxed);
        self.refused_entries
            .store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// admitted by the floor
    pub fn floored(&self) -> u64 {
        self.floored.load(Ordering::Acquire)
    }

    /// Adds to `floored`; one thread only.
    pub fn add_floored(&self, n: u64) {
        let v = self.floored.load(Ordering::Relaxed);
        self.floored.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// handshakes that the sender or we broke off
    pub fn tls_failed(&self) -> u64 {
        self.tls_failed.load(Ordering::Acquire)
    }

    /// Adds to `tls_failed`; one thread only.
    pub fn add_tls_failed(&self, n: u64) {
        let v = self.tls_failed.load(Ordering::Relaxed);
        self.tls_failed.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// of these: not done in time
    pub fn tls_late(&self) -> u64 {
        self.tls_late.load(Ordering::Acquire)
    }

    /// Adds to `tls_late`; one thread only.
    pub fn add_tls_late(&self, n: u64) {
        let v = self.tls_late.load(Ordering::Relaxed);
        self.tls_late.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// requests that asked for a slot, by class
    pub fn class_offered(&self, i: usize) -> u64 {
        self.class_offered[i].load(Ordering::Relaxed)
    }

    /// Adds to entry `i` of `class_offered`; one thread only.
    pub fn add_class_offered(&self, i: usize, n: u64) {
        let v = self.class_offered[i].load(Ordering::Relaxed);
        self.class_offered[i].store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn class_admitted(&self, i: usize) -> u64 {
        self.class_admitted[i].load(Ordering::Relaxed)
    }

    /// Adds to entry `i` of `class_admitted`; one thread only.
    pub fn add_class_admitted(&self, i: usize, n: u64) {
        let v = self.class_admitted[i].load(Ordering::Relaxed);
        self.class_admitted[i].store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// of all offered: those that had to wait
    pub fn class_held(&self, i: usize) -> u64 {
        self.class_held[i].load(Ordering::Relaxed)
    }

    /// Adds to entry `i` of `class_held`; one thread only.
    pub fn add_class_held(&self, i: usize, n: u64) {
        let v = self.class_held[i].load(Ordering::Relaxed);
        self.class_held[i].store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn class_shed(&self, i: usize) -> u64 {
        self.class_shed[i].load(Ordering::Relaxed)
    }

    /// Adds to entry `i` of `class_shed`; one thread only.
    pub fn add_class_shed(&self, i: usize, n: u64) {
        let v = self.class_shed[i].load(Ordering::Relaxed);
        self.class_shed[i].store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// handshakes that waited for the bound on their rate
    pub fn tls_held(&self) -> u64 {
        self.tls_held.load(Ordering::Acquire)
    }

    /// Adds to `tls_held`; one thread only.
    pub fn add_tls_held(&self, n: u64) {
        let v = self.tls_held.load(Ordering::Relaxed);
        self.tls_held.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// a PROXY header that is missing, wrong, or from who may not send it
    pub fn proxy_refused(&self) -> u64 {
        self.proxy_refused.load(Ordering::Acquire)
    }

    /// Adds to `proxy_refused`; one thread only.
    pub fn add_proxy_refused(&self, n: u64) {
        let v = self.proxy_refused.load(Ordering::Relaxed);
        self.proxy_refused
            .store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// of requests that are not whole or wait
    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes.load(Ordering::Acquire)
    }

    /// Publishes `kept_bytes`.
    pub fn store_kept_bytes(&self, v: u64) {
        self.kept_bytes.store(v, Ordering::Release);
    }

    /// requests that found no room among these
    pub fn kept_refused(&self) -> u64 {
        self.kept_refused.load(Ordering::Acquire)
    }

    /// Adds to `kept_refused`; one thread only.
    pub fn add_kept_refused(&self, n: u64) {
        let v = self.kept_refused.load(Ordering::Relaxed);
        self.kept_refused
            .store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// requests that did not come in time
    pub fn too_slow(&self) -> u64 {
        self.too_slow.load(Ordering::Acquire)
    }

    /// Adds to `too_slow`; one thread only.
    pub fn add_too_slow(&self, n: u64) {
        let v = self.too_slow.load(Ordering::Relaxed);
        self.too_slow.store(v.wrapping_add(n), Ordering::Relaxed);
    }
}

const _: () = assert!(size_of::<WorkerCounters>() == 4096);
const _: () = assert!(offset_of!(WorkerCounters, accepted) == 0);
const _: () = assert!(offset_of!(WorkerCounters, closed) == 8);
const _: () = assert!(offset_of!(WorkerCounters, requests) == 16);
const _: () = assert!(offset_of!(WorkerCounters, frames) == 24);
const _: () = assert!(offset_of!(WorkerCounters, frame_bytes) == 32);
const _: () = assert!(offset_of!(WorkerCounters, replies) == 40);
const _: () = assert!(offset_of!(WorkerCounters, late_replies) == 48);
const _: () = assert!(offset_of!(WorkerCounters, rings) == 56);
const _: () = assert!(offset_of!(WorkerCounters, wakes) == 64);
const _: () = assert!(offset_of!(WorkerCounters, belt_wakes) == 72);
const _: () = assert!(offset_of!(WorkerCounters, budget_over) == 80);
const _: () = assert!(offset_of!(WorkerCounters, lane_full) == 88);
const _: () = assert!(offset_of!(WorkerCounters, recv_starved) == 96);
const _: () = assert!(offset_of!(WorkerCounters, accept_paused) == 104);
const _: () = assert!(offset_of!(WorkerCounters, cq_overflow) == 112);
const _: () = assert!(offset_of!(WorkerCounters, turns) == 120);
const _: () = assert!(offset_of!(WorkerCounters, unrouted) == 128);
const _: () = assert!(offset_of!(WorkerCounters, bytes_in) == 136);
const _: () = assert!(offset_of!(WorkerCounters, bytes_out) == 144);
const _: () = assert!(offset_of!(WorkerCounters, turn_ns_max) == 152);
const _: () = assert!(offset_of!(WorkerCounters, malformed) == 160);
const _: () = assert!(offset_of!(WorkerCounters, refused_connections) == 168);
const _: () = assert!(offset_of!(WorkerCounters, tls_handshakes) == 176);
const _: () = assert!(offset_of!(WorkerCounters, tls_resumed) == 184);
const _: () = assert!(offset_of!(WorkerCounters, samples) == 192);
const _: () = assert!(offset_of!(WorkerCounters, sample_sum_ns) == 200);
const _: () = assert!(offset_of!(WorkerCounters, void_ns) == 208);
const _: () = assert!(offset_of!(WorkerCounters, drops) == 216);
const _: () = assert!(offset_of!(WorkerCounters, refused_entries) == 224);
const _: () = assert!(offset_of!(WorkerCounters, floored) == 232);
const _: () = assert!(offset_of!(WorkerCounters, tls_failed) == 240);
const _: () = assert!(offset_of!(WorkerCounters, tls_late) == 248);
const _: () = assert!(offset_of!(WorkerCounters, class_offered) == 256);
const _: () = assert!(offset_of!(WorkerCounters, class_admitted) == 320);
const _: () = assert!(offset_of!(WorkerCounters, class_held) == 384);
const _: () = assert!(offset_of!(WorkerCounters, class_shed) == 448);
const _: () = assert!(offset_of!(WorkerCounters, tls_held) == 512);
const _: () = assert!(offset_of!(WorkerCounters, proxy_refused) == 520);
const _: () = assert!(offset_of!(WorkerCounters, kept_bytes) == 528);
const _: () = assert!(offset_of!(WorkerCounters, kept_refused) == 536);
const _: () = assert!(offset_of!(WorkerCounters, too_slow) == 544);

/// One per worker and source slot.
#[repr(C, align(64))]
pub struct SourceCounters {
    code_2xx: AtomicU64,
    code_400: AtomicU64,
    code_401: AtomicU64,
    code_403: AtomicU64,
    code_404: AtomicU64,
    code_405: AtomicU64,
    code_408: AtomicU64,
    code_413: AtomicU64,
    code_429: AtomicU64,
    code_431: AtomicU64,
    code_503: AtomicU64,
    code_other: AtomicU64,
    shed_hold: AtomicU64,
    shed_held_full: AtomicU64,
    shed_lane: AtomicU64,
    shed_rate: AtomicU64,
    shed_journal: AtomicU64,
    shed_stopping: AtomicU64,
    shed_budget: AtomicU64,
    shed_class: AtomicU64,
    ack_count: AtomicU64,
    ack_sum_ns: AtomicU64,
    hold_count: AtomicU64,
    hold_sum_ns: AtomicU64,
    ack_bucket: [AtomicU64; 24],
    hold_bucket: [AtomicU64; 16],
    offered: AtomicU64,
    over_share: AtomicU64,
    repeats: AtomicU64,
    floored: AtomicU64,
    _pad0: [u8; 32],
}

impl SourceCounters {
    /// The field of that name.
    pub fn code_2xx(&self) -> u64 {
        self.code_2xx.load(Ordering::Acquire)
    }

    /// Adds to `code_2xx`; one thread only.
    pub fn add_code_2xx(&self, n: u64) {
        let v = self.code_2xx.load(Ordering::Relaxed);
        self.code_2xx.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn code_400(&self) -> u64 {
        self.code_400.load(Ordering::Acquire)
    }

    /// Adds to `code_400`; one thread only.
    pub fn add_code_400(&self, n: u64) {
        let v = self.code_400.load(Ordering::Relaxed);
        self.code_400.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn code_401(&self) -> u64 {
        self.code_401.load(Ordering::Acquire)
    }

    /// Adds to `code_401`; one thread only.
    pub fn add_code_401(&self, n: u64) {
        let v = self.code_401.load(Ordering::Relaxed);
        self.code_401.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn code_403(&self) -> u64 {
        self.code_403.load(Ordering::Acquire)
    }

    /// Adds to `code_403`; one thread only.
    pub fn add_code_403(&self, n: u64) {
        let v = self.code_403.load(Ordering::Relaxed);
        self.code_403.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn code_404(&self) -> u64 {
        self.code_404.load(Ordering::Acquire)
    }

    /// Adds to `code_404`; one thread only.
    pub fn add_code_404(&self, n: u64) {
        let v = self.code_404.load(Ordering::Relaxed);
        self.code_404.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn code_405(&self) -> u64 {
        self.code_405.load(Ordering::Acquire)
    }

    /// Adds to `code_405`; one thread only.
    pub fn add_code_405(&self, n: u64) {
        let v = self.code_405.load(Ordering::Relaxed);
        self.code_405.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn code_408(&self) -> u64 {
        self.code_408.load(Ordering::Acquire)
    }

    /// Adds to `code_408`; one thread only.
    pub fn add_code_408(&self, n: u64) {
        let v = self.code_408.load(Ordering::Relaxed);
        self.code_408.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn code_413(&self) -> u64 {
        self.code_413.load(Ordering::Acquire)
    }

    /// Adds to `code_413`; one thread only.
    pub fn add_code_413(&self, n: u64) {
        let v = self.code_413.load(Ordering::Relaxed);
        self.code_413.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn code_429(&self) -> u64 {
        self.code_429.load(Ordering::Acquire)
    }

    /// Adds to `code_429`; one thread only.
    pub fn add_code_429(&self, n: u64) {
        let v = self.code_429.load(Ordering::Relaxed);
        self.code_429.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn code_431(&self) -> u64 {
        self.code_431.load(Ordering::Acquire)
    }

    /// Adds to `code_431`; one thread only.
    pub fn add_code_431(&self, n: u64) {
        let v = self.code_431.load(Ordering::Relaxed);
        self.code_431.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn code_503(&self) -> u64 {
        self.code_503.load(Ordering::Acquire)
    }

    /// Adds to `code_503`; one thread only.
    pub fn add_code_503(&self, n: u64) {
        let v = self.code_503.load(Ordering::Relaxed);
        self.code_503.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn code_other(&self) -> u64 {
        self.code_other.load(Ordering::Acquire)
    }

    /// Adds to `code_other`; one thread only.
    pub fn add_code_other(&self, n: u64) {
        let v = self.code_other.load(Ordering::Relaxed);
        self.code_other.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// hold bound spent
    pub fn shed_hold(&self) -> u64 {
        self.shed_hold.load(Ordering::Acquire)
    }

    /// Adds to `shed_hold`; one thread only.
    pub fn add_shed_hold(&self, n: u64) {
        let v = self.shed_hold.load(Ordering::Relaxed);
        self.shed_hold.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// queue full
    pub fn shed_held_full(&self) -> u64 {
        self.shed_held_full.load(Ordering::Acquire)
    }

    /// Adds to `shed_held_full`; one thread only.
    pub fn add_shed_held_full(&self, n: u64) {
        let v = self.shed_held_full.load(Ordering::Relaxed);
        self.shed_held_full
            .store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// lane over 90 %
    pub fn shed_lane(&self) -> u64 {
        self.shed_lane.load(Ordering::Acquire)
    }

    /// Adds to `shed_lane`; one thread only.
    pub fn add_shed_lane(&self, n: u64) {
        let v = self.shed_lane.load(Ordering::Relaxed);
        self.shed_lane.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn shed_rate(&self) -> u64 {
        self.shed_rate.load(Ordering::Acquire)
    }

    /// Adds to `shed_rate`; one thread only.
    pub fn add_shed_rate(&self, n: u64) {
        let v = self.shed_rate.load(Ordering::Relaxed);
        self.shed_rate.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn shed_journal(&self) -> u64 {
        self.shed_journal.load(Ordering::Acquire)
    }

    /// Adds to `shed_journal`; one thread only.
    pub fn add_shed_journal(&self, n: u64) {
        let v = self.shed_journal.load(Ordering::Relaxed);
        self.shed_journal
            .store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn shed_stopping(&self) -> u64 {
        self.shed_stopping.load(Ordering::Acquire)
    }

    /// Adds to `shed_stopping`; one thread only.
    pub fn add_shed_stopping(&self, n: u64) {
        let v = self.shed_stopping.load(Ordering::Relaxed);
        self.shed_stopping
            .store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// no reply inside the sender's budget
    pub fn shed_budget(&self) -> u64 {
        self.shed_budget.load(Ordering::Acquire)
    }

    /// Adds to `shed_budget`; one thread only.
    pub fn add_shed_budget(&self, n: u64) {
        let v = self.shed_budget.load(Ordering::Relaxed);
        self.shed_budget.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn shed_class(&self) -> u64 {
        self.shed_class.load(Ordering::Acquire)
    }

    /// Adds to `shed_class`; one thread only.
    pub fn add_shed_class(&self, n: u64) {
        let v = self.shed_class.load(Ordering::Relaxed);
        self.shed_class.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn ack_count(&self) -> u64 {
        self.ack_count.load(Ordering::Acquire)
    }

    /// Adds to `ack_count`; one thread only.
    pub fn add_ack_count(&self, n: u64) {
        let v = self.ack_count.load(Ordering::Relaxed);
        self.ack_count.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn ack_sum_ns(&self) -> u64 {
        self.ack_sum_ns.load(Ordering::Acquire)
    }

    /// Adds to `ack_sum_ns`; one thread only.
    pub fn add_ack_sum_ns(&self, n: u64) {
        let v = self.ack_sum_ns.load(Ordering::Relaxed);
        self.ack_sum_ns.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn hold_count(&self) -> u64 {
        self.hold_count.load(Ordering::Acquire)
    }

    /// Adds to `hold_count`; one thread only.
    pub fn add_hold_count(&self, n: u64) {
        let v = self.hold_count.load(Ordering::Relaxed);
        self.hold_count.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// The field of that name.
    pub fn hold_sum_ns(&self) -> u64 {
        self.hold_sum_ns.load(Ordering::Acquire)
    }

    /// Adds to `hold_sum_ns`; one thread only.
    pub fn add_hold_sum_ns(&self, n: u64) {
        let v = self.hold_sum_ns.load(Ordering::Relaxed);
        self.hold_sum_ns.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// LATENCY_BUCKETS: upper bounds 64 µs × 2^i
    pub fn ack_bucket(&self, i: usize) -> u64 {
        self.ack_bucket[i].load(Ordering::Relaxed)
    }

    /// Adds to entry `i` of `ack_bucket`; one thread only.
    pub fn add_ack_bucket(&self, i: usize, n: u64) {
        let v = self.ack_bucket[i].load(Ordering::Relaxed);
        self.ack_bucket[i].store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// HOLD_BUCKETS: upper bounds 1 ms × 2^i
    pub fn hold_bucket(&self, i: usize) -> u64 {
        self.hold_bucket[i].load(Ordering::Relaxed)
    }

    /// Adds to entry `i` of `hold_bucket`; one thread only.
    pub fn add_hold_bucket(&self, i: usize, n: u64) {
        let v = self.hold_bucket[i].load(Ordering::Relaxed);
        self.hold_bucket[i].store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// asked for a slot
    pub fn offered(&self) -> u64 {
        self.offered.load(Ordering::Acquire)
    }

    /// Adds to `offered`; one thread only.
    pub fn add_offered(&self, n: u64) {
        let v = self.offered.load(Ordering::Relaxed);
        self.offered.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// of these: beyond the source's share
    pub fn over_share(&self) -> u64 {
        self.over_share.load(Ordering::Acquire)
    }

    /// Adds to `over_share`; one thread only.
    pub fn add_over_share(&self, n: u64) {
        let v = self.over_share.load(Ordering::Relaxed);
        self.over_share.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// of these: seen before
    pub fn repeats(&self) -> u64 {
        self.repeats.load(Ordering::Acquire)
    }

    /// Adds to `repeats`; one thread only.
    pub fn add_repeats(&self, n: u64) {
        let v = self.repeats.load(Ordering::Relaxed);
        self.repeats.store(v.wrapping_add(n), Ordering::Relaxed);
    }

    /// admitted by the floor
    pub fn floored(&self) -> u64 {
        self.floored.load(Ordering::Acquire)
    }

    /// Adds to `floored`; one thread only.
    pub fn add_floored(&self, n: u64) {
        let v = self.floored.load(Ordering::Relaxed);
        self.floored.store(v.wrapping_add(n), Ordering::Relaxed);
    }
}

const _: () = assert!(size_of::<SourceCounters>() == 576);
const _: () = assert!(offset_of!(SourceCounters, code_2xx) == 0);
const _: () = assert!(offset_of!(SourceCounters, code_400) == 8);
const _: () = assert!(offset_of!(SourceCounters, code_401) == 16);
const _: () = assert!(offset_of!(SourceCounters, code_403) == 24);
const _: () = assert!(offset_of!(SourceCounters, code_404) == 32);
const _: () = assert!(offset_of!(SourceCounters, code_405) == 40);
const _: () = assert!(offset_of!(SourceCounters, code_408) == 48);
const _: () = assert!(offset_of!(SourceCounters, code_413) == 56);
const _: () = assert!(offset_of!(SourceCounters, code_429) == 64);
const _: () = assert!(offset_of!(SourceCounters, code_431) == 72);
const _: () = assert!(offset_of!(SourceCounters, code_503) == 80);
const _: () = assert!(offset_of!(SourceCounters, code_other) == 88);
const _: () = assert!(offset_of!(SourceCounters, shed_hold) == 96);
const _: () = assert!(offset_of!(SourceCounters, shed_held_full) == 104);
const _: () = assert!(offset_of!(SourceCounters, shed_lane) == 112);
const _: () = assert!(offset_of!(SourceCounters, shed_rate) == 120);
const _: () = assert!(offset_of!(SourceCounters, shed_journal) == 128);
const _: () = assert!(offset_of!(SourceCounters, shed_stopping) == 136);
const _: () = assert!(offset_of!(SourceCounters, shed_budget) == 144);
const _: () = assert!(offset_of!(SourceCounters, shed_class) == 152);
const _: () = assert!(offset_of!(SourceCounters, ack_count) == 160);
const _: () = assert!(offset_of!(SourceCounters, ack_sum_ns) == 168);
const _: () = assert!(offset_of!(SourceCounters, hold_count) == 176);
const _: () = assert!(offset_of!(SourceCounters, hold_sum_ns) == 184);
const _: () = assert!(offset_of!(SourceCounters, ack_bucket) == 192);
const _: () = assert!(offset_of!(SourceCounters, hold_bucket) == 384);
const _: () = assert!(offset_of!(SourceCounters, offered) == 512);
const _: () = assert!(offset_of!(SourceCounters, over_share) == 520);
const _: () = assert!(offset_of!(SourceCounters, repeats) == 528);
const _: () = assert!(offset_of!(SourceCounters, floored) == 536);

/// One per source slot, of all workers; written now and then.
#[repr(C, align(64))]
pub struct SourceState {
    refused_in_row: AtomicU64,
    last_success_ns: AtomicU64,
    guarded: AtomicU64,
    _pad0: [u8; 40],
}

impl SourceState {
    /// refusals since the last success
    pub fn refused_in_row(&self) -> u64 {
        self.refused_in_row.load(Ordering::Acquire)
    }

    /// Publishes `refused_in_row`.
    pub fn store_refused_in_row(&self, v: u64) {
        self.refused_in_row.store(v, Ordering::Release);
    }

    /// boot clock; 0: none yet
    pub fn last_success_ns(&self) -> u64 {
        self.last_success_ns.load(Ordering::Acquire)
    }

    /// Publishes `last_success_ns`.
    pub fn store_last_success_ns(&self, v: u64) {
        self.last_success_ns.store(v, Ordering::Release);
    }

    /// 1: near its provider's threshold, and so of class High
    pub fn guarded(&self) -> u64 {
        self.guarded.load(Ordering::Acquire)
    }

    /// Publishes `guarded`.
    pub fn store_guarded(&self, v: u64) {
        self.guarded.store(v, Ordering::Release);
    }
}

const _: () = assert!(size_of::<SourceState>() == 64);
const _: () = assert!(offset_of!(SourceState, refused_in_row) == 0);
const _: () = assert!(offset_of!(SourceState, last_success_ns) == 8);
const _: () = assert!(offset_of!(SourceState, guarded) == 16);

/// The sender's own id of a request that was turned away. Entry n of a worker lies in place n modulo
/// REFUSED_ENTRIES of its ring; refused_entries counts it once it is whole.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// wall clock
    pub at_ns: u64,
    /// The field of that name.
    pub source_id: u32,
    /// SHED
    pub reason: u16,
    /// of id, at most REFUSED_ID_BYTES; longer ids are cut
    pub length: u16,
    /// The field of that name.
    pub reserved: u64,
    /// The field of that name.
    pub reserved2: u64,
    /// The field of that name.
    pub id: [u8; 96],
}

impl Default for Refused {
    /// All zero.
    fn default() -> Self {
        Self::from_bytes(&[0; 128])
    }
}

impl Refused {
    /// Reads the 128 bytes of the line.
    pub fn from_bytes(b: &[u8; 128]) -> Self {
        Self {
            at_ns: u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            source_id: u32::from_le_bytes([b[8], b[9], b[10], b[11]]),
            reason: u16::from_le_bytes([b[12], b[13]]),
            length: u16::from_le_bytes([b[14], b[15]]),
            reserved: u64::from_le_bytes([b[16], b[17], b[18], b[19], b[20], b[21], b[22], b[23]]),
            reserved2: u64::from_le_bytes([b[24], b[25], b[26], b[27], b[28], b[29], b[30], b[31]]),
            id: core::array::from_fn(|n| b[32 + n]),
        }
    }

    /// The 128 bytes of the line.
    pub fn to_bytes(&self) -> [u8; 128] {
        let mut b = [0; 128];
        b[0..8].copy_from_slice(&self.at_ns.to_le_bytes());
        b[8..12].copy_from_slice(&self.source_id.to_le_bytes());
        b[12..14].copy_from_slice(&self.reason.to_le_bytes());
        b[14..16].copy_from_slice(&self.length.to_le_bytes());
        b[16..24].copy_from_slice(&self.reserved.to_le_bytes());
        b[24..32].copy_from_slice(&self.reserved2.to_le_bytes());
        b[32..128].copy_from_slice(&self.id);
        b
    }
}

const _: () = assert!(size_of::<Refused>() == 128);
const _: () = assert!(offset_of!(Refused, at_ns) == 0);
const _: () = assert!(offset_of!(Refused, source_id) == 8);
const _: () = assert!(offset_of!(Refused, reason) == 12);
const _: () = assert!(offset_of!(Refused, length) == 14);
const _: () = assert!(offset_of!(Refused, reserved) == 16);
const _: () = assert!(offset_of!(Refused, reserved2) == 24);
const _: () = assert!(offset_of!(Refused, id) == 32);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{image, pattern};

    #[test]
    fn d_line_is_its_golden_image() {
        let golden = image(include_str!("../../testdata/image/d_line.hex"), 64);
        let golden: [u8; 64] = golden.try_into().unwrap();
        let v = DLine::from_bytes(&golden);
        assert_eq!(v.to_bytes(), golden);
        assert_eq!(
            v.length,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(1, n)))
        );
        assert_eq!(
            v.kind,
            u16::from_le_bytes(core::array::from_fn(|n| pattern(2, n)))
        );
        assert_eq!(
            v.flags,
            u16::from_le_bytes(core::array::from_fn(|n| pattern(3, n)))
        );
        assert_eq!(
            v.crc32c,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(4, n)))
        );
        assert_eq!(
            v.source_id,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(5, n)))
        );
        assert_eq!(
            v.config_version,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(6, n)))
        );
        assert_eq!(
            v.seq,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(7, n)))
        );
        assert_eq!(
            v.received_ns,
            u64::from_le_bytes(core::array::from_fn(|n| pattern(8, n)))
        );
        assert_eq!(
            v.admitted_ns,
            u64::from_le_bytes(core::array::from_fn(|n| pattern(9, n)))
        );
        assert_eq!(
            v.token,
            u64::from_le_bytes(core::array::from_fn(|n| pattern(10, n)))
        );
        assert_eq!(
            v.position,
            u64::from_le_bytes(core::array::from_fn(|n| pattern(11, n)))
        );
        assert_eq!(
            v.until_ns,
            u64::from_le_bytes(core::array::from_fn(|n| pattern(12, n)))
        );
    }

    #[test]
    fn c_line_is_its_golden_image() {
        let golden = image(include_str!("../../testdata/image/c_line.hex"), 64);
        let golden: [u8; 64] = golden.try_into().unwrap();
        let v = CLine::from_bytes(&golden);
        assert_eq!(v.to_bytes(), golden);
        assert_eq!(
            v.state,
            u16::from_le_bytes(core::array::from_fn(|n| pattern(1, n)))
        );
        assert_eq!(
            v.reply_code,
            u16::from_le_bytes(core::array::from_fn(|n| pattern(2, n)))
        );
        assert_eq!(
            v.ack,
            u8::from_le_bytes(core::array::from_fn(|n| pattern(3, n)))
        );
        assert_eq!(
            v.flags,
            u8::from_le_bytes(core::array::from_fn(|n| pattern(4, n)))
        );
        assert_eq!(
            v.secret_index,
            u16::from_le_bytes(core::array::from_fn(|n| pattern(5, n)))
        );
        assert_eq!(
            v.event_id,
            core::array::from_fn::<u8, 16, _>(|n| pattern(6, n))
        );
        assert_eq!(
            v.dedup_key,
            core::array::from_fn::<u8, 16, _>(|n| pattern(7, n))
        );
        assert_eq!(
            v.dedup_until_ns,
            u64::from_le_bytes(core::array::from_fn(|n| pattern(8, n)))
        );
        assert_eq!(
            v.order_key,
            u64::from_le_bytes(core::array::from_fn(|n| pattern(9, n)))
        );
        assert_eq!(
            v.route_version,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(10, n)))
        );
    }

    #[test]
    fn payload_head_is_its_golden_image() {
        let golden = image(include_str!("../../testdata/image/payload_head.hex"), 64);
        let golden: [u8; 64] = golden.try_into().unwrap();
        let v = PayloadHead::from_bytes(&golden);
        assert_eq!(v.to_bytes(), golden);
        assert_eq!(
            v.target_length,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(1, n)))
        );
        assert_eq!(
            v.headers_length,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(2, n)))
        );
        assert_eq!(
            v.headers_count,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(3, n)))
        );
        assert_eq!(
            v.body_offset,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(4, n)))
        );
        assert_eq!(
            v.body_length,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(5, n)))
        );
        assert_eq!(
            v.peer_port,
            u16::from_le_bytes(core::array::from_fn(|n| pattern(6, n)))
        );
        assert_eq!(
            v.method_length,
            u8::from_le_bytes(core::array::from_fn(|n| pattern(7, n)))
        );
        assert_eq!(
            v.client_words,
            u8::from_le_bytes(core::array::from_fn(|n| pattern(8, n)))
        );
        assert_eq!(
            v.method,
            core::array::from_fn::<u8, 24, _>(|n| pattern(9, n))
        );
        assert_eq!(
            v.peer_ip,
            core::array::from_fn::<u8, 16, _>(|n| pattern(10, n))
        );
    }

    #[test]
    fn reply_entry_is_its_golden_image() {
        let golden = image(include_str!("../../testdata/image/reply_entry.hex"), 64);
        let golden: [u8; 64] = golden.try_into().unwrap();
        let v = ReplyEntry::from_bytes(&golden);
        assert_eq!(v.to_bytes(), golden);
        assert_eq!(
            v.length,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(1, n)))
        );
        assert_eq!(
            v.kind,
            u16::from_le_bytes(core::array::from_fn(|n| pattern(2, n)))
        );
        assert_eq!(
            v.code,
            u16::from_le_bytes(core::array::from_fn(|n| pattern(3, n)))
        );
        assert_eq!(
            v.token,
            u64::from_le_bytes(core::array::from_fn(|n| pattern(4, n)))
        );
        assert_eq!(
            v.seq,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(5, n)))
        );
        assert_eq!(
            v.flags,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(6, n)))
        );
        assert_eq!(
            v.head_length,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(7, n)))
        );
        assert_eq!(
            v.body_length,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(8, n)))
        );
        assert_eq!(
            v.event_id,
            core::array::from_fn::<u8, 16, _>(|n| pattern(9, n))
        );
        assert_eq!(
            v.position,
            u64::from_le_bytes(core::array::from_fn(|n| pattern(10, n)))
        );
        assert_eq!(
            v.retry_after_s,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(11, n)))
        );
    }

    #[test]
    fn lane_header_is_its_golden_image() {
        let golden = image(include_str!("../../testdata/image/lane_header.hex"), 4096);
        let page = crate::image::Page::new(&golden);
        // SAFETY: the page is as long as the struct, aligned to 64, and all its fields are atomics.
        let v = unsafe { &*page.as_ptr().cast::<LaneHeader>() };
        assert_eq!(
            v.magic(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(1, n)))
        );
        assert_eq!(
            v.layout_hash(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(2, n)))
        );
        assert_eq!(
            v.boot_id(),
            core::array::from_fn::<u8, 16, _>(|n| pattern(3, n))
        );
        assert_eq!(
            v.journal_id(),
            core::array::from_fn::<u8, 16, _>(|n| pattern(4, n))
        );
        assert_eq!(
            v.lane_id(),
            core::array::from_fn::<u8, 16, _>(|n| pattern(5, n))
        );
        assert_eq!(
            v.generation(),
            u32::from_le_bytes(core::array::from_fn(|n| pattern(6, n)))
        );
        assert_eq!(
            v.pid(),
            u32::from_le_bytes(core::array::from_fn(|n| pattern(7, n)))
        );
        assert_eq!(
            v.worker(),
            u32::from_le_bytes(core::array::from_fn(|n| pattern(8, n)))
        );
        assert_eq!(
            v.version(),
            u32::from_le_bytes(core::array::from_fn(|n| pattern(9, n)))
        );
        assert_eq!(
            v.request_capacity(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(10, n)))
        );
        assert_eq!(
            v.reply_capacity(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(11, n)))
        );
        assert_eq!(
            v.commit(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(12, n)))
        );
        assert_eq!(
            v.consume(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(13, n)))
        );
        assert_eq!(
            v.verified(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(14, n)))
        );
        assert_eq!(
            v.reply_commit(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(15, n)))
        );
        assert_eq!(
            v.reply_consume(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(16, n)))
        );
        assert_eq!(
            v.dp_ticket(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(17, n)))
        );
        assert_eq!(
            v.cp_ticket(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(18, n)))
        );
        assert_eq!(
            v.closed(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(19, n)))
        );
        assert_eq!(
            v.retired(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(20, n)))
        );
    }

    #[test]
    fn control_page_is_its_golden_image() {
        let golden = image(include_str!("../../testdata/image/control_page.hex"), 4096);
        let page = crate::image::Page::new(&golden);
        // SAFETY: the page is as long as the struct, aligned to 64, and all its fields are atomics.
        let v = unsafe { &*page.as_ptr().cast::<ControlPage>() };
        assert_eq!(
            v.magic(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(1, n)))
        );
        assert_eq!(
            v.layout_hash(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(2, n)))
        );
        assert_eq!(
            v.journal_id(),
            core::array::from_fn::<u8, 16, _>(|n| pattern(3, n))
        );
        assert_eq!(
            v.policy_version(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(4, n)))
        );
        assert_eq!(
            v.limit(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(5, n)))
        );
        assert_eq!(
            v.max_held(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(6, n)))
        );
        assert_eq!(
            v.hold_budget_ns(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(7, n)))
        );
        assert_eq!(
            v.hold_bound_ns(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(8, n)))
        );
        assert_eq!(
            v.growing(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(9, n)))
        );
        assert_eq!(
            v.service_time_ns(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(10, n)))
        );
        assert_eq!(
            v.floor_slots(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(11, n)))
        );
        assert_eq!(
            v.floor_rate_milli(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(12, n)))
        );
        assert_eq!(
            v.repeat_share_milli(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(13, n)))
        );
        assert_eq!(
            v.share_rate_milli(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(14, n)))
        );
        assert_eq!(
            v.codel_target_ns(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(15, n)))
        );
        assert_eq!(
            v.codel_interval_ns(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(16, n)))
        );
        assert_eq!(
            v.pace_interval_ns(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(17, n)))
        );
        assert_eq!(
            v.pace_depth_ns(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(18, n)))
        );
        assert_eq!(
            v.base_limit_milli(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(19, n)))
        );
        assert_eq!(
            v.writable(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(20, n)))
        );
        assert_eq!(
            v.journal_full(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(21, n)))
        );
        assert_eq!(
            v.durable_group(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(22, n)))
        );
        assert_eq!(
            v.cp_beat(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(23, n)))
        );
        assert_eq!(
            v.stopping(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(24, n)))
        );
        assert_eq!(
            v.newest_generation(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(25, n)))
        );
        assert_eq!(
            v.elder_limit(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(26, n)))
        );
    }

    #[test]
    fn counters_header_is_its_golden_image() {
        let golden = image(
            include_str!("../../testdata/image/counters_header.hex"),
            4096,
        );
        let page = crate::image::Page::new(&golden);
        // SAFETY: the page is as long as the struct, aligned to 64, and all its fields are atomics.
        let v = unsafe { &*page.as_ptr().cast::<CountersHeader>() };
        assert_eq!(
            v.magic(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(1, n)))
        );
        assert_eq!(
            v.layout_hash(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(2, n)))
        );
        assert_eq!(
            v.generation(),
            u32::from_le_bytes(core::array::from_fn(|n| pattern(3, n)))
        );
        assert_eq!(
            v.pid(),
            u32::from_le_bytes(core::array::from_fn(|n| pattern(4, n)))
        );
        assert_eq!(
            v.workers(),
            u32::from_le_bytes(core::array::from_fn(|n| pattern(5, n)))
        );
        assert_eq!(
            v.sources(),
            u32::from_le_bytes(core::array::from_fn(|n| pattern(6, n)))
        );
        assert_eq!(
            v.inflight(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(7, n)))
        );
        assert_eq!(
            v.held(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(8, n)))
        );
        assert_eq!(
            v.peak(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(9, n)))
        );
        assert_eq!(
            v.overloaded(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(10, n)))
        );
        assert_eq!(
            v.overload_since_ns(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(11, n)))
        );
        assert_eq!(
            v.metered_ns(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(12, n)))
        );
        assert_eq!(
            v.area_ns(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(13, n)))
        );
        assert_eq!(
            v.saturated_ns(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(14, n)))
        );
        assert_eq!(
            v.dp_beat(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(15, n)))
        );
        assert_eq!(
            v.connections(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(16, n)))
        );
    }

    #[test]
    fn worker_counters_is_its_golden_image() {
        let golden = image(
            include_str!("../../testdata/image/worker_counters.hex"),
            4096,
        );
        let page = crate::image::Page::new(&golden);
        // SAFETY: the page is as long as the struct, aligned to 64, and all its fields are atomics.
        let v = unsafe { &*page.as_ptr().cast::<WorkerCounters>() };
        assert_eq!(
            v.accepted(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(1, n)))
        );
        assert_eq!(
            v.closed(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(2, n)))
        );
        assert_eq!(
            v.requests(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(3, n)))
        );
        assert_eq!(
            v.frames(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(4, n)))
        );
        assert_eq!(
            v.frame_bytes(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(5, n)))
        );
        assert_eq!(
            v.replies(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(6, n)))
        );
        assert_eq!(
            v.late_replies(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(7, n)))
        );
        assert_eq!(
            v.rings(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(8, n)))
        );
        assert_eq!(
            v.wakes(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(9, n)))
        );
        assert_eq!(
            v.belt_wakes(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(10, n)))
        );
        assert_eq!(
            v.budget_over(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(11, n)))
        );
        assert_eq!(
            v.lane_full(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(12, n)))
        );
        assert_eq!(
            v.recv_starved(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(13, n)))
        );
        assert_eq!(
            v.accept_paused(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(14, n)))
        );
        assert_eq!(
            v.cq_overflow(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(15, n)))
        );
        assert_eq!(
            v.turns(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(16, n)))
        );
        assert_eq!(
            v.unrouted(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(17, n)))
        );
        assert_eq!(
            v.bytes_in(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(18, n)))
        );
        assert_eq!(
            v.bytes_out(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(19, n)))
        );
        assert_eq!(
            v.turn_ns_max(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(20, n)))
        );
        assert_eq!(
            v.malformed(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(21, n)))
        );
        assert_eq!(
            v.refused_connections(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(22, n)))
        );
        assert_eq!(
            v.tls_handshakes(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(23, n)))
        );
        assert_eq!(
            v.tls_resumed(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(24, n)))
        );
        assert_eq!(
            v.samples(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(25, n)))
        );
        assert_eq!(
            v.sample_sum_ns(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(26, n)))
        );
        assert_eq!(
            v.void_ns(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(27, n)))
        );
        assert_eq!(
            v.drops(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(28, n)))
        );
        assert_eq!(
            v.refused_entries(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(29, n)))
        );
        assert_eq!(
            v.floored(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(30, n)))
        );
        assert_eq!(
            v.tls_failed(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(31, n)))
        );
        assert_eq!(
            v.tls_late(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(32, n)))
        );
        assert_eq!(
            v.class_offered(1),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(33, n + 8)))
        );
        assert_eq!(
            v.class_admitted(1),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(34, n + 8)))
        );
        assert_eq!(
            v.class_held(1),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(35, n + 8)))
        );
        assert_eq!(
            v.class_shed(1),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(36, n + 8)))
        );
        assert_eq!(
            v.tls_held(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(37, n)))
        );
        assert_eq!(
            v.proxy_refused(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(38, n)))
        );
        assert_eq!(
            v.kept_bytes(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(39, n)))
        );
        assert_eq!(
            v.kept_refused(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(40, n)))
        );
        assert_eq!(
            v.too_slow(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(41, n)))
        );
    }

    #[test]
    fn source_counters_is_its_golden_image() {
        let golden = image(
            include_str!("../../testdata/image/source_counters.hex"),
            576,
        );
        let page = crate::image::Page::new(&golden);
        // SAFETY: the page is as long as the struct, aligned to 64, and all its fields are atomics.
        let v = unsafe { &*page.as_ptr().cast::<SourceCounters>() };
        assert_eq!(
            v.code_2xx(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(1, n)))
        );
        assert_eq!(
            v.code_400(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(2, n)))
        );
        assert_eq!(
            v.code_401(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(3, n)))
        );
        assert_eq!(
            v.code_403(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(4, n)))
        );
        assert_eq!(
            v.code_404(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(5, n)))
        );
        assert_eq!(
            v.code_405(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(6, n)))
        );
        assert_eq!(
            v.code_408(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(7, n)))
        );
        assert_eq!(
            v.code_413(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(8, n)))
        );
        assert_eq!(
            v.code_429(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(9, n)))
        );
        assert_eq!(
            v.code_431(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(10, n)))
        );
        assert_eq!(
            v.code_503(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(11, n)))
        );
        assert_eq!(
            v.code_other(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(12, n)))
        );
        assert_eq!(
            v.shed_hold(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(13, n)))
        );
        assert_eq!(
            v.shed_held_full(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(14, n)))
        );
        assert_eq!(
            v.shed_lane(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(15, n)))
        );
        assert_eq!(
            v.shed_rate(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(16, n)))
        );
        assert_eq!(
            v.shed_journal(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(17, n)))
        );
        assert_eq!(
            v.shed_stopping(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(18, n)))
        );
        assert_eq!(
            v.shed_budget(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(19, n)))
        );
        assert_eq!(
            v.shed_class(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(20, n)))
        );
        assert_eq!(
            v.ack_count(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(21, n)))
        );
        assert_eq!(
            v.ack_sum_ns(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(22, n)))
        );
        assert_eq!(
            v.hold_count(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(23, n)))
        );
        assert_eq!(
            v.hold_sum_ns(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(24, n)))
        );
        assert_eq!(
            v.ack_bucket(1),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(25, n + 8)))
        );
        assert_eq!(
            v.hold_bucket(1),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(26, n + 8)))
        );
        assert_eq!(
            v.offered(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(27, n)))
        );
        assert_eq!(
            v.over_share(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(28, n)))
        );
        assert_eq!(
            v.repeats(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(29, n)))
        );
        assert_eq!(
            v.floored(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(30, n)))
        );
    }

    #[test]
    fn source_state_is_its_golden_image() {
        let golden = image(include_str!("../../testdata/image/source_state.hex"), 64);
        let page = crate::image::Page::new(&golden);
        // SAFETY: the page is as long as the struct, aligned to 64, and all its fields are atomics.
        let v = unsafe { &*page.as_ptr().cast::<SourceState>() };
        assert_eq!(
            v.refused_in_row(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(1, n)))
        );
        assert_eq!(
            v.last_success_ns(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(2, n)))
        );
        assert_eq!(
            v.guarded(),
            u64::from_le_bytes(core::array::from_fn(|n| pattern(3, n)))
        );
    }

    #[test]
    fn refused_is_its_golden_image() {
        let golden = image(include_str!("../../testdata/image/refused.hex"), 128);
        let golden: [u8; 128] = golden.try_into().unwrap();
        let v = Refused::from_bytes(&golden);
        assert_eq!(v.to_bytes(), golden);
        assert_eq!(
            v.at_ns,
            u64::from_le_bytes(core::array::from_fn(|n| pattern(1, n)))
        );
        assert_eq!(
            v.source_id,
            u32::from_le_bytes(core::array::from_fn(|n| pattern(2, n)))
        );
        assert_eq!(
            v.reason,
            u16::from_le_bytes(core::array::from_fn(|n| pattern(3, n)))
        );
        assert_eq!(
            v.length,
            u16::from_le_bytes(core::array::from_fn(|n| pattern(4, n)))
        );
        assert_eq!(
            v.reserved2,
            u64::from_le_bytes(core::array::from_fn(|n| pattern(6, n)))
        );
        assert_eq!(v.id, core::array::from_fn::<u8, 96, _>(|n| pattern(7, n)));
    }
}
