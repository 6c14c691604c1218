//! The control plane's side of one lane, by hand: every word through the lane's file.

use crate::world::{PATIENCE, eventually};
use shm_abi::{DLine, KIND_EVENT, LINE_SIZE, PAGE_SIZE, PayloadHead, ReplyEntry};
use shm_abi::{REPLY_ACCEPTED, REPLY_REFUSED};
use sluice_kernel::sys::EventFd;
use sluice_lane::Lane;
use std::fs::File;
use std::net::Ipv6Addr;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Words of the lane's page, as `layout.abi` has them.
const COMMIT: u64 = 128;
pub const CONSUME: u64 = 256;
pub const REPLY_COMMIT: u64 = 512;
const DP_TICKET: u64 = 768;
const CP_TICKET: u64 = 896;
const CLOSED: u64 = 1024;
pub const RETIRED: u64 = 1152;

/// Bytes of the reply ring; no test leaves so many unread.
pub const REPLY_CAPACITY: u64 = 1 << 18;

/// What the ticket word says in its low bits.
const ASLEEP: u64 = 1;
const WANTS_ROOM: u64 = 2;

/// A frame as it was found in the lane.
#[derive(Debug)]
pub struct Frame {
    pub line: DLine,
    pub target: String,
    /// The sender's address, IPv4 as `::ffff:a.b.c.d`, and its port.
    pub peer: (Ipv6Addr, u16),
    /// Names in its certificate.
    pub client: String,
    pub body: Vec<u8>,
}

impl Frame {
    /// Where the next frame begins.
    pub fn end(&self) -> u64 {
        self.line.position + u64::from(self.line.length)
    }

    /// The entry that answers it.
    pub fn answer(&self, kind: u16, code: u16) -> ReplyEntry {
        ReplyEntry {
            length: LINE_SIZE as u32,
            kind,
            code,
            token: self.line.token,
            seq: self.line.seq,
            position: self.line.position,
            event_id: [7; 16],
            ..ReplyEntry::default()
        }
    }
}

/// Reads frames and writes replies.
pub struct ControlPlane {
    file: File,
    capacity: u64,
    read: u64,
    reply_commit: u64,
    last_rung: u64,
    request_bell: EventFd,
    reply_bell: EventFd,
}

impl ControlPlane {
    pub fn attach(
        lane: &Lane,
        capacity: u64,
        request_bell: EventFd,
        reply_bell: EventFd,
    ) -> ControlPlane {
        ControlPlane {
            file: File::options()
                .read(true)
                .write(true)
                .open(lane.path())
                .unwrap(),
            capacity,
            read: 0,
            reply_commit: 0,
            last_rung: 0,
            request_bell,
            reply_bell,
        }
    }

    fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at).unwrap();
        u64::from_le_bytes(bytes)
    }

    /// Stores a word of the lane's page, right or wrong, and wakes the worker.
    pub fn store(&self, at: u64, value: u64) {
        self.file.write_all_at(&value.to_le_bytes(), at).unwrap();
        self.reply_bell.ring().unwrap();
    }

    /// Whether a frame lies in the lane that was not read.
    pub fn has_frame(&self) -> bool {
        self.word(COMMIT) != self.read
    }

    pub fn is_closed(&self) -> bool {
        self.word(CLOSED) == 1
    }

    /// Whether the worker sleeps and is to be woken for room, too.
    pub fn waits_for_room(&self) -> bool {
        self.word(DP_TICKET) & (ASLEEP | WANTS_ROOM) == ASLEEP | WANTS_ROOM
    }

    /// Whether all room was given back.
    pub fn is_empty(&self) -> bool {
        self.word(COMMIT) == self.word(CONSUME)
    }

    /// The next frame, once it is there.
    pub fn frame(&mut self) -> Frame {
        eventually("a frame in the lane", || self.has_frame());
        let mut line = [0; 64];
        self.read_ring(self.read, &mut line);
        let line = DLine::from_bytes(&line);
        assert_eq!((line.kind, line.position), (KIND_EVENT, self.read));
        let mut bytes = vec![0; line.length as usize];
        self.read_ring(self.read, &mut bytes);
        self.read += u64::from(line.length);
        let head = PayloadHead::from_bytes(bytes[128..192].try_into().unwrap());
        let target = 192..192 + head.target_length as usize;
        let client = target.end..target.end + 8 * usize::from(head.client_words);
        let client = String::from_utf8(bytes[client].to_vec()).unwrap();
        let body = head.body_offset as usize..(head.body_offset + head.body_length) as usize;
        Frame {
            line,
            target: String::from_utf8(bytes[target].to_vec()).unwrap(),
            peer: (head.peer_ip.into(), head.peer_port),
            client: client.trim_end_matches('\0').into(),
            body: bytes[body].to_vec(),
        }
    }

    fn read_ring(&self, position: u64, to: &mut [u8]) {
        let at = position & (self.capacity - 1);
        let first = to.len().min((self.capacity - at) as usize);
        self.file
            .read_exact_at(&mut to[..first], PAGE_SIZE + at)
            .unwrap();
        self.file
            .read_exact_at(&mut to[first..], PAGE_SIZE)
            .unwrap();
    }

    /// Writes a reply as it is, and rings as the protocol has it.
    pub fn reply(&mut self, entry: &ReplyEntry) {
        self.reply_with(entry, b"", b"");
    }

    pub fn reply_with(&mut self, entry: &ReplyEntry, head: &[u8], body: &[u8]) {
        let mut entry = *entry;
        entry.head_length = head.len() as u32;
        entry.body_length = body.len() as u32;
        let mut bytes = [&entry.to_bytes()[..], head, body].concat();
        bytes.resize(bytes.len().next_multiple_of(LINE_SIZE as usize), 0);
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.publish(&bytes);
        self.ring_if_due(true);
    }

    /// Writes a reply that the worker does not hear of.
    pub fn reply_unrung(&mut self, entry: &ReplyEntry) {
        self.publish(&entry.to_bytes());
    }

    /// Writes one line as a reply that says it is so long.
    pub fn reply_of_length(&mut self, entry: &ReplyEntry, length: u32) {
        self.publish(&ReplyEntry { length, ..*entry }.to_bytes());
        self.ring_if_due(true);
    }

    fn publish(&mut self, bytes: &[u8]) {
        let at = self.reply_commit & (REPLY_CAPACITY - 1);
        let first = bytes.len().min((REPLY_CAPACITY - at) as usize);
        let ring = PAGE_SIZE + self.capacity;
        self.file.write_all_at(&bytes[..first], ring + at).unwrap();
        self.file.write_all_at(&bytes[first..], ring).unwrap();
        self.reply_commit += bytes.len() as u64;
        let word = self.reply_commit.to_le_bytes();
        self.file.write_all_at(&word, REPLY_COMMIT).unwrap();
    }

    /// 200.
    pub fn accept(&mut self, frame: &Frame) {
        self.reply(&frame.answer(REPLY_ACCEPTED, 200));
    }

    /// 401 and the like.
    pub fn refuse(&mut self, frame: &Frame, code: u16) {
        self.reply(&frame.answer(REPLY_REFUSED, code));
    }

    /// Gives the room of a frame and of all before it back, and rings as the protocol has it.
    pub fn consume(&mut self, frame: &Frame) {
        self.file
            .write_all_at(&frame.end().to_le_bytes(), CONSUME)
            .unwrap();
        self.ring_if_due(false);
    }

    fn ring_if_due(&mut self, published: bool) {
        let ticket = self.word(DP_TICKET);
        let wanted = published || ticket & WANTS_ROOM != 0;
        if ticket & ASLEEP != 0 && wanted && ticket != self.last_rung {
            self.last_rung = ticket;
            self.reply_bell.ring().unwrap();
        }
    }

    /// Announces sleep with a new ticket, and says whether the bell rings within patience once
    /// `run` has run.
    pub fn rings_after(&mut self, run: impl FnOnce()) -> bool {
        self.request_bell.take().unwrap();
        let ticket = self.word(CP_TICKET);
        let asleep = (ticket | 3).wrapping_add(1) | ASLEEP;
        self.file
            .write_all_at(&asleep.to_le_bytes(), CP_TICKET)
            .unwrap();
        run();
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if self.request_bell.take().unwrap() > 0 {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }
}
