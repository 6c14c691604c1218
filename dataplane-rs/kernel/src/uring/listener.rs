//! Listening sockets: multishot accepts, pauses, drains, and what to do without descriptors.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use io_uring::{opcode, types};

use super::Uring;
use crate::phases::ListenerPhase;
use crate::shortage::{self, Failure, Shortage, judge};
use crate::tag::{Op, Tag};
use crate::{Errno, Error, ListenerId, Share, sys};

pub(super) struct Listener {
    socket: OwnedFd,
    pub(super) phase: ListenerPhase,
    /// An accept is in flight.
    pub(super) armed: bool,
    /// Cancels in flight. They name the descriptor, which must not be another one's by then.
    cancels: u32,
    /// Why it ends, if not by order.
    broken: Option<Errno>,
    /// The sink is told, or will be before this turn ends.
    told: bool,
    shortage: Shortage,
    /// Multishot was refused on this socket.
    one_shot: bool,
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
        // For the accept that refuses: another process may have been faster.
        sys::set_nonblocking(socket.as_fd())?;
        let listener = Listener {
            socket,
            phase: ListenerPhase::Accepting,
            armed: false,
            cancels: 0,
            broken: None,
            told: false,
            shortage: Shortage::default(),
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
        let due = listener.phase == ListenerPhase::Accepting && !listener.shortage.waits();
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
            (ListenerPhase::Accepting, false) => {
                listener.phase = ListenerPhase::Paused;
                if listener.armed {
                    self.cancel_accept(id);
                }
            }
            (ListenerPhase::Paused, true) => {
                listener.phase = ListenerPhase::Accepting;
                self.arm_accept(id);
            }
            _ => {}
        }
    }

    pub(super) fn drain_listener(&mut self, id: ListenerId) {
        let Some(listener) = self.listeners.at(id.index, id.generation) else {
            return;
        };
        if listener.phase == ListenerPhase::Draining {
            return;
        }
        listener.phase = ListenerPhase::Draining;
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
            listener.shortage.over();
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
                if listener.phase != ListenerPhase::Draining {
                    listener.phase = ListenerPhase::Draining;
                    listener.broken = Some(errno);
                }
            }
            Failure::Lacking => {
                self.stats.accept_paused += 1;
                if listener.shortage.met(now, &self.options) {
                    let refused = self.spare.refuse_one(listener.socket.as_fd());
                    self.stats.accept_refused += u64::from(refused);
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
        if listener.phase == ListenerPhase::Draining && idle && !listener.told {
            listener.told = true;
            self.listeners_gone.push_back((id, listener.broken));
        }
    }

    /// Arms the accepts whose time has come. Says when the next one is due.
    pub(super) fn retry_accepts(&mut self) -> Option<u64> {
        let waits = self
            .listeners
            .iter_mut()
            .map(|(index, generation, listener)| {
                (ListenerId { index, generation }, &mut listener.shortage)
            });
        let (due, next) = shortage::retries(self.boot_ns, waits);
        for id in due {
            self.arm_accept(id);
        }
        next
    }
}
