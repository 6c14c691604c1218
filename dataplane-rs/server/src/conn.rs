//! One connection, and where its current request stands.
//!
//! ```text
//! opening ──▶ head ──▶ body | chunks ──▶ held ──▶ lane full ──▶ awaiting ──▶ head (the next one)
//!    │          │            │             │           │            │
//!    └──────────┴─ refused ──┴─────────────┴───────────┴────────────┴──▶ lingering ──▶ gone
//! ```
//!
//! One request at a time: what a sender pipelines behind it waits in the inbox, and receiving stops
//! when too much of it waits. A request that comes whole in one read is never copied on its way to
//! the lane; one that comes in pieces is put together in the inbox (or, when it is chunked, in
//! `spill`). Only the worker moves a connection from stage to stage; a crash loses it with its
//! socket, and what it had in the lane stays there.

use crate::config::Config;
use crate::inbox::{self, Inbox};
use crate::memory::Charge;
use crate::plane::Counted;
use crate::sender_id::SenderId;
use crate::transport::Transport;
use shm_abi::ReplyEntry;
use sluice_core::Refusal;
use sluice_core::admission::{Class, Priority, Rate, Ticket};
use sluice_core::answers::Success;
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
    pub ack: Ack,
    pub priority: Priority,
    pub never_retries: bool,
    pub probes: bool,
    pub guard_after: u32,
    pub rate: Option<Rate>,
    pub verify_weight: u32,
    /// The end of the sender's budget, boot clock.
    pub until_ns: u64,
}

impl Routed {
    pub fn new(route: &Route, began_ns: u64) -> Routed {
        Routed {
            source_id: route.source_id,
            slot: route.source_slot,
            config_version: route.config_version,
            ack: route.ack,
            priority: route.priority,
            never_retries: route.never_retries,
            probes: route.probes,
            guard_after: route.guard_after,
            rate: route.rate,
            verify_weight: route.verify_weight,
            until_ns: began_ns.saturating_add(route.budget_ns),
        }
    }
}

/// A request that has its head and its route.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub head: Head,
    pub routed: Routed,
    /// Bytes of its head and its body, at most.
    pub bytes_max: usize,
    /// Its sender tries again.
    pub repeat: bool,
    /// Its sender's id, and so whether it is a repeat, is in the body, which was not looked at.
    pub id_in_body: bool,
}

/// What an answer to the current request depends on. The default is for one whose head cannot be
/// read: nobody knows where the next one would begin.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The source's place in counters; `None`: no source.
    pub slot: Option<u16>,
    /// What frames call the source.
    pub source_id: u32,
    /// What the source answers when it sheds.
    pub shed_status: u16,
    /// How the source's sender wants to hear that its event is kept.
    pub success: Success,
    /// Another request may follow.
    pub keep_alive: bool,
    /// It is a HEAD.
    pub head_only: bool,
}

impl Default for Asked {
    fn default() -> Asked {
        Asked {
            slot: None,
            source_id: 0,
            shed_status: 503,
            success: Success::default(),
            keep_alive: false,
            head_only: false,
        }
    }
}

/// Where the current request stands.
#[derive(Debug)]
pub enum Stage {
    /// What comes before the first request is not over: a PROXY header, a TLS handshake.
    Opening,
    /// Its head is not whole; perhaps not a byte of it has come.
    Head,
    /// The inbox begins with its head, the body follows.
    Body(Request),
    /// `spill` holds its head and what has come of its body, without the chunks.
    Chunks(Request, ChunkedDecoder),
    /// It is refused; its body is read and thrown away before the answer, so that the connection
    /// can go on. So many bytes were read of it, and so many are left.
    Discard(Refusal, u64, u64),
    /// Likewise, a chunked one.
    DiscardChunks(Refusal, ChunkedDecoder, u64),
    /// It is whole and waits for its turn.
    Held(Request, Ticket, Class),
    /// It was admitted and waits for room in the lane. When its slot was taken, boot clock; `None`:
    /// it has none.
    LaneFull(Request, Option<u64>),
    /// It lies in the lane, at this position, and waits for its reply since then, boot clock.
    Awaiting { since_ns: u64, position: u64 },
    /// The last answer is on its way; nothing more is read.
    Lingering,
}

/// Where a connection comes from.
pub struct Origin {
    pub row: usize,
    pub transport: Transport,
    pub peer: Option<SocketAddr>,
    pub counted: Option<Counted>,
}

/// One connection.
pub struct Conn {
    pub id: ConnId,
    /// Never used again by this worker; 44 bits of the token.
    pub number: u64,
    /// Whose listener it came to: its row in the config.
    pub row: usize,
    pub transport: Transport,
    /// The other end, or who is behind it as its PROXY header says.
    pub peer: Option<SocketAddr>,
    pub ip: [u8; 16],
    /// Who sends the current request: the peer, or who is behind it as the request says.
    pub sender: Option<SocketAddr>,
    /// `None`: it is beyond a bound on connections, and gets an answer that says so.
    pub counted: Option<Counted>,
    pub reader: HeadReader,
    pub stage: Stage,
    pub asked: Asked,
    /// What the sender names the current request, as far as it is known.
    pub sender_id: SenderId,
    pub inbox: Inbox,
    /// Bytes of the current request at the beginning of the inbox, while it waits whole.
    pub whole: usize,
    pub spill: Vec<u8>,
    pub charge: Charge,
    pub seq: u32,
    /// What is set in the wheel: its key and when it fires. Perhaps before the deadline: then it is
    /// set again, which is cheaper than to move it with every request.
    pub timer: Option<(Key, u64)>,
    /// When the current stage ends; `u64::MAX`: it need not.
    pub deadline_ns: u64,
    /// Until when the current body has time even if no byte of it comes.
    pub body_until_ns: u64,
    /// When the first byte of the current request came, boot clock; 0: none has.
    pub began_ns: u64,
    /// A send is under way.
    pub sending: bool,
    /// Answers behind it.
    pub unsent: Vec<u8>,
    /// Too many answers wait for the peer to read them; no request is begun meanwhile.
    pub blocked: bool,
    /// It stands in the worker's queue of those with bytes to go on with.
    pub queued: bool,
    /// The kernel is asked for more.
    pub receiving: bool,
    /// The peer sent FIN.
    pub eof: bool,
}

impl Conn {
    /// One that was accepted just now.
    pub fn new(id: ConnId, number: u64, origin: Origin, config: &Config) -> Conn {
        let stage = match origin.transport {
            Transport::Plain => Stage::Head,
            _ => Stage::Opening,
        };
        Conn {
            id,
            number,
            row: origin.row,
            transport: origin.transport,
            peer: origin.peer,
            ip: origin.peer.map_or([0; 16], |peer| mapped(peer.ip())),
            sender: None,
            counted: origin.counted,
            reader: HeadReader::new(config.head_bytes_max),
            stage,
            asked: Asked::default(),
            sender_id: SenderId::default(),
            inbox: Inbox::default(),
            whole: 0,
            spill: Vec::new(),
            charge: Charge::default(),
            seq: 0,
            timer: None,
            deadline_ns: u64::MAX,
            body_until_ns: 0,
            began_ns: 0,
            sending: false,
            unsent: Vec::new(),
            blocked: false,
            queued: false,
            receiving: true,
            eof: false,
        }
    }

    /// No byte of a request has come.
    pub fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Head) && self.began_ns == 0
    }

    /// The current request is whole and not answered.
    pub fn waits(&self) -> bool {
        matches!(
            self.stage,
            Stage::Held(..) | Stage::LaneFull(..) | Stage::Awaiting { .. }
        )
    }

    /// Since when this connection waits for this reply. Token and seq must both agree, so that one
    /// that comes late or twice falls through.
    pub fn awaits(&self, entry: &ReplyEntry) -> Option<u64> {
        match self.stage {
            Stage::Awaiting { since_ns, .. }
                if self.token() == entry.token && self.seq == entry.seq =>
            {
                Some(since_ns)
            }
            _ => None,
        }
    }

    /// The name of this connection in frames and replies.
    pub fn token(&self) -> u64 {
        self.number << SEAT_BITS | self.id.index() as u64
    }

    /// Bytes kept for it.
    pub fn kept(&self) -> usize {
        self.inbox.size() + inbox::size(&self.spill, self.spill.len()) + self.transport.kept()
    }

    /// Bytes that came ahead of what can be used.
    pub fn ahead(&self) -> usize {
        match self.stage {
            Stage::Opening => self.transport.kept(),
            _ => self.inbox.len() - self.whole,
        }
    }

    /// Bytes of the current request's body that have come.
    pub fn body_bytes(&self) -> u64 {
        match &self.stage {
            Stage::Body(request) => (self.inbox.len() - request.head.length) as u64,
            Stage::Chunks(request, _) => (self.spill.len() - request.head.length) as u64,
            Stage::Discard(_, read, _) | Stage::DiscardChunks(_, _, read) => *read,
            _ => 0,
        }
    }

    /// Makes it ready for the request behind the current one.
    pub fn begin_next(&mut self) {
        self.stage = Stage::Head;
        self.asked = Asked::default();
        self.sender_id.clear();
        self.reader.restart();
        self.began_ns = 0;
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
