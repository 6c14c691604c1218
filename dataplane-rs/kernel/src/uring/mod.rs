//! The backend on io_uring.
//!
//! One ring per worker with `SINGLE_ISSUER | DEFER_TASKRUN`: the kernel completes nothing behind
//! our back, everything happens inside [`Backend::turn`]. Multishot accepts, receives into provided
//! buffers one at a time, one multishot poll per watched eventfd. No SQPOLL, no direct descriptors,
//! no bundles, no incremental buffers: none of them paid, and the last two carry bugs in released
//! kernels.
//!
//! The one rule for multishot operations: use a completion's result first; then, if it lacks
//! `F_MORE` and the operation is still wanted, arm it again. Kernels end multishots for many
//! reasons (a full completion queue, no buffers, errors), some of them together with data.

mod buffers;
mod cause;
mod conn;
mod dispatch;
mod listener;
mod restrict;
mod ring;
mod stash;

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use io_uring::{cqueue, opcode, types};

pub(crate) use buffers::{Buffers, GROUP};
pub(crate) use ring::Ring;

use crate::caps::Missing;
use crate::seats::Seats;
use crate::shortage::Spare;
use crate::tag::{Op, Tag};
use crate::{
    Backend, Caps, Close, ConnId, Errno, Error, ListenerId, Options, SendBuf, SendRefused, Share,
    Sink, Stats, Wait, WakeId, sys,
};
use conn::Conn;
use listener::Listener;

/// How often `drop` waits (10 ms each) for the kernel to let go of our memory.
const LAST_WAITS_MAX: u32 = 200;

/// A worker's io_uring with everything on it. Make it on the worker's own thread; it cannot move
/// to another one:
///
/// ```compile_fail
/// fn moves<T: Send>() {}
/// moves::<sluice_kernel::Uring>();
/// ```
pub struct Uring {
    /// Memory that the kernel may write to or read from until the ring is quiet: dropped by hand.
    buffers: ManuallyDrop<Buffers>,
    conns: ManuallyDrop<Seats<Conn>>,
    ring: Ring,
    listeners: Seats<Listener>,
    wakes: Seats<Watched>,
    options: Options,
    caps: Caps,
    stats: Stats,
    boot_ns: u64,
    /// Bytes in the stashes of all connections.
    stashed: usize,
    spare: Spare,
    /// Receives to be armed when buffers are free: first those of who has received nothing since
    /// the last one was armed, then those of who has, and who could take every buffer every time.
    starved: [VecDeque<ConnId>; 2],
    resumed: VecDeque<ConnId>,
    /// Whose quiet send is not known to be over; and the same list, empty, for its memory.
    quiet_sends: Vec<ConnId>,
    quiet_spare: Vec<ConnId>,
    /// Something waits for a send that was ordered in this turn, so the next wait must not.
    is_hasty: bool,
    gone: VecDeque<ConnId>,
    listeners_gone: VecDeque<(ListenerId, Option<Errno>)>,
    /// Completions of the running turn; kept for its memory.
    batch: Vec<cqueue::Entry>,
}

/// A watched eventfd.
struct Watched {
    eventfd: OwnedFd,
    armed: bool,
    leaving: bool,
}

impl Uring {
    /// Makes the ring on this thread. `probed` is what [`crate::probe`] found: it decides which
    /// optional features are used.
    pub fn new(options: &Options, probed: &Caps) -> Result<Uring, Error> {
        options.check()?;
        let mut caps = probed.clone();
        let (ring, buffers) = make(options.clone(), &mut caps)?;
        caps.buffers = u32::from(buffers.count());
        caps.buffer_size = buffers.size();
        Ok(Uring {
            stashed: 0,
            buffers: ManuallyDrop::new(buffers),
            conns: ManuallyDrop::new(Seats::new(options.conns_max as usize)),
            ring,
            listeners: Seats::new(options.listeners_max as usize),
            wakes: Seats::new(options.wakes_max as usize),
            options: options.clone(),
            batch: Vec::with_capacity(caps.cq_entries as usize),
            caps,
            stats: Stats::default(),
            boot_ns: sys::boot_ns(),
            spare: Spare::new(),
            starved: Default::default(),
            resumed: VecDeque::new(),
            quiet_sends: Vec::new(),
            quiet_spare: Vec::new(),
            is_hasty: false,
            gone: VecDeque::new(),
            listeners_gone: VecDeque::new(),
        })
    }

    fn arm_wake(&mut self, id: WakeId) {
        let Some(wake) = self.wakes.at(id.index, id.generation) else {
            return;
        };
        wake.armed = true;
        let tag = Tag {
            op: Op::Wake,
            generation: id.generation,
            index: id.index,
        };
        let fd = types::Fd(wake.eventfd.as_raw_fd());
        let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32)
            .multi(true)
            .build();
        // SAFETY: the entry points to no memory.
        unsafe { self.ring.push(entry.user_data(tag.pack())) };
    }

    /// The wait that this turn can afford: not past the next accept to try again, and not at all
    /// if something is left to do.
    fn bounded(&mut self, wait: Wait) -> Wait {
        let retry_at = self.retry_accepts();
        let idle = !self.is_hasty
            && self.resumed.is_empty()
            && self.gone.is_empty()
            && self.listeners_gone.is_empty()
            && self.starved.iter().all(VecDeque::is_empty);
        match retry_at {
            _ if !idle => wait.only_look(),
            Some(at) => wait.not_past(at, sys::boot_ns()),
            None => wait,
        }
    }
}

/// A ring and its buffers, ready for this thread. If locked memory is enough for the one but not
/// for both, the ring gets smaller; if the ring cannot be restricted, it is made without.
fn make(mut options: Options, caps: &mut Caps) -> Result<(Ring, Buffers), Error> {
    loop {
        let ring = Ring::new(&options, caps).map_err(Error::Refused)?;
        let buffers = match Buffers::new(&ring, options.buffers, options.buffer_size) {
            Ok(buffers) => buffers,
            Err(Error::Refused(_)) if caps.sq_entries > ring::SQ_ENTRIES_MIN => {
                options.sq_entries = caps.sq_entries / 2;
                options.cq_entries = caps.cq_entries / 2;
                continue;
            }
            Err(error) => return Err(error),
        };
        caps.restricted = options.restrict && ring.restrict().is_ok();
        if caps.restricted == options.restrict {
            return Ok((ring, buffers));
        }
        options.restrict = false;
        caps.lacking.push(Missing {
            what: "restricted rings",
            since: "5.10",
        });
    }
}

impl Backend for Uring {
    fn listen(&mut self, socket: BorrowedFd<'_>, share: Share) -> Result<ListenerId, Error> {
        self.add_listener(socket, share)
    }

    fn accepting(&mut self, listener: ListenerId, on: bool) {
        self.set_accepting(listener, on);
    }

    fn unlisten(&mut self, listener: ListenerId) {
        self.drain_listener(listener);
    }

    fn attach(&mut self, socket: OwnedFd) -> Result<ConnId, OwnedFd> {
        self.attach_socket(socket)
    }

    fn recv(&mut self, conn: ConnId, on: bool) {
        self.set_receiving(conn, on);
    }

    fn send(&mut self, conn: ConnId, buf: SendBuf) -> Result<(), SendRefused> {
        self.queue_send(conn, buf)
    }

    fn close(&mut self, conn: ConnId, how: Close) {
        self.close_conn(conn, how);
    }

    fn socket(&self, conn: ConnId) -> Option<BorrowedFd<'_>> {
        self.conns
            .peek(conn.index, conn.generation)?
            .socket
            .as_ref()
            .map(|fd| fd.as_fd())
    }

    fn conns(&self) -> usize {
        self.conns.taken()
    }

    fn watch(&mut self, eventfd: BorrowedFd<'_>) -> Result<WakeId, Error> {
        let eventfd = eventfd
            .try_clone_to_owned()
            .map_err(|error| Error::io("duplicate an eventfd", &error))?;
        let capacity = self.wakes.capacity();
        let watched = Watched {
            eventfd,
            armed: false,
            leaving: false,
        };
        let (index, generation) = self.wakes.take(watched).map_err(|_| Error::TableFull {
            table: "watched eventfds",
            capacity,
        })?;
        let id = WakeId { index, generation };
        self.arm_wake(id);
        Ok(id)
    }

    fn unwatch(&mut self, wake: WakeId) {
        let Some(watched) = self.wakes.at(wake.index, wake.generation) else {
            return;
        };
        if std::mem::replace(&mut watched.leaving, true) {
            return;
        }
        let target = Tag {
            op: Op::Wake,
            generation: wake.generation,
            index: wake.index,
        };
        let tag = Tag {
            op: Op::CancelQuiet,
            ..target
        };
        // Not a poll-remove, which fails while an event is on its way.
        let cancel = types::CancelBuilder::user_data(target.pack());
        let entry = opcode::AsyncCancel2::new(cancel)
            .build()
            .user_data(tag.pack());
        // SAFETY: the entry points to no memory.
        unsafe { self.ring.push(entry) };
    }

    fn boot_ns(&self) -> u64 {
        self.boot_ns
    }

    fn turn<S: Sink>(&mut self, sink: &mut S, wait: Wait) -> Result<(), Error> {
        let wait = self.bounded(wait);
        self.ring.enter(wait)?;
        self.boot_ns = sys::boot_ns();
        self.stats.turns += 1;
        self.stats.cq_overflows += u64::from(self.ring.overflown());
        let mut batch = std::mem::take(&mut self.batch);
        self.ring.reap(&mut batch);
        self.stats.completions += batch.len() as u64;
        // Bytes lent to the sink stay mapped even if it puts another backend in our place.
        let lent = self.buffers.region();
        let quiet = self.quiet_over(&batch);
        sink.on_awake(self);
        self.deliver_quiet(sink, quiet);
        self.deliver_resumed(sink);
        for completion in &batch {
            self.dispatch(sink, completion);
        }
        self.deliver_gone(sink);
        batch.clear();
        self.batch = batch;
        self.buffers.publish();
        self.feed_starved();
        drop(lent);
        Ok(())
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }
}

impl Drop for Uring {
    /// Cancels everything and waits until the kernel has let go of our memory. A kernel that
    /// does not let go costs a leak, never a write into freed memory.
    fn drop(&mut self) {
        for round in 0..LAST_WAITS_MAX {
            if round % 8 == 0 {
                let entry = opcode::AsyncCancel2::new(types::CancelBuilder::any()).build();
                let tag = Tag {
                    op: Op::CancelQuiet,
                    generation: 0,
                    index: 0,
                };
                // SAFETY: the entry points to no memory.
                unsafe { self.ring.push(entry.user_data(tag.pack())) };
            }
            let entered = self.ring.enter(Wait::at_most(Duration::from_millis(10)));
            self.batch.clear();
            self.ring.reap(&mut self.batch);
            self.ring.took_all();
            for completion in &self.batch {
                let accepted = Tag::unpack(completion.user_data())
                    .is_some_and(|tag| tag.op == Op::Accept && completion.result() >= 0);
                if accepted {
                    // SAFETY: a connection that the kernel made for us; nobody else knows it.
                    drop(unsafe { OwnedFd::from_raw_fd(completion.result()) });
                }
            }
            if entered.is_err() || self.ring.in_flight() == 0 {
                break;
            }
        }
        if self.ring.in_flight() == 0 {
            // SAFETY: each is dropped once and not used again; the kernel has no claim on them.
            unsafe {
                ManuallyDrop::drop(&mut self.conns);
                ManuallyDrop::drop(&mut self.buffers);
            }
        }
    }
}
