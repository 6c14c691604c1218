//! What is known of one connection, and the orders that change it.
//!
//! A seat is freed only when none of its operations (receive, send, cancels) is in flight: the
//! kernel may still write completions for it, and may still read the rest of `outbox`.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use io_uring::{opcode, squeue, types};

use super::Uring;
use super::buffers::GROUP;
use super::stash::Stash;
use crate::outbox::Outbox;
use crate::phases::ConnPhase;
use crate::tag::{Op, Tag};
use crate::{Close, ConnId, Errno, SendBuf, SendRefused, WhyRefused, sys};

/// `IORING_RECVSEND_POLL_FIRST` of linux/io_uring.h, which the io-uring crate does not name.
const POLL_FIRST: u16 = 1;

/// Bytes of one send; the kernel's own limit is a little below 2^31 (MAX_RW_COUNT).
pub(super) const SEND_MAX: usize = 1 << 30;

pub(super) struct Conn {
    /// `None` from the moment it is closed.
    pub(super) socket: Option<OwnedFd>,
    pub(super) phase: ConnPhase,
    /// The sink (or the lingering) wants bytes.
    pub(super) receiving: bool,
    /// A receive is in flight.
    pub(super) armed: bool,
    /// Has received something since the receive was armed.
    pub(super) fed: bool,
    /// Had nothing more to receive when it received last.
    pub(super) drained: bool,
    /// Waits in the queue of those that found no buffer, or had their share.
    pub(super) starved: bool,
    /// Waits in the queue of those that receive again after a pause.
    pub(super) resumed: bool,
    /// Cancels in flight.
    pub(super) cancels: u8,
    /// A send of the rest of `outbox` is in flight.
    pub(super) sending: bool,
    /// It is a quiet one.
    pub(super) quiet: bool,
    pub(super) outbox: Outbox,
    /// Bytes that came while receiving was off.
    pub(super) stash: Stash,
    /// The peer's end, once seen: FIN or an error.
    pub(super) ended: Option<Option<Errno>>,
    /// The sink knows of the peer's end.
    pub(super) end_told: bool,
}

impl Conn {
    fn new(socket: OwnedFd) -> Conn {
        Conn {
            socket: Some(socket),
            phase: ConnPhase::Open,
            receiving: true,
            armed: false,
            fed: false,
            drained: false,
            starved: false,
            resumed: false,
            cancels: 0,
            sending: false,
            quiet: false,
            outbox: Outbox::default(),
            stash: Stash::default(),
            ended: None,
            end_told: false,
        }
    }

    pub(super) fn in_flight(&self) -> bool {
        self.armed || self.sending || self.cancels > 0
    }

    /// Whether a receive should be in flight and is not.
    pub(super) fn wants_recv(&self) -> bool {
        let open = !matches!(self.phase, ConnPhase::Tearing | ConnPhase::Gone);
        open && self.receiving && !self.armed && !self.starved && self.ended.is_none()
    }

    /// Whether the sink may be given bytes right now, in their order.
    pub(super) fn deliverable(&self) -> bool {
        self.phase == ConnPhase::Open && self.receiving && self.stash.is_empty()
    }

    fn fd(&self) -> Option<types::Fd> {
        self.socket
            .as_ref()
            .map(|socket| types::Fd(socket.as_raw_fd()))
    }
}

impl Uring {
    pub(super) fn attach_socket(&mut self, socket: OwnedFd) -> Result<ConnId, OwnedFd> {
        match self.conns.take(Conn::new(socket)) {
            Ok((index, generation)) => {
                let id = ConnId { index, generation };
                self.arm_recv(id);
                Ok(id)
            }
            // A fresh Conn always holds its socket.
            Err(conn) => Err(conn.socket.expect("just put there")),
        }
    }

    pub(super) fn conn(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.conns.at(id.index, id.generation)
    }

    /// Puts a receive in flight, of one buffer. A multishot receive would lose what comes while its
    /// wake-up is worked off, the peer's FIN above all, and hang (Linux before 7.0, "io_uring/poll:
    /// fix multishot recv missing EOF on wakeup race"); and when it is turned off it goes on for a
    /// while.
    ///
    /// Where the last one took all that was there it waits first, and does not try to receive in
    /// vain before (Linux 5.19; an older kernel is not served).
    pub(super) fn arm_recv(&mut self, id: ConnId) {
        let Some(conn) = self.conns.at(id.index, id.generation) else {
            return;
        };
        let Some(fd) = conn.fd() else { return };
        debug_assert!(!conn.armed);
        conn.armed = true;
        conn.fed = false;
        let tag = Tag {
            op: Op::Recv,
            generation: id.generation,
            index: id.index,
        };
        let entry = opcode::Recv::new(fd, std::ptr::null_mut(), self.buffers.size())
            .buf_group(GROUP)
            .ioprio(if conn.drained { POLL_FIRST } else { 0 })
            .build()
            .flags(squeue::Flags::BUFFER_SELECT);
        // SAFETY: the entry points to no memory; the buffers that the kernel picks outlive it.
        unsafe { self.ring.push(entry.user_data(tag.pack())) };
    }

    /// Cancels the receive only. By its own name, because a cancel of everything on the socket
    /// would hit a send, too; the caller asks again if the kernel did not find it.
    pub(super) fn cancel_recv(&mut self, id: ConnId) {
        let Some(conn) = self.conns.at(id.index, id.generation) else {
            return;
        };
        conn.cancels += 1;
        let target = Tag {
            op: Op::Recv,
            generation: id.generation,
            index: id.index,
        };
        let tag = Tag {
            op: Op::CancelRecv,
            ..target
        };
        let entry = opcode::AsyncCancel2::new(types::CancelBuilder::user_data(target.pack()))
            .build()
            .user_data(tag.pack());
        // SAFETY: the entry points to no memory.
        unsafe { self.ring.push(entry) };
    }

    /// Cancels everything on the socket. By descriptor, which finds a receive even
    /// while it runs.
    pub(super) fn cancel_all(&mut self, id: ConnId) {
        let Some(conn) = self.conns.at(id.index, id.generation) else {
            return;
        };
        let Some(fd) = conn.fd() else { return };
        conn.cancels += 1;
        let tag = Tag {
            op: Op::CancelAll,
            generation: id.generation,
            index: id.index,
        };
        let entry = opcode::AsyncCancel2::new(types::CancelBuilder::fd(fd).all())
            .build()
            .user_data(tag.pack());
        // SAFETY: the entry points to no memory.
        unsafe { self.ring.push(entry) };
    }

    pub(super) fn set_receiving(&mut self, id: ConnId, on: bool) {
        let Some(conn) = self.conns.at(id.index, id.generation) else {
            return;
        };
        if conn.phase != ConnPhase::Open || conn.receiving == on {
            return;
        }
        conn.receiving = on;
        if !on {
            if conn.armed && conn.cancels == 0 {
                self.cancel_recv(id);
            }
        } else if !conn.stash.is_empty() || (conn.ended.is_some() && !conn.end_told) {
            if !conn.resumed {
                conn.resumed = true;
                self.resumed.push_back(id);
            }
        } else if conn.wants_recv() {
            self.arm_recv(id);
        }
    }

    pub(super) fn queue_send(&mut self, id: ConnId, buf: SendBuf) -> Result<(), SendRefused> {
        let most = self.options.sends_max;
        match self.conns.at(id.index, id.generation) {
            Some(conn) if conn.phase == ConnPhase::Open => {
                conn.outbox.put(buf, most)?;
                match conn.sending {
                    true => self.is_hasty = true,
                    false => self.start_send(id, false),
                }
                Ok(())
            }
            _ => Err(SendRefused {
                buf,
                why: WhyRefused::Closed,
            }),
        }
    }

    /// Puts what is left of the oldest unfinished send in flight: at first one that does not wait
    /// in the kernel, and so is over when the turn's submission is, without a word; where the
    /// socket does not take it whole, one that waits.
    pub(super) fn start_send(&mut self, id: ConnId, may_wait: bool) {
        let Some(conn) = self.conns.at(id.index, id.generation) else {
            return;
        };
        let (Some(fd), Some(rest)) = (conn.fd(), conn.outbox.rest()) else {
            return;
        };
        debug_assert!(!conn.sending);
        let length = rest.len().min(SEND_MAX) as u32;
        let send = opcode::Send::new(fd, rest.as_ptr(), length);
        let (op, entry) = match may_wait {
            true => (Op::Send, send.flags(libc::MSG_NOSIGNAL)),
            // With MSG_WAITALL a send that goes in part has failed, and says so.
            false => (
                Op::QuietSend,
                send.flags(libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_WAITALL),
            ),
        };
        let tag = Tag {
            op,
            generation: id.generation,
            index: id.index,
        };
        let entry = entry.build().user_data(tag.pack());
        conn.sending = true;
        conn.quiet = !may_wait;
        // SAFETY: the bytes are static or on the heap, and stay where they are while `outbox`
        // owns them, which is at least until `sending` is cleared: by the completion, or, of a
        // quiet one, when the kernel has taken it and has said nothing.
        unsafe {
            match may_wait {
                true => self.ring.push(entry),
                false => {
                    self.quiet_sends.push(id);
                    self.ring.push_quiet(entry);
                }
            }
        }
    }

    pub(super) fn close_conn(&mut self, id: ConnId, how: Close) {
        let Some(conn) = self.conns.at(id.index, id.generation) else {
            return;
        };
        self.is_hasty |= conn.sending;
        match (conn.phase, how) {
            (ConnPhase::Open, Close::Graceful) => {
                conn.phase = ConnPhase::Flushing;
                conn.receiving = true;
                self.stashed -= std::mem::take(&mut conn.stash).bytes();
                if conn.wants_recv() {
                    self.arm_recv(id);
                }
                self.advance_close(id);
            }
            (
                ConnPhase::Open | ConnPhase::Flushing | ConnPhase::Lingering,
                Close::Now | Close::Abort,
            ) => {
                self.tear(id, how);
            }
            _ => {}
        }
    }

    /// Takes a graceful close one step further, if its time has come.
    pub(super) fn advance_close(&mut self, id: ConnId) {
        let Some(conn) = self.conns.at(id.index, id.generation) else {
            return;
        };
        if conn.phase == ConnPhase::Flushing {
            if conn.outbox.broken().is_some() {
                return self.tear(id, Close::Now);
            }
            if conn.outbox.rest().is_some() {
                return;
            }
            if conn.ended.is_none() {
                let fin = conn
                    .socket
                    .as_ref()
                    .map(|socket| sys::shutdown_write(socket.as_fd()));
                if fin.is_some_and(|result| result.is_err()) {
                    return self.tear(id, Close::Now); // Broken already; nobody to linger for.
                }
            }
            conn.phase = ConnPhase::Lingering;
        }
        if conn.phase == ConnPhase::Lingering && conn.ended.is_some() {
            self.tear(id, Close::Now);
        }
    }

    /// Begins the end: makes every operation in flight complete, then closes.
    ///
    /// Closing the descriptor first would not do: an armed receive holds the socket open, and no
    /// FIN would ever leave.
    fn tear(&mut self, id: ConnId, how: Close) {
        let Some(conn) = self.conns.at(id.index, id.generation) else {
            return;
        };
        conn.phase = ConnPhase::Tearing;
        let in_flight = conn.in_flight();
        if let Some(socket) = &conn.socket {
            // Both calls fail only on a socket that is broken already, which is what we want.
            // The shutdown alone would do, and so would the cancel below: kernels are known
            // whose cancel misses a multishot receive at work.
            match how {
                Close::Abort => drop(sys::set_linger_reset(socket.as_fd())),
                Close::Graceful | Close::Now if in_flight => {
                    drop(sys::shutdown_both(socket.as_fd()));
                }
                Close::Graceful | Close::Now => {}
            }
        }
        if in_flight {
            self.cancel_all(id);
        }
        self.settle(id);
    }

    /// Closes the socket of a torn connection when nothing is in flight any more.
    pub(super) fn settle(&mut self, id: ConnId) {
        let Some(conn) = self.conns.at(id.index, id.generation) else {
            return;
        };
        if conn.phase == ConnPhase::Tearing && !conn.in_flight() {
            conn.phase = ConnPhase::Gone;
            conn.socket = None;
            self.gone.push_back(id);
        }
    }
}
