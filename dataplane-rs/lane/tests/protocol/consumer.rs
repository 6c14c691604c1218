//! The control plane of a script: every rule of its side in plain sight.

use shm_abi::{DLine, LANE_MAGIC, LAYOUT_HASH, LINE_SIZE, PAGE_SIZE, PayloadHead, ReplyEntry};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What the lane's journal and boot ids hold in their first word.
pub const JOURNAL: u64 = 1;
pub const BOOT: u64 = 2;

const ASLEEP: u64 = 1;
const ROOM: u64 = 2;
const NEXT: u64 = 4;

const WORDS: [(&str, u64); 14] = [
    ("magic", 0),
    ("layout_hash", 8),
    ("boot_id", 16),
    ("journal_id", 32),
    ("request_capacity", 80),
    ("commit", 128),
    ("consume", 256),
    ("verified", 384),
    ("reply_commit", 512),
    ("reply_consume", 640),
    ("dp_ticket", 768),
    ("cp_ticket", 896),
    ("closed", 1024),
    ("retired", 1152),
];

pub fn id_of(word: u64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&word.to_le_bytes());
    id
}

pub fn body_of(seq: u32, size: usize) -> Vec<u8> {
    (0..size)
        .map(|i| ((seq as usize + i) % 251) as u8)
        .collect()
}

pub fn rings(due: bool) -> String {
    if due { "rings" } else { "quiet" }.into()
}

pub fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.into()
}

pub fn asleep(slept: bool, ticket: u64) -> String {
    let how = if slept { "asleep" } else { "stays awake" };
    format!("{how}, ticket {ticket}")
}

/// The lane's file, read and written past the mapping.
pub struct Peer {
    file: File,
    path: PathBuf,
    capacity: u64,
    reply_capacity: u64,
}

impl Peer {
    pub fn open(path: &Path, capacity: u64, reply_capacity: u64) -> Self {
        let file = File::options().read(true).write(true).open(path).unwrap();
        Peer {
            file,
            path: path.to_owned(),
            capacity,
            reply_capacity,
        }
    }

    /// A descriptor of its own, as another process has it.
    pub fn again(&self) -> Peer {
        Peer::open(&self.path, self.capacity, self.reply_capacity)
    }

    fn at(name: &str) -> u64 {
        WORDS
            .iter()
            .find(|(word, _)| *word == name)
            .expect("a word of the lane")
            .1
    }

    pub fn word(&self, name: &str) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, Self::at(name)).unwrap();
        u64::from_le_bytes(bytes)
    }

    pub fn store(&self, name: &str, value: u64) {
        self.file
            .write_all_at(&value.to_le_bytes(), Self::at(name))
            .unwrap();
    }

    pub fn words(&self) -> String {
        [
            "consume",
            "verified",
            "commit",
            "reply_consume",
            "reply_commit",
            "cp_ticket",
            "dp_ticket",
        ]
        .map(|name| format!("{name} {}", self.word(name)))
        .join(", ")
    }

    /// Bytes of the request ring, around its end if need be.
    pub fn ring(&self, position: u64, length: usize) -> Vec<u8> {
        let mut out = vec![0; length];
        for (n, byte) in out.iter_mut().enumerate() {
            let at = PAGE_SIZE + (position + n as u64) % self.capacity;
            self.file
                .read_exact_at(std::slice::from_mut(byte), at)
                .unwrap();
        }
        out
    }

    pub fn put(&self, position: u64, bytes: &[u8]) {
        for (n, byte) in bytes.iter().enumerate() {
            let at = PAGE_SIZE + (position + n as u64) % self.capacity;
            self.file
                .write_all_at(std::slice::from_ref(byte), at)
                .unwrap();
        }
    }

    fn put_reply(&self, position: u64, bytes: &[u8]) {
        let ring = PAGE_SIZE + self.capacity;
        for (n, byte) in bytes.iter().enumerate() {
            let at = ring + (position + n as u64) % self.reply_capacity;
            self.file
                .write_all_at(std::slice::from_ref(byte), at)
                .unwrap();
        }
    }
}

type Step<T> = Result<T, String>;

fn wrong(word: &str, value: u64) -> String {
    format!("wrong: {word} = {value:#x}\n")
}

/// One life of the control plane over one lane.
pub struct Consumer {
    peer: Peer,
    commit: u64,
    verified: u64,
    consume: u64,
    read_to: u64,
    reply_commit: u64,
    reply_consume: u64,
    refused_at: Option<u64>,
    ticket: u64,
    last_rung: u64,
    replied: bool,
    freed: bool,
}

impl Consumer {
    pub fn attach(peer: Peer) -> Step<(Consumer, String)> {
        let size = peer.file.metadata().unwrap().len();
        let capacity = peer.word("request_capacity");
        let said = match () {
            () if peer.word("magic") == 0 => "never finished",
            () if peer.word("magic") != LANE_MAGIC => "foreign",
            () if peer.word("layout_hash") != LAYOUT_HASH => "foreign",
            () if peer.word("boot_id") != BOOT => "another boot",
            () if peer.word("journal_id") != JOURNAL => "another journal",
            () if !capacity.is_power_of_two() => "foreign",
            () if PAGE_SIZE + capacity + peer.reply_capacity != size => "foreign",
            () => "",
        };
        if !said.is_empty() {
            return Err(format!("wrong: {said}"));
        }
        let (consume, verified) = (peer.word("consume"), peer.word("verified"));
        let commit = peer.word("commit");
        let lines = [consume, verified, commit]
            .iter()
            .all(|at| at.is_multiple_of(LINE_SIZE));
        if consume > verified || verified > commit || commit - consume > capacity || !lines {
            return Err("wrong: cursors".into());
        }
        let mut consumer = Consumer {
            commit: verified,
            verified,
            consume,
            read_to: verified,
            reply_commit: peer.word("reply_commit"),
            reply_consume: 0,
            refused_at: None,
            ticket: peer.word("cp_ticket") | (NEXT - 1),
            last_rung: 0,
            replied: false,
            freed: false,
            peer,
        };
        if !consumer.reply_commit.is_multiple_of(LINE_SIZE) {
            return Err(wrong("reply_commit", consumer.reply_commit));
        }
        consumer.reply_room()?;
        let commit = consumer.load_commit()?;
        let found = format!("consume {consume}, verified {verified}, commit {commit}");
        Ok((consumer, found + "; rings whatever the ticket says"))
    }

    pub fn play(&mut self, words: &[&str], numbers: &[u64], room: bool) -> String {
        let done = match (words[0], words.get(1).copied().unwrap_or_default()) {
            ("intake", _) => Ok(self.intake()),
            ("verify", _) => self.verify(numbers[0]),
            ("verdicts", _) => self.verdicts(),
            ("release", _) => self.release(numbers[0]),
            ("reply", _) => self.reply(numbers),
            ("turn", "consumer") => Ok(rings(self.turn())),
            ("sleep", "consumer") => Ok(self.sleep(room)),
            ("wake", "consumer") => {
                self.wake();
                Ok(format!("ticket {}", self.ticket))
            }
            ("retire", _) => {
                self.peer.store("retired", 1);
                Ok("ok".into())
            }
            ("closed?", _) => Ok(yes(self.peer.word("closed") != 0)),
            ("gone?", _) => Ok(yes(self.producer_is_gone())),
            _ => panic!("no command {words:?}"),
        };
        done.unwrap_or_else(|wrong| wrong)
    }

    fn load_commit(&mut self) -> Step<u64> {
        let commit = self.peer.word("commit");
        if commit < self.commit
            || commit - self.peer.word("consume") > self.peer.capacity
            || !commit.is_multiple_of(LINE_SIZE)
        {
            return Err(wrong("commit", commit));
        }
        self.commit = commit;
        Ok(commit)
    }

    /// The frame at a position: its D line, its bytes, the length of its body.
    fn frame(&self, position: u64, limit: u64) -> Step<(DLine, Vec<u8>)> {
        let bad = || format!("wrong: frame at {position}\n");
        let there = (limit - position) as usize;
        if there < 128 {
            return Err(bad());
        }
        let line = self.peer.ring(position, 64).try_into().expect("one line");
        let line = DLine::from_bytes(&line);
        let length = line.length as usize;
        if length < 128 || !length.is_multiple_of(64) || length > there {
            return Err(bad());
        }
        let bytes = self.peer.ring(position, length);
        if line.position != position || crc32c::crc32c(&bytes[128..]) != line.crc32c {
            return Err(bad());
        }
        Ok((line, bytes))
    }

    fn intake(&mut self) -> String {
        let commit = match self.load_commit() {
            Ok(commit) => commit,
            Err(wrong) => return wrong,
        };
        let mut out = String::new();
        self.read_to = self.read_to.max(self.verified);
        while self.read_to < commit {
            let (line, bytes) = match self.frame(self.read_to, commit) {
                Ok(frame) => frame,
                Err(wrong) => return out + &wrong,
            };
            let head = bytes[128..192].try_into().expect("one line");
            out += &format!(
                "frame {} at {}: {} bytes, body of {}, crc {:08x}\n",
                line.seq,
                self.read_to,
                line.length,
                PayloadHead::from_bytes(&head).body_length,
                line.crc32c
            );
            self.read_to += u64::from(line.length);
        }
        if out.is_empty() {
            "nothing".into()
        } else {
            out
        }
    }

    fn verify(&mut self, frames: u64) -> Step<String> {
        for _ in 0..frames {
            let (line, _) = self.frame(self.verified, self.read_to)?;
            // STATE of the C line: verified.
            self.peer.put(self.verified + 64, &1u16.to_le_bytes());
            self.verified += u64::from(line.length);
        }
        self.peer.store("verified", self.verified);
        Ok(format!("verified {}", self.verified))
    }

    fn verdicts(&mut self) -> Step<String> {
        let commit = self.load_commit()?;
        let (mut at, mut out) = (self.consume, String::new());
        while at < commit {
            let (line, bytes) = self.frame(at, commit)?;
            out += &match at < self.verified {
                true => format!("frame {}: state {}\n", line.seq, bytes[64]),
                false => format!("frame {}: not judged\n", line.seq),
            };
            at += u64::from(line.length);
        }
        Ok(out)
    }

    fn release(&mut self, frames: u64) -> Step<String> {
        for _ in 0..frames {
            let (line, _) = self.frame(self.consume, self.read_to)?;
            self.consume += u64::from(line.length);
        }
        self.peer.store("consume", self.consume);
        self.freed = true;
        Ok(format!("consume {}", self.consume))
    }

    fn reply_room(&mut self) -> Step<u64> {
        let consume = self.peer.word("reply_consume");
        let (commit, capacity) = (self.reply_commit, self.peer.reply_capacity);
        if consume < self.reply_consume || consume > commit || commit - consume > capacity {
            return Err(wrong("reply_consume", consume));
        }
        self.reply_consume = consume;
        Ok(capacity - (commit - consume))
    }

    fn reply(&mut self, numbers: &[u64]) -> Step<String> {
        let seq = numbers[0] as u32;
        let body = body_of(seq, numbers.get(2).copied().unwrap_or(0) as usize);
        let length = (64 + body.len() as u64).next_multiple_of(LINE_SIZE);
        if length > self.peer.reply_capacity / 4 {
            return Err("wrong: too large".into());
        }
        if self.reply_room()? < length {
            self.refused_at.get_or_insert(self.reply_consume);
            return Ok("no room".into());
        }
        let entry = ReplyEntry {
            length: length as u32,
            kind: if body.is_empty() { 1 } else { 5 },
            code: numbers[1] as u16,
            token: numbers[0],
            seq,
            body_length: body.len() as u32,
            ..ReplyEntry::default()
        };
        self.peer.put_reply(self.reply_commit, &entry.to_bytes());
        self.peer.put_reply(self.reply_commit + 64, &body);
        self.reply_commit += length;
        self.peer.store("reply_commit", self.reply_commit);
        self.replied = true;
        Ok(format!("reply_commit {}", self.reply_commit))
    }

    fn turn(&mut self) -> bool {
        let (published, freed) = (self.replied, self.freed);
        (self.replied, self.freed) = (false, false);
        let ticket = self.peer.word("dp_ticket");
        let wanted = published || (freed && ticket & ROOM != 0);
        if ticket & ASLEEP == 0 || !wanted || ticket == self.last_rung {
            return false;
        }
        self.last_rung = ticket;
        true
    }

    fn sleep(&mut self, room: bool) -> String {
        let refused_at = self.refused_at.take().unwrap_or(self.reply_consume);
        self.ticket = (self.ticket + NEXT) & !(NEXT - 1);
        let word = self.ticket | ASLEEP | if room { ROOM } else { 0 };
        self.peer.store("cp_ticket", word);
        if self.peer.word("commit") != self.read_to
            || (room && self.peer.word("reply_consume") != refused_at)
        {
            self.wake();
            return asleep(false, self.ticket);
        }
        asleep(true, word)
    }

    fn wake(&mut self) {
        self.ticket = (self.ticket + NEXT) & !(NEXT - 1);
        self.peer.store("cp_ticket", self.ticket);
    }

    fn producer_is_gone(&self) -> bool {
        // SAFETY: a plain call on our own descriptor.
        unsafe { libc::flock(self.peer.file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
    }
}
