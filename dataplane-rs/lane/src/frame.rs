//! A request laid out as a frame.

use crate::copy::copy_bytes;
use shm_abi::{DLine, FRAME_HEADER, HEADER_BLOCK_MAX, KIND_EVENT, LINE_SIZE, PayloadHead};
use std::net::SocketAddr;

/// Where one header lies in the header block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderSpan {
    /// Offset of the name.
    pub name: u16,
    /// Length of the name.
    pub name_length: u16,
    /// Offset of the value, without the blanks before it.
    pub value: u16,
    /// Length of the value, without the blanks behind it.
    pub value_length: u16,
}

/// A whole request. The parts are borrowed for the copy only.
#[derive(Clone, Copy)]
pub struct FrameParts<'a> {
    /// Request method, at most 24 bytes.
    pub method: &'a [u8],
    /// Request target as it came.
    pub target: &'a [u8],
    /// Names in the sender's client certificate, at most [`CLIENT_BYTES_MAX`] bytes without a zero
    /// among them; empty: it showed none.
    pub client: &'a [u8],
    /// Raw header block, at most `HEADER_BLOCK_MAX` bytes.
    pub headers: &'a [u8],
    /// One entry a header, into `headers`.
    pub index: &'a [HeaderSpan],
    /// The body in pieces, without transfer coding.
    pub body: &'a [&'a [u8]],
    /// The sender; None on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// `FRAME_FLAG_*`.
    pub flags: u16,
    /// The source's number.
    pub source_id: u32,
    /// The config under which it was routed.
    pub config_version: u32,
    /// Request number on its connection.
    pub seq: u32,
    /// When the request was whole: wall clock, ns since 1970.
    pub received_ns: u64,
    /// When its slot was taken: boot clock, ns.
    pub admitted_ns: u64,
    /// Seat (20 bits) | connection number (44 bits).
    pub token: u64,
    /// When its wait for a reply ends, boot clock, ns; 0: not known.
    pub until_ns: u64,
}

/// Most bytes of names in a client certificate that a frame takes.
pub const CLIENT_BYTES_MAX: usize = u8::MAX as usize * WORD;

const WORD: usize = 8;
const LINE: usize = LINE_SIZE as usize;
const PAYLOAD: usize = FRAME_HEADER as usize;
/// Alignment within a payload is alignment within its frame.
const _: () = assert!(PAYLOAD.is_multiple_of(LINE));
const PARTS: usize = PAYLOAD + size_of::<PayloadHead>();

fn up(n: usize, to: usize) -> usize {
    n.div_ceil(to) * to
}

fn index_offset(parts: &FrameParts<'_>) -> usize {
    let client = up(parts.client.len(), WORD);
    up(PARTS + parts.target.len() + client + parts.headers.len(), 8)
}

fn body_offset(parts: &FrameParts<'_>) -> usize {
    up(index_offset(parts) + 8 * parts.index.len(), LINE)
}

impl FrameParts<'_> {
    /// Bytes that this frame takes in the lane.
    pub fn size(&self) -> usize {
        up(body_offset(self) + self.body_length(), LINE)
    }

    fn body_length(&self) -> usize {
        self.body.iter().map(|piece| piece.len()).sum()
    }

    fn head(&self) -> PayloadHead {
        assert!(self.method.len() <= 24 && self.headers.len() as u64 <= HEADER_BLOCK_MAX);
        assert!(self.client.len() <= CLIENT_BYTES_MAX);
        let mut head = PayloadHead {
            target_length: self.target.len() as u32,
            headers_length: self.headers.len() as u32,
            headers_count: self.index.len() as u32,
            body_offset: body_offset(self) as u32,
            body_length: self.body_length() as u32,
            method_length: self.method.len() as u8,
            client_words: self.client.len().div_ceil(WORD) as u8,
            ..PayloadHead::default()
        };
        head.method[..self.method.len()].copy_from_slice(self.method);
        if let Some(peer) = self.peer {
            head.peer_port = peer.port();
            head.peer_ip = match peer.ip() {
                std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                std::net::IpAddr::V6(ip) => ip.octets(),
            };
        }
        head
    }

    /// Lays out in `out` what stands between the D line and the body.
    fn lay_out(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.head().to_bytes());
        out.extend_from_slice(self.target);
        out.extend_from_slice(self.client);
        out.extend_from_slice(&[0; WORD][..up(self.client.len(), WORD) - self.client.len()]);
        out.extend_from_slice(self.headers);
        out.resize(up(out.len(), 8), 0);
        for span in self.index {
            let [name, name_length] = [span.name, span.name_length].map(u16::to_le_bytes);
            let [value, value_length] = [span.value, span.value_length].map(u16::to_le_bytes);
            out.extend_from_slice(&name);
            out.extend_from_slice(&name_length);
            out.extend_from_slice(&value);
            out.extend_from_slice(&value_length);
        }
        out.resize(up(out.len(), LINE), 0);
    }

    /// Writes payload, then D line, at `to`; the C line is left as it is. `scratch` is used for its
    /// memory: many small pieces are put together there, where it is warm, and go out as one.
    ///
    /// # Safety
    /// `to` must be valid for writes of `self.size()` bytes, 64-aligned, covered by no reference,
    /// and read by nobody until `commit` is stored.
    pub(crate) unsafe fn write(&self, to: *mut u8, position: u64, scratch: &mut Vec<u8>) {
        self.lay_out(scratch);
        let mut out = Writer {
            to,
            at: PAYLOAD,
            crc: 0,
        };
        // SAFETY: the pieces add up to self.size(), for which the caller vouches.
        unsafe {
            out.put(scratch);
            for piece in self.body {
                out.put(piece);
            }
            out.pad(LINE);
        }
        debug_assert_eq!(out.at, self.size());
        let line = DLine {
            length: out.at as u32,
            kind: KIND_EVENT,
            flags: self.flags,
            crc32c: out.crc,
            source_id: self.source_id,
            config_version: self.config_version,
            seq: self.seq,
            received_ns: self.received_ns,
            admitted_ns: self.admitted_ns,
            token: self.token,
            position,
            until_ns: self.until_ns,
        };
        // SAFETY: the first line of the frame, for which the caller vouches.
        unsafe { copy_bytes(to, &line.to_bytes()) };
    }
}

/// Copies and checksums in one go, while the source is in the cache.
struct Writer {
    to: *mut u8,
    at: usize,
    crc: u32,
}

impl Writer {
    unsafe fn put(&mut self, piece: &[u8]) {
        // SAFETY: the caller of `write` vouches for the whole frame.
        unsafe { copy_bytes(self.to.add(self.at), piece) };
        self.crc = crc32c::crc32c_append(self.crc, piece);
        self.at += piece.len();
    }

    unsafe fn pad(&mut self, align: usize) {
        let zeroes = [0; LINE];
        let n = up(self.at, align) - self.at;
        // SAFETY: as in `put`.
        unsafe { self.put(&zeroes[..n]) };
    }
}
