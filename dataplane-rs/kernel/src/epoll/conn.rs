//! What is known of one connection, and the orders that change it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::Epoll;
use super::poll::{EDGE, IN, OUT};
use crate::outbox::Outbox;
use crate::phases::ConnPhase;
use crate::tag::{Op, Tag};
use crate::{Close, ConnId, Errno, SendBuf, SendRefused, WhyRefused, sys};

pub(super) struct Conn {
    /// `None` from the moment it is closed.
    pub(super) socket: Option<OwnedFd>,
    pub(super) phase: ConnPhase,
    /// The sink (or the lingering) wants bytes.
    receiving: bool,
    /// The peer's end was seen: FIN or an error.
    pub(super) ended: bool,
    pub(super) outbox: Outbox,
    /// The kernel had no room for all of the outbox; readiness says when to go on.
    pub(super) blocked: bool,
    /// What epoll reports. It may be more than is wanted, until such an event comes.
    interest: u32,
    /// Waits in the queue of those with sends that are over.
    pub(super) telling: bool,
}

impl Conn {
    pub(super) fn wants_recv(&self) -> bool {
        self.receiving && !self.ended && self.phase != ConnPhase::Gone
    }

    /// The bits that stand for something to do.
    fn wanted(&self) -> u32 {
        let receive = if self.wants_recv() { IN } else { 0 };
        let send = if self.blocked { OUT } else { 0 };
        receive | send
    }
}

impl ConnId {
    fn tag(self) -> Tag {
        Tag {
            op: Op::Recv,
            generation: self.generation,
            index: self.index,
        }
    }
}

impl Epoll {
    pub(super) fn attach_socket(&mut self, socket: OwnedFd) -> Result<ConnId, OwnedFd> {
        let conn = Conn {
            socket: Some(socket),
            phase: ConnPhase::Open,
            receiving: true,
            ended: false,
            outbox: Outbox::default(),
            blocked: false,
            interest: IN,
            telling: false,
        };
        // A fresh Conn always holds its socket.
        let back = |conn: Conn| conn.socket.expect("just put there");
        let (index, generation) = self.conns.take(conn).map_err(back)?;
        let id = ConnId { index, generation };
        let added = self.socket_of(id).map(|fd| self.poll.add(fd, IN, id.tag()));
        if added == Some(Ok(())) {
            return Ok(id);
        }
        // No memory, or fs.epoll.max_user_watches reached: as good as no seat.
        let conn = self.conns.free(index, generation);
        Err(back(conn.expect("just seated")))
    }

    pub(super) fn conn(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.conns.at(id.index, id.generation)
    }

    pub(super) fn socket_of(&self, id: ConnId) -> Option<BorrowedFd<'_>> {
        let conn = self.conns.peek(id.index, id.generation)?;
        conn.socket.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn set_receiving(&mut self, id: ConnId, on: bool) {
        let Some(conn) = self.conns.at(id.index, id.generation) else {
            return;
        };
        if conn.phase == ConnPhase::Open {
            conn.receiving = on;
            self.ask_for_more(id);
        }
    }

    pub(super) fn queue_send(&mut self, id: ConnId, buf: SendBuf) -> Result<(), SendRefused> {
        let most = self.options.sends_max;
        match self.conns.at(id.index, id.generation) {
            Some(conn) if conn.phase == ConnPhase::Open => {
                conn.outbox.put(buf, most)?;
                if !conn.blocked {
                    self.write(id);
                }
                Ok(())
            }
            _ => Err(SendRefused {
                buf,
                why: WhyRefused::Closed,
            }),
        }
    }

    /// Gives the kernel what it takes of the outbox. A send that it took a part of is one that
    /// waits for room, so that one long answer does not hold up the others.
    pub(super) fn write(&mut self, id: ConnId) {
        let Some(conn) = self.conns.at(id.index, id.generation) else {
            return;
        };
        conn.blocked = false;
        while let (Some(socket), Some(rest)) = (&conn.socket, conn.outbox.rest()) {
            match sys::send(socket.as_fd(), rest) {
                Ok(bytes) if bytes > 0 => {
                    self.stats.bytes_out += bytes as u64;
                    conn.blocked = !conn.outbox.took(bytes);
                    self.stats.sends_short += u64::from(conn.blocked);
                }
                Err(Errno(libc::EINTR)) => {}
                Err(Errno(libc::EAGAIN)) => conn.blocked = true,
                // A send of something that takes nothing would be a kernel's bug.
                result => {
                    self.stats.sends_failed += 1;
                    conn.outbox.fail(result.err().unwrap_or(Errno(libc::EIO)));
                }
            }
            if conn.blocked {
                break;
            }
        }
        if conn.outbox.over() > 0 && !std::mem::replace(&mut conn.telling, true) {
            self.telling.push_back(id);
        }
        self.ask_for_more(id);
        self.advance_close(id);
    }

    /// Makes epoll report what is newly wanted.
    fn ask_for_more(&mut self, id: ConnId) {
        let Some(conn) = self.conn(id) else { return };
        let wanted = conn.wanted();
        if wanted & !conn.interest != 0 {
            self.set_interest(id, wanted);
        }
    }

    /// Makes epoll silent about what came in an event and is not wanted: it would come again in
    /// every turn.
    pub(super) fn ask_for_less(&mut self, id: ConnId, came: u32) {
        let Some(conn) = self.conn(id) else { return };
        let wanted = match conn.wanted() {
            0 => EDGE,
            wanted => wanted,
        };
        if came & !wanted != 0 && conn.interest != wanted {
            self.set_interest(id, wanted);
        }
    }

    fn set_interest(&mut self, id: ConnId, wanted: u32) {
        let Some(conn) = self.conns.at(id.index, id.generation) else {
            return;
        };
        let Some(socket) = &conn.socket else { return };
        conn.interest = wanted;
        let changed = self.poll.change(socket.as_fd(), wanted, id.tag());
        // It is registered, and changing that allocates nothing, so it cannot fail.
        debug_assert_eq!(changed, Ok(()));
    }

    pub(super) fn close_conn(&mut self, id: ConnId, how: Close) {
        let Some(conn) = self.conns.at(id.index, id.generation) else {
            return;
        };
        match (conn.phase, how) {
            (ConnPhase::Open, Close::Graceful) => {
                conn.phase = ConnPhase::Flushing;
                conn.receiving = true;
                self.ask_for_more(id);
                self.advance_close(id);
            }
            (
                ConnPhase::Open | ConnPhase::Flushing | ConnPhase::Lingering,
                Close::Now | Close::Abort,
            ) => self.tear(id, how),
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
            if let (false, Some(socket)) = (conn.ended, &conn.socket)
                && sys::shutdown_write(socket.as_fd()).is_err()
            {
                return self.tear(id, Close::Now); // Broken already; nobody to linger for.
            }
            conn.phase = ConnPhase::Lingering;
        }
        if conn.phase == ConnPhase::Lingering && conn.ended {
            self.tear(id, Close::Now);
        }
    }

    /// Closes the socket, which also ends its registration.
    fn tear(&mut self, id: ConnId, how: Close) {
        let Some(conn) = self.conns.at(id.index, id.generation) else {
            return;
        };
        if let (Close::Abort, Some(socket)) = (how, &conn.socket) {
            // Fails only on a socket that is broken already, which is what we want.
            drop(sys::set_linger_reset(socket.as_fd()));
        }
        conn.phase = ConnPhase::Gone;
        conn.blocked = false;
        conn.socket = None;
        self.gone.push_back(id);
    }
}
