//! The two rings of a lane.

use crate::doorbell::{Ringer, Sleeper, Words};
use crate::error::{Error, Result};
use crate::frame::FrameParts;
use crate::map::{Mapping, take_pages};
use shm_abi::{LANE_MAGIC, LAYOUT_HASH, LINE_SIZE, LaneHeader, PAGE_SIZE, ReplyEntry};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const PAGE: usize = PAGE_SIZE as usize;

/// What a new lane is.
#[derive(Clone, Debug)]
pub struct LaneOptions {
    /// The directory that holds the lane files; on tmpfs.
    pub dir: PathBuf,
    /// The journal that the lane feeds.
    pub journal_id: [u8; 16],
    /// This boot of the host.
    pub boot_id: [u8; 16],
    /// Random; names the lane for good.
    pub lane_id: [u8; 16],
    /// Which data plane makes it.
    pub generation: u32,
    /// Which of its workers.
    pub worker: u32,
    /// Bytes of the request ring: a power of two, at least a page.
    pub request_capacity: u64,
    /// Bytes of the reply ring: likewise.
    pub reply_capacity: u64,
    /// Keep the pages in memory where RLIMIT_MEMLOCK allows it.
    pub lock_memory: bool,
}

/// One reply, borrowed from the ring until the next call.
#[derive(Debug)]
pub struct Reply<'a> {
    /// The entry itself, loaded once.
    pub entry: ReplyEntry,
    /// Header lines of an inline reply.
    pub head: &'a [u8],
    /// Body of an inline reply.
    pub body: &'a [u8],
}

/// A lane that this process produces into.
///
/// Owned by one worker thread. Dropping it unmaps it and gives the lock back, which tells the
/// control plane that nobody waits for replies any more; the file stays.
pub struct Lane {
    map: Mapping,
    _file: File,
    path: PathBuf,
    locked: bool,
    request_capacity: u64,
    reply_capacity: u64,
    commit: u64,
    consume: u64,
    reply_consume: u64,
    reply_stored: u64,
    /// `consume` at the first refusal since the last sleep; before the next it must be the same.
    refused_at: Option<u64>,
    ringer: Ringer,
    sleeper: Sleeper,
    asleep: bool,
    /// For the frame that is being written.
    scratch: Vec<u8>,
}

impl Lane {
    /// Makes the file, takes its lock for life and maps it; the magic is written last.
    pub fn create(options: &LaneOptions) -> Result<Lane> {
        for (what, value) in [
            ("request ring", options.request_capacity),
            ("reply ring", options.reply_capacity),
        ] {
            if !value.is_power_of_two() || !(PAGE_SIZE..=1 << 40).contains(&value) {
                return Err(Error::BadSize { what, value });
            }
        }
        let name: String = options.lane_id.iter().map(|b| format!("{b:02x}")).collect();
        let path = options.dir.join(name);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|source| Error::Kernel {
                doing: "create a lane file",
                source,
            })?;
        Self::lay_out(file, &path, options).inspect_err(|_| {
            let _ = std::fs::remove_file(&path); // nobody takes it for a lane: it has no magic
        })
    }

    fn lay_out(file: File, path: &Path, options: &LaneOptions) -> Result<Lane> {
        lock(&file)?;
        let size = PAGE_SIZE + options.request_capacity + options.reply_capacity;
        take_pages(&file, size, "take the lane's memory on tmpfs")?;
        let map = Mapping::of_parts(
            &file,
            &[
                (0, PAGE, 1),
                (PAGE_SIZE, options.request_capacity as usize, 2),
                (
                    PAGE_SIZE + options.request_capacity,
                    options.reply_capacity as usize,
                    2,
                ),
            ],
        )?;
        map.populate();
        let locked = options.lock_memory && map.lock();
        let lane = Lane {
            map,
            _file: file,
            path: path.to_owned(),
            locked,
            request_capacity: options.request_capacity,
            reply_capacity: options.reply_capacity,
            commit: 0,
            consume: 0,
            reply_consume: 0,
            reply_stored: 0,
            refused_at: None,
            ringer: Ringer::default(),
            sleeper: Sleeper::above(0),
            asleep: false,
            scratch: Vec::new(),
        };
        let header = lane.header();
        header.store_layout_hash(LAYOUT_HASH);
        header.store_boot_id(options.boot_id);
        header.store_journal_id(options.journal_id);
        header.store_lane_id(options.lane_id);
        header.store_generation(options.generation);
        header.store_pid(std::process::id());
        header.store_worker(options.worker);
        header.store_version(1);
        header.store_request_capacity(options.request_capacity);
        header.store_reply_capacity(options.reply_capacity);
        header.store_magic(LANE_MAGIC);
        Ok(lane)
    }

    /// The lane's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the pages are locked in memory.
    pub fn memory_locked(&self) -> bool {
        self.locked
    }

    fn header(&self) -> &LaneHeader {
        // SAFETY: the mapping starts with one page of LaneHeader and all its fields are atomics.
        unsafe { &*self.map.at(0).cast::<LaneHeader>() }
    }

    /// Bytes of the request ring.
    pub fn capacity(&self) -> u64 {
        self.request_capacity
    }

    /// Where the next frame will begin.
    pub fn position(&self) -> u64 {
        self.commit
    }

    /// Bytes that lie in the request ring and are not given back yet.
    pub fn used(&mut self) -> Result<u64> {
        let consume = self.header().consume();
        if consume < self.consume || consume > self.commit {
            return Err(Error::Corrupt {
                word: "consume",
                value: consume,
            });
        }
        self.consume = consume;
        Ok(self.commit - consume)
    }

    /// Copies a request into the ring and commits it. `None`: there is no room now. The doorbell is
    /// for the end of the turn: see `end_turn`.
    pub fn publish(&mut self, parts: &FrameParts<'_>) -> Result<Option<u64>> {
        let size = parts.size() as u64;
        if self.used()? + size > self.request_capacity {
            self.refused_at.get_or_insert(self.consume);
            return Ok(None);
        }
        let position = self.commit;
        let at = PAGE + (position & (self.request_capacity - 1)) as usize;
        // SAFETY: [at, at + size) lies in the double mapping because size <= capacity; bytes past
        // `commit` are read by nobody and no reference covers them.
        unsafe { parts.write(self.map.at(at), position, &mut self.scratch) };
        self.commit = position + size;
        self.header().store_commit(self.commit);
        Ok(Some(position))
    }

    /// The next reply, if there is one. Its bytes stay until `reply_done`.
    pub fn next_reply(&mut self) -> Result<Option<Reply<'_>>> {
        let commit = self.header().reply_commit();
        let there = commit.wrapping_sub(self.reply_consume);
        if there > self.reply_capacity || !commit.is_multiple_of(LINE_SIZE) {
            return Err(Error::Corrupt {
                word: "reply_commit",
                value: commit,
            });
        }
        if there == 0 {
            return Ok(None);
        }
        let ring = PAGE + 2 * self.request_capacity as usize;
        let at = ring + (self.reply_consume & (self.reply_capacity - 1)) as usize;
        let mut line = [0; size_of::<ReplyEntry>()];
        // SAFETY: `there` >= 64 bytes lie at `at` in the double mapping, published by reply_commit.
        unsafe { std::ptr::copy_nonoverlapping(self.map.at(at), line.as_mut_ptr(), line.len()) };
        let entry = ReplyEntry::from_bytes(&line);
        let length = u64::from(entry.length);
        let (head, body) = (entry.head_length as usize, entry.body_length as usize);
        if length < LINE_SIZE
            || !length.is_multiple_of(LINE_SIZE)
            || length > there
            || head as u64 + body as u64 + LINE_SIZE > length
        {
            return Err(Error::Corrupt {
                word: "reply length",
                value: length,
            });
        }
        // SAFETY: checked above to lie inside the entry, which the control plane does not touch
        // again before reply_consume passes it; that is stored by `end_turn` only, which needs
        // `&mut self` and so ends the borrow.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.map.at(at).add(line.len()).cast_const(), head + body)
        };
        let (head, body) = bytes.split_at(head);
        Ok(Some(Reply { entry, head, body }))
    }

    /// Steps over the reply that `next_reply` gave.
    pub fn reply_done(&mut self, length: u32) {
        self.reply_consume += u64::from(length);
    }

    /// Ends a turn: gives the room of the replies stepped over back, and says whether the control
    /// plane's eventfd must be written now. `published`: frames were committed in this turn.
    pub fn end_turn(&mut self, published: bool) -> bool {
        let freed = self.reply_consume != self.reply_stored;
        if freed {
            self.header().store_reply_consume(self.reply_consume);
            self.reply_stored = self.reply_consume;
        }
        // SAFETY: as in `header`; a borrow of its own, so that the ringer can be borrowed too.
        let header = unsafe { &*self.map.at(0).cast::<LaneHeader>() };
        self.ringer.due(&Header(header), published, freed)
    }

    /// Announces sleep; true when the worker may block. `wants_room`: a request waits for the ring
    /// since `publish` refused it. Room that came after that refusal keeps the worker awake, even
    /// if `used` or another `publish` has seen it since.
    pub fn sleep(&mut self, wants_room: bool) -> bool {
        // SAFETY: as in `end_turn`.
        let header = unsafe { &*self.map.at(0).cast::<LaneHeader>() };
        let refused_at = self.refused_at.take().unwrap_or(self.consume);
        let room = wants_room.then_some(refused_at);
        self.asleep = self
            .sleeper
            .sleep(&Header(header), self.reply_consume, room);
        self.asleep
    }

    /// Ends the sleep; call it after every wait.
    pub fn wake(&mut self) {
        if self.asleep {
            self.asleep = false;
            // SAFETY: as in `end_turn`.
            let header = unsafe { &*self.map.at(0).cast::<LaneHeader>() };
            self.sleeper.wake(&Header(header));
        }
    }

    /// True once the control plane gave this lane up.
    pub fn retired(&self) -> bool {
        self.header().retired() != 0
    }

    /// Says that nothing more will come. The lock goes with the lane itself.
    pub fn close(&mut self) {
        self.header().store_closed(1);
    }
}

/// The words of this side of the doorbell.
struct Header<'a>(&'a LaneHeader);

impl Words for Header<'_> {
    fn peer_ticket(&self) -> u64 {
        self.0.cp_ticket()
    }

    fn store_ticket(&self, ticket: u64) {
        self.0.store_dp_ticket(ticket);
    }

    fn published(&self) -> u64 {
        self.0.reply_commit()
    }

    fn room(&self) -> u64 {
        self.0.consume()
    }
}

/// Takes the lock that the kernel gives back at death, however it comes.
fn lock(file: &File) -> Result<()> {
    // SAFETY: a plain call on our own descriptor (std opens with CLOEXEC).
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        return Err(Error::kernel("lock the lane file"));
    }
    Ok(())
}
