//! The backend on epoll, for hosts where io_uring is not to be had.
//!
//! Level triggered: what is left unread or unaccepted is reported again by the next wait, behind
//! everything else that is ready, so each turn takes one bounded piece of each connection and none
//! can starve the others. Edge triggered, a piece would have to be followed by another receive just
//! to learn that nothing is left (urgent data and passed descriptors cut a receive short, so a
//! short one proves nothing), and a queue of our own would have to do the kernel's rotation. The
//! price is a change of the registration where readiness is not wanted: it is paid only when such
//! an event really comes. Eventfds alone are edge triggered, because nobody here empties them.
//!
//! A send is tried at once, inside the order; only what the kernel had no room for waits for its
//! readiness. Nothing is ever in flight, so a connection is closed in the moment of the order. All
//! receives share one buffer, which is the sink's during its call.

mod conn;
mod dispatch;
mod listener;
mod poll;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::caps::{Missing, Refusal};
use crate::seats::Seats;
use crate::shortage::Spare;
use crate::tag::{Op, Tag};
use crate::{
    Backend, Caps, Close, ConnId, Errno, Error, ListenerId, Options, SendBuf, SendRefused, Share,
    Sink, Stats, Wait, WakeId, sys,
};
use conn::Conn;
use listener::Listener;
use poll::{Event, Poll};

/// Events of one turn, at most; fewer with fewer [`Options::cq_entries`]. What does not fit comes
/// in the next one.
const EVENTS_MAX: usize = 1024;

/// Connections that one listener hands over in one turn, at most.
const ACCEPTS_MAX: usize = 64;

/// A worker's epoll instance with everything on it.
pub struct Epoll {
    poll: Poll,
    conns: Seats<Conn>,
    listeners: Seats<Listener>,
    wakes: Seats<OwnedFd>,
    options: Options,
    caps: Caps,
    stats: Stats,
    boot_ns: u64,
    spare: Spare,
    /// Who has sends that are over and not told.
    telling: VecDeque<ConnId>,
    gone: VecDeque<ConnId>,
    /// Shared listeners that were just taken out and get their last look.
    leaving: VecDeque<ListenerId>,
    listeners_gone: VecDeque<(ListenerId, Option<Errno>)>,
    /// Events of the running turn; kept for its memory.
    batch: Vec<Event>,
    /// Where everything is received. With the running turn while there is one.
    buffer: Option<Box<[u8]>>,
}

impl Epoll {
    /// Makes the instance. `refusal` says why it is not a [`crate::Uring`], for the report.
    pub fn new(options: &Options, refusal: Option<Refusal>) -> Result<Epoll, Error> {
        options.check()?;
        let mut poll = Poll::new(EVENTS_MAX.min(options.cq_entries as usize))?;
        let mut batch = Vec::new();
        // Shows whether this kernel knows the finer wait.
        poll.wait(&mut batch, Wait::none())?;
        let coarse = Missing {
            what: "waits finer than a millisecond",
            since: "5.11",
        };
        let caps = Caps {
            backend: "epoll",
            buffers: 1,
            buffer_size: options.buffer_size,
            kernel: sys::kernel_release(),
            lacking: poll.is_coarse().then_some(coarse).into_iter().collect(),
            refusal,
            ..Caps::default()
        };
        Ok(Epoll {
            poll,
            conns: Seats::new(options.conns_max as usize),
            listeners: Seats::new(options.listeners_max as usize),
            wakes: Seats::new(options.wakes_max as usize),
            options: options.clone(),
            caps,
            stats: Stats::default(),
            boot_ns: sys::boot_ns(),
            spare: Spare::new(),
            telling: VecDeque::new(),
            gone: VecDeque::new(),
            leaving: VecDeque::new(),
            listeners_gone: VecDeque::new(),
            batch,
            buffer: None,
        })
    }

    /// The wait that this turn can afford: not past the next accept to try again, and not at all
    /// if something is left to do.
    fn bounded(&mut self, wait: Wait) -> Wait {
        let retry_at = self.retry_accepts();
        let idle = self.telling.is_empty()
            && self.gone.is_empty()
            && self.leaving.is_empty()
            && self.listeners_gone.is_empty();
        match retry_at {
            _ if !idle => wait.only_look(),
            Some(at) => wait.not_past(at, sys::boot_ns()),
            None => wait,
        }
    }
}

impl Backend for Epoll {
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
        let (index, generation) = self.wakes.take(eventfd).map_err(|_| Error::TableFull {
            table: "watched eventfds",
            capacity,
        })?;
        let tag = Tag {
            op: Op::Wake,
            generation,
            index,
        };
        let eventfd = self.wakes.peek(index, generation).expect("just put there");
        // Every write is an edge, whether or not the count was taken in between.
        let bits = poll::IN | poll::EDGE;
        if let Err(errno) = self.poll.add(eventfd.as_fd(), bits, tag) {
            self.wakes.free(index, generation);
            return Err(Error::Syscall {
                call: "watch an eventfd with epoll_ctl",
                errno,
            });
        }
        Ok(WakeId { index, generation })
    }

    fn unwatch(&mut self, wake: WakeId) {
        if let Some(eventfd) = self.wakes.free(wake.index, wake.generation) {
            // By name: others hold the eventfd, so closing our descriptor would not end it.
            self.poll.remove(eventfd.as_fd());
        }
    }

    fn boot_ns(&self) -> u64 {
        self.boot_ns
    }

    fn turn<S: Sink>(&mut self, sink: &mut S, wait: Wait) -> Result<(), Error> {
        let wait = self.bounded(wait);
        let mut batch = std::mem::take(&mut self.batch);
        self.poll.wait(&mut batch, wait)?;
        self.boot_ns = sys::boot_ns();
        self.stats.turns += 1;
        self.stats.completions += batch.len() as u64;
        let size = self.options.buffer_size as usize;
        let buffer = self.buffer.take();
        let mut buffer = buffer.unwrap_or_else(|| vec![0; size].into_boxed_slice());
        sink.on_awake(self);
        self.tell_sent(sink);
        for event in &batch {
            self.dispatch(sink, event, &mut buffer);
        }
        self.take_last_looks(sink);
        self.tell_listeners_gone(sink);
        self.tell_sent(sink);
        self.tell_gone(sink);
        self.buffer = Some(buffer);
        self.batch = batch;
        Ok(())
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }
}
