//! Listening sockets: who accepts, how much at a time, and what to do without descriptors.
//!
//! On a shared socket one waiting worker is woken for each connection (`EPOLLEXCLUSIVE`), always
//! the one that registered first. So each takes one connection and registers anew, behind the
//! others. And who stops accepting looks once more, for the wake-up that it may have been given
//! belongs to a connection that nobody else was told of.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::poll::{EXCLUSIVE, IN};
use super::{ACCEPTS_MAX, Epoll};
use crate::phases::ListenerPhase;
use crate::shortage::{self, Failure, Shortage, judge};
use crate::tag::{Op, Tag};
use crate::{Errno, Error, ListenerId, Share, Sink, sys};

pub(super) struct Listener {
    socket: OwnedFd,
    share: Share,
    phase: ListenerPhase,
    /// epoll reports it.
    registered: bool,
    shortage: Shortage,
}

impl Epoll {
    pub(super) fn add_listener(
        &mut self,
        socket: BorrowedFd<'_>,
        share: Share,
    ) -> Result<ListenerId, Error> {
        let socket = socket
            .try_clone_to_owned()
            .map_err(|error| Error::io("duplicate a listening socket", &error))?;
        // Another process (or worker) that shares it may be faster.
        sys::set_nonblocking(socket.as_fd())?;
        let listens = sys::must_listen(socket.as_fd());
        let listener = Listener {
            socket,
            share,
            phase: ListenerPhase::Accepting,
            registered: false,
            shortage: Shortage::default(),
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
        match listens {
            Ok(()) => self.register(id),
            Err(errno) => self.break_listener(id, errno),
        }
        Ok(id)
    }

    fn listener(&mut self, id: ListenerId) -> Option<&mut Listener> {
        self.listeners.at(id.index, id.generation)
    }

    /// Has it reported, if it should be.
    fn register(&mut self, id: ListenerId) {
        let Some(listener) = self.listeners.at(id.index, id.generation) else {
            return;
        };
        let due = listener.phase == ListenerPhase::Accepting && !listener.shortage.waits();
        if listener.registered || !due {
            return;
        }
        let tag = Tag {
            op: Op::Accept,
            generation: id.generation,
            index: id.index,
        };
        let bits = match listener.share {
            Share::Exclusive => IN,
            Share::Shared => IN | EXCLUSIVE,
        };
        match self.poll.add(listener.socket.as_fd(), bits, tag) {
            Ok(()) => listener.registered = true,
            // No memory, or fs.epoll.max_user_watches reached: like any other lack.
            Err(errno) => self.accept_failed(id, errno),
        }
    }

    fn deregister(&mut self, id: ListenerId) {
        let Some(listener) = self.listeners.at(id.index, id.generation) else {
            return;
        };
        if std::mem::replace(&mut listener.registered, false) {
            self.poll.remove(listener.socket.as_fd());
        }
    }

    pub(super) fn set_accepting(&mut self, id: ListenerId, on: bool) {
        let Some(listener) = self.listener(id) else {
            return;
        };
        match (listener.phase, on) {
            (ListenerPhase::Accepting, false) => {
                listener.phase = ListenerPhase::Paused;
                self.leave(id);
            }
            (ListenerPhase::Paused, true) => {
                listener.phase = ListenerPhase::Accepting;
                self.register(id);
            }
            _ => {}
        }
    }

    pub(super) fn drain_listener(&mut self, id: ListenerId) {
        let Some(listener) = self.listener(id) else {
            return;
        };
        if listener.phase != ListenerPhase::Draining {
            listener.phase = ListenerPhase::Draining;
            self.leave(id);
            self.listeners_gone.push_back((id, None));
        }
    }

    fn break_listener(&mut self, id: ListenerId, errno: Errno) {
        let Some(listener) = self.listener(id) else {
            return;
        };
        if listener.phase != ListenerPhase::Draining {
            listener.phase = ListenerPhase::Draining;
            self.deregister(id);
            self.listeners_gone.push_back((id, Some(errno)));
        }
    }

    /// Stops accepting, but for the last look at a shared socket.
    fn leave(&mut self, id: ListenerId) {
        let Some(listener) = self.listener(id) else {
            return;
        };
        if listener.registered && listener.share == Share::Shared {
            self.leaving.push_back(id);
        }
        self.deregister(id);
    }

    pub(super) fn take_last_looks<S: Sink>(&mut self, sink: &mut S) {
        while let Some(id) = self.leaving.pop_front() {
            self.accept_one(sink, id);
        }
    }

    pub(super) fn on_acceptable<S: Sink>(&mut self, sink: &mut S, id: ListenerId) {
        let most = match self.listener(id) {
            None => return, // Closed by an earlier callback of this turn.
            Some(listener) if listener.share == Share::Shared => 1,
            Some(_) => ACCEPTS_MAX.min(self.options.cq_entries as usize),
        };
        let accepts = |listener: &mut Listener| listener.phase == ListenerPhase::Accepting;
        for _ in 0..most {
            if !self.listener(id).is_some_and(accepts) || !self.accept_one(sink, id) {
                break;
            }
        }
        if self
            .listener(id)
            .is_some_and(|listener| listener.share == Share::Shared)
        {
            self.deregister(id);
            self.register(id);
        }
    }

    /// Says whether another try may succeed.
    fn accept_one<S: Sink>(&mut self, sink: &mut S, id: ListenerId) -> bool {
        let Some(listener) = self.listeners.at(id.index, id.generation) else {
            return false;
        };
        match sys::accept(listener.socket.as_fd()) {
            Ok(socket) => {
                listener.shortage.over();
                self.stats.accepted += 1;
                sink.on_accept(self, id, socket);
                true
            }
            Err(Errno(libc::EAGAIN)) => false,
            Err(errno) => {
                self.accept_failed(id, errno);
                judge(errno) == Failure::Once
            }
        }
    }

    fn accept_failed(&mut self, id: ListenerId, errno: Errno) {
        let now = self.boot_ns;
        match judge(errno) {
            Failure::Once => {}
            Failure::Hopeless => self.break_listener(id, errno),
            Failure::Lacking => {
                self.stats.accept_paused += 1;
                self.deregister(id);
                let Some(listener) = self.listeners.at(id.index, id.generation) else {
                    return;
                };
                if listener.shortage.met(now, &self.options) {
                    let refused = self.spare.refuse_one(listener.socket.as_fd());
                    self.stats.accept_refused += u64::from(refused);
                }
            }
        }
    }

    /// Registers again those whose wait for descriptors is over. Says when the next one ends.
    pub(super) fn retry_accepts(&mut self) -> Option<u64> {
        let waits = self.listeners.iter_mut();
        let waits = waits.map(|(index, generation, listener)| {
            (ListenerId { index, generation }, &mut listener.shortage)
        });
        let (due, next) = shortage::retries(self.boot_ns, waits);
        for id in due {
            self.register(id);
        }
        next
    }
}
