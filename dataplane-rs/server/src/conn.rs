//! One connection, and where its current request stands.
//!
//! ```text
//! head ──▶ body | chunks ──▶ held ──▶ awaiting ──▶ head (the next request)
//!   │          │               │          │
//!   └──────────┴── refused ────┴──────────┴──▶ lingering ──▶ gone
//! ```
//!
//! One request at a time: what a sender pipelines behind it waits in `pending`, and receiving stops
//! when too much of it waits. A request that comes whole in one read is never copied on its way to
//! the lane; one that comes in pieces is put together in `pending` (and, when it is chunked, its body
//! in `spill`).

use crate::config::Config;
use shm_abi::ReplyEntry;
use sluice_core::Refusal;
use sluice_core::admission::{Class, Rate, Ticket};
use sluice_core::http1::{ChunkedDecoder, Head, HeadReader};
use sluice_core::routes::{Ack, Route};
use sluice_core::timers::Key;
use sluice_kernel::ConnId;
use std::net::{IpAddr, SocketAddr};

/// What is remembered of a route while a request is under way; the route itself may go with its
/// snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Routed {
    pub source_id: u32,
    pub slot: u16,
    pub config_version: u32,
    pub shed_status: u16,
    pub ack: Ack,
    pub class: Class,
    pub rate: Option<Rate>,
    /// The end of the sender's budget, boot clock.
    pub until_ns: u64,
}

impl Routed {
    pub fn new(route: &Route, began_ns: u64) -> Routed {
        Routed {
            source_id: route.source_id,
            slot: route.source_slot,
            config_version: route.config_version,
            shed_status: route.shed_status,
            ack: route.ack,
            class: route.class,
            rate: route.rate,
            until_ns: began_ns.saturating_add(route.budget_ns),
        }
    }
}

/// Where the current request stands.
#[derive(Debug)]
pub enum Stage {
    /// Its head is not whole; perhaps not a byte of it has come.
    Head,
    /// Its head lies at the beginning of `pending`, the body follows.
    Body(Head, Routed),
    /// Its head is all of `pending`, the body goes to `spill`.
    Chunks(Head, ChunkedDecoder, Routed),
    /// It is refused; its body is read and thrown away before the answer, so that the connection can
    /// go on. So many bytes are left of it.
    Discard(Refusal, u64, bool),
    /// Likewise, a chunked one.
    DiscardChunks(Refusal, ChunkedDecoder, bool),
    /// It is whole and waits for a slot.
    Held(Head, Routed, Ticket),
    /// It has a slot and waits for room in the lane.
    LaneFull(Head, Routed),
    /// It lies in the lane and waits for its reply.
    Awaiting(Await),
    /// The last answer is on its way; nothing more is read.
    Lingering,
}

/// A request in the lane.
#[derive(Clone, Copy, Debug)]
pub struct Await {
    pub seq: u32,
    pub slot: u16,
    pub shed_status: u16,
    pub keep_alive: bool,
    pub head_only: bool,
    pub received_ns: u64,
}

/// One connection.
pub struct Conn {
    pub id: ConnId,
    /// Never used again by this worker; 44 bits of the token.
    pub number: u64,
    pub peer: Option<SocketAddr>,
    pub ip: [u8; 16],
    pub reader: HeadReader,
    pub stage: Stage,
    /// Bytes of the current request and, behind it, of those that follow.
    pub pending: Vec<u8>,
    /// Where the current request ends in `pending` once it is whole there.
    pub whole: usize,
    pub spill: Vec<u8>,
    pub seq: u32,
    pub timer: Option<Key>,
    /// When the first byte of the current request came, boot clock; 0: none has.
    pub began_ns: u64,
    /// Whether the kernel is asked for more.
    pub receiving: bool,
    /// The peer sent FIN, or the connection broke.
    pub eof: bool,
}

impl Conn {
    pub fn new(id: ConnId, number: u64, peer: Option<SocketAddr>, config: &Config) -> Conn {
        Conn {
            id,
            number,
            peer,
            ip: peer.map_or([0; 16], |peer| mapped(peer.ip())),
            reader: HeadReader::new(config.head_bytes_max),
            stage: Stage::Head,
            pending: Vec::new(),
            whole: 0,
            spill: Vec::new(),
            seq: 0,
            timer: None,
            began_ns: 0,
            receiving: true,
            eof: false,
        }
    }

    /// No byte of a request has come.
    pub fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Head) && self.began_ns == 0
    }

    /// What this connection waits for, if it is this reply: token and seq must both agree, so that
    /// one that comes late or twice falls through.
    pub fn awaits(&self, entry: &ReplyEntry) -> Option<Await> {
        match self.stage {
            Stage::Awaiting(wait) if self.token() == entry.token && wait.seq == entry.seq => {
                Some(wait)
            }
            _ => None,
        }
    }

    /// The name of the current request in frames and replies.
    pub fn token(&self) -> u64 {
        self.number << SEAT_BITS | self.id.index() as u64
    }

    /// Bytes kept for it.
    pub fn kept(&self) -> usize {
        self.pending.len() + self.spill.len()
    }
}

/// Bits of a token that name the seat.
pub const SEAT_BITS: u32 = 20;

/// The seat in a token.
pub fn seat_of(token: u64) -> usize {
    (token & ((1 << SEAT_BITS) - 1)) as usize
}

/// An address as frames and allow lists have it.
pub fn mapped(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}
