//! Listening sockets: multishot accepts, pauses, drains, and what to do without descriptors.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use io_uring::{opcode, types};

use super::Uring;
use super::tag::{Op, Tag};
use crate::sys::EventFd;
use crate::{Errno, Error, ListenerId, Share, sys};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Accepting,
    Paused,
    /// Accepting is cancelled for good; what the kernel accepted before still arrives.
    Draining,
}

pub(super) struct Listener {
    socket: OwnedFd,
    share: Share,
    pub(super) phase: Phase,
    /// An accept is in flight.
    pub(super) armed: bool,
    /// Cancels in flight. They name the descriptor, which must not be another one's by then.
    cancels: u32,
    /// Why it ends, if not by order.
    broken: Option<Errno>,
    /// The sink is told, or will be before this turn ends.
    told: bool,
    /// Not armed before this time, because the last accept lacked something.
    retry_at: Option<u64>,
    /// Since when accepts have failed for lack of something, without a success between.
    lacking_since: Option<u64>,
    /// Multishot was refused on this socket.
    one_shot: bool,
}

/// What an accept's failure asks for.
enum Failure {
    /// Accept can never work on this socket (anew one-shot, if that was not tried).
    Hopeless,
    /// This connection is lost, the next may be fine.
    Once,
    /// Something is lacking, or nobody knows: not again at once.
    Lacking,
}

fn judge(errno: Errno) -> Failure {
    match errno.0 {
        libc::EBADF | libc::EINVAL | libc::ENOTSOCK | libc::EOPNOTSUPP => Failure::Hopeless,
        // accept(2): errors of the new connection, and of protocols that pass them on.
        libc::ECANCELED
        | libc::ECONNABORTED
        | libc::EHOSTDOWN
        | libc::EHOSTUNREACH
        | libc::EINTR
        | libc::ENETDOWN
        | libc::ENETUNREACH
        | libc::ENONET
        | libc::ENOPROTOOPT
        | libc::EPERM
        | libc::EPROTO => Failure::Once,
        _ => Failure::Lacking,
    }
}

impl Uring {
    pub(super) fn add_listener(
        &mut self,
        socket: BorrowedFd<'_>,
        share: Share,
    ) -> Result<ListenerId, Error> {
        let socket = socket
            .try_clone_to_owned()
            .map_err(|error| Error::io("duplicate a listening socket", &error))?;
        let listener = Listener {
            socket,
            share,
            phase: Phase::Accepting,
            armed: false,
            cancels: 0,
            broken: None,
            told: false,
            retry_at: None,
            lacking_since: None,
            one_shot: share == Share::Shared,
        };
        let capacity = self.listeners.capacity();
        let (index, generation) = self
            .listeners
            .take(listener)
            .map_err(|_| Error::TableFull {
                table: "listeners",
                capacity,
            })?;
        let id = ListenerId { index, generation };
        self.arm_accept(id);
        Ok(id)
    }

    /// Puts an accept in flight if the listener should have one.
    fn arm_accept(&mut self, id: ListenerId) {
        let Some(listener) = self.listeners.at(id.index, id.generation) else {
            return;
        };
        let due = listener.phase == Phase::Accepting && listener.retry_at.is_none();
        if listener.armed || !due {
            return;
        }
        listener.armed = true;
        let fd = types::Fd(listener.socket.as_raw_fd());
        // Without SOCK_NONBLOCK, for which a receive would fail instead of waiting.
        let flags = libc::SOCK_CLOEXEC;
        let entry = if listener.one_shot {
            let nowhere = std::ptr::null_mut();
            opcode::Accept::new(fd, nowhere, nowhere.cast())
                .flags(flags)
                .build()
        } else {
            opcode::AcceptMulti::new(fd).flags(flags).build()
        };
        let tag = Tag {
            op: Op::Accept,
            generation: id.generation,
            index: id.index,
        };
        // SAFETY: the entry points to no memory (no address is asked for).
        unsafe { self.ring.push(entry.user_data(tag.pack())) };
    }

    fn cancel_accept(&mut self, id: ListenerId) {
        let Some(listener) = self.listeners.at(id.index, id.generation) else {
            return;
        };
        listener.cancels += 1;
        let fd = types::Fd(listener.socket.as_raw_fd());
        let tag = Tag {
            op: Op::CancelAccept,
            generation: id.generation,
            index: id.index,
        };
        let entry = opcode::AsyncCancel2::new(types::CancelBuilder::fd(fd).all())
            .build()
            .user_data(tag.pack());
        // SAFETY: the entry points to no memory.
        unsafe { self.ring.push(entry) };
    }

    pub(super) fn set_accepting(&mut self, id: ListenerId, on: bool) {
        let Some(listener) = self.listeners.at(id.index, id.generation) else {
            return;
        };
        match (listener.phase, on) {
            (Phase::Accepting, false) => {
                listener.phase = Phase::Paused;
                if listener.armed {
                    self.cancel_accept(id);
                }
            }
            (Phase::Paused, true) => {
                listener.phase = Phase::Accepting;
                self.arm_accept(id);
            }
            _ => {}
        }
    }

    pub(super) fn drain_listener(&mut self, id: ListenerId) {
        let Some(listener) = self.listeners.at(id.index, id.generation) else {
            return;
        };
        if listener.phase == Phase::Draining {
            return;
        }
        listener.phase = Phase::Draining;
        if listener.armed {
            self.cancel_accept(id);
        }
        self.end_listener(id);
    }

    /// Books an accept's completion. A descriptor is the caller's from here on, whatever became
    /// of the listener: it is a connection off the queue.
    pub(super) fn accept_done(
        &mut self,
        id: ListenerId,
        result: i32,
        more: bool,
    ) -> Option<OwnedFd> {
        // SAFETY: the kernel made this descriptor for us; nobody else knows it.
        let socket = (result >= 0).then(|| unsafe { OwnedFd::from_raw_fd(result) });
        let Some(listener) = self.listeners.at(id.index, id.generation) else {
            self.stats.stale += 1;
            return None;
        };
        if !more {
            listener.armed = false;
        }
        if socket.is_some() {
            self.stats.accepted += 1;
            listener.lacking_since = None;
        } else {
            self.accept_failed(id, Errno(-result));
        }
        self.arm_accept(id);
        self.end_listener(id);
        socket
    }

    fn accept_failed(&mut self, id: ListenerId, errno: Errno) {
        let now = self.boot_ns;
        let Some(listener) = self.listeners.at(id.index, id.generation) else {
            return;
        };
        match judge(errno) {
            Failure::Once => {}
            Failure::Hopeless if !listener.one_shot => listener.one_shot = true,
            Failure::Hopeless => {
                if listener.phase != Phase::Draining {
                    listener.phase = Phase::Draining;
                    listener.broken = Some(errno);
                }
            }
            Failure::Lacking => {
                self.stats.accept_paused += 1;
                listener.retry_at = Some(now + self.options.fd_retry.as_nanos() as u64);
                let since = *listener.lacking_since.get_or_insert(now);
                if now - since >= self.options.fd_patience.as_nanos() as u64 {
                    self.refuse_one(id);
                }
            }
        }
    }

    pub(super) fn accept_cancelled(&mut self, id: ListenerId) {
        let Some(listener) = self.listeners.at(id.index, id.generation) else {
            self.stats.stale += 1;
            return;
        };
        listener.cancels -= 1;
        self.end_listener(id);
    }

    /// Ends a draining listener once the kernel knows nothing of it any more.
    fn end_listener(&mut self, id: ListenerId) {
        let Some(listener) = self.listeners.at(id.index, id.generation) else {
            return;
        };
        let idle = !listener.armed && listener.cancels == 0;
        if listener.phase == Phase::Draining && idle && !listener.told {
            listener.told = true;
            self.listeners_gone.push_back((id, listener.broken));
        }
    }

    /// Accepts one waiting connection on the spare descriptor and resets it, so that its sender
    /// learns at once what it would otherwise learn from its own timeout.
    fn refuse_one(&mut self, id: ListenerId) {
        let Some(listener) = self.listeners.at(id.index, id.generation) else {
            return;
        };
        // On a shared socket another worker may be faster, and then accept would block.
        if listener.share == Share::Shared || self.spare.take().is_none() {
            return;
        }
        let fd = listener.socket.as_raw_fd();
        let mut poll = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid pollfd; a timeout of 0 only looks.
        let waiting = unsafe { libc::poll(&mut poll, 1, 0) } == 1;
        if waiting {
            let nowhere = std::ptr::null_mut();
            // SAFETY: no address is asked for.
            let fd = unsafe { libc::accept4(fd, nowhere, nowhere.cast(), libc::SOCK_CLOEXEC) };
            if fd >= 0 {
                // SAFETY: just made, and nobody else knows it.
                let socket = unsafe { OwnedFd::from_raw_fd(fd) };
                drop(sys::set_linger_reset(socket.as_fd()));
                self.stats.accept_refused += 1;
            }
        }
        self.spare = spare_descriptor();
    }

    /// Arms the accepts whose time has come. Says when the next one is due.
    pub(super) fn retry_accepts(&mut self) -> Option<u64> {
        let now = self.boot_ns;
        let mut next: Option<u64> = None;
        let mut due = Vec::new();
        for (index, generation, listener) in self.listeners.iter_mut() {
            match listener.retry_at {
                Some(at) if at <= now => {
                    listener.retry_at = None;
                    due.push(ListenerId { index, generation });
                }
                Some(at) => next = Some(next.map_or(at, |next| next.min(at))),
                None => {}
            }
        }
        for id in due {
            self.arm_accept(id);
        }
        next
    }
}

/// A descriptor kept only to be given up when none is left. `None` when there is none already.
pub(super) fn spare_descriptor() -> Option<OwnedFd> {
    EventFd::new().ok().map(EventFd::into_fd)
}
