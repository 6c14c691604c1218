//! From completions to calls of the sink.
//!
//! After every call the connection is looked up again: the sink may have given any order to any
//! connection meanwhile. Seats are freed only at the very end of a turn.

use io_uring::cqueue;

use super::conn::SEND_MAX;
use super::{Uring, ring};
use crate::phases::ConnPhase;
use crate::tag::{Op, Tag};
use crate::{ConnId, Errno, ListenerId, Sink, WakeId};

impl Uring {
    pub(super) fn dispatch<S: Sink>(&mut self, sink: &mut S, completion: &cqueue::Entry) {
        let (result, flags) = (completion.result(), completion.flags());
        let tag = Tag::unpack(completion.user_data()).expect("the kernel returns tags unchanged");
        let Tag {
            op,
            generation,
            index,
        } = tag;
        let conn = ConnId { index, generation };
        match op {
            Op::Accept => self.on_accept(sink, ListenerId { index, generation }, result, flags),
            Op::CancelAccept => self.accept_cancelled(ListenerId { index, generation }),
            Op::CancelAll => self.on_cancel_all(conn),
            Op::CancelQuiet => {}
            Op::CancelRecv => self.on_cancel_recv(conn, result),
            Op::QuietSend => self.on_send(sink, conn, result, true),
            Op::Recv => self.on_recv(sink, conn, result, flags),
            Op::Send => self.on_send(sink, conn, result, false),
            Op::Wake => self.on_wake(sink, WakeId { index, generation }, flags),
        }
    }

    fn on_accept<S: Sink>(&mut self, sink: &mut S, id: ListenerId, result: i32, flags: u32) {
        if let Some(socket) = self.accept_done(id, result, cqueue::more(flags)) {
            sink.on_accept(self, id, socket);
        }
    }

    fn on_recv<S: Sink>(&mut self, sink: &mut S, id: ConnId, result: i32, flags: u32) {
        let buffer = cqueue::buffer_select(flags);
        let more = cqueue::more(flags);
        match self.conn(id) {
            None => self.stats.stale += 1,
            Some(conn) => {
                conn.armed &= more;
                conn.fed |= result > 0;
                conn.drained = result > 0 && !cqueue::sock_nonempty(flags);
                if result > 0 {
                    let buffer = buffer.expect("data comes in a provided buffer");
                    self.on_bytes(sink, id, buffer, result as usize);
                    self.stats.recv_rearmed += u64::from(!more);
                } else if result == 0 {
                    let broken = conn.outbox.broken();
                    conn.ended.get_or_insert(broken);
                } else {
                    self.recv_failed(id, Errno(-result));
                }
            }
        }
        // Whoever it was for: the buffer goes back.
        if let Some(buffer) = buffer {
            self.buffers.give_back(buffer);
        }
        self.after_recv(sink, id);
    }

    fn on_bytes<S: Sink>(&mut self, sink: &mut S, id: ConnId, buffer: u16, length: usize) {
        // SAFETY: the buffer came with this completion and goes back after this call, and the
        // turn holds the region.
        let bytes = unsafe { self.buffers.filled(buffer, length) };
        let Some(conn) = self.conn(id) else { return };
        match conn.phase {
            ConnPhase::Open if conn.deliverable() => {
                self.stats.bytes_in += length as u64;
                sink.on_data(self, id, bytes);
            }
            ConnPhase::Open => self.set_aside(id, bytes),
            ConnPhase::Flushing | ConnPhase::Lingering | ConnPhase::Tearing | ConnPhase::Gone => {
                self.stats.bytes_lingered += length as u64;
            }
        }
    }

    /// Keeps bytes for a connection that does not receive at the moment. Where all of these take
    /// too much, it breaks: what is lost is what its peer sent ahead of its answers.
    fn set_aside(&mut self, id: ConnId, bytes: &[u8]) {
        let most = self.options.stash_max;
        let Some(conn) = self.conns.at(id.index, id.generation) else {
            return;
        };
        if conn.ended.is_some() {
            return;
        }
        if self.stashed + bytes.len() > most {
            conn.ended = Some(Some(Errno(libc::ENOBUFS)));
            return;
        }
        conn.stash.push(bytes);
        self.stashed += bytes.len();
        self.stats.bytes_stashed += bytes.len() as u64;
    }

    fn recv_failed(&mut self, id: ConnId, errno: Errno) {
        let Some(conn) = self.conns.at(id.index, id.generation) else {
            return;
        };
        match errno.0 {
            // Cancelled by us, or disturbed: armed again if still wanted.
            libc::EAGAIN | libc::ECANCELED | libc::EINTR => {}
            libc::ENOBUFS => {
                let were_all = self.buffers.ran_out();
                self.stats.recv_starved += u64::from(were_all);
                self.queue_for_buffer(id);
            }
            _ => drop(conn.ended.get_or_insert(Some(errno))),
        }
    }

    /// Whatever follows from a receive's completion: the end, the close, the next receive.
    fn after_recv<S: Sink>(&mut self, sink: &mut S, id: ConnId) {
        self.tell_end(sink, id);
        let Some(conn) = self.conn(id) else { return };
        match conn.phase {
            ConnPhase::Tearing => {
                // The receive goes on: the cancel has missed it.
                if conn.armed && conn.cancels == 0 {
                    self.cancel_all(id);
                }
                self.settle(id);
            }
            ConnPhase::Flushing | ConnPhase::Lingering if conn.ended.is_some() => {
                self.advance_close(id)
            }
            // The kernel has cut it short, and has others to serve.
            _ if conn.wants_recv() && conn.fed => self.queue_for_buffer(id),
            _ if conn.wants_recv() => self.arm_recv(id),
            // Paused, but the receive goes on: the cancel has missed it.
            _ if conn.armed && !conn.receiving && conn.cancels == 0 => self.cancel_recv(id),
            _ => {}
        }
    }

    /// Tells the sink of the peer's end, once everything before it was delivered.
    fn tell_end<S: Sink>(&mut self, sink: &mut S, id: ConnId) {
        let Some(conn) = self.conn(id) else { return };
        if let (Some(broken), false, true) = (conn.ended, conn.end_told, conn.deliverable()) {
            conn.end_told = true;
            sink.on_eof(self, id, broken);
        }
    }

    fn on_send<S: Sink>(&mut self, sink: &mut S, id: ConnId, result: i32, is_quiet: bool) {
        let Some(conn) = self.conn(id) else {
            self.stats.stale += 1;
            return;
        };
        conn.sending = false;
        conn.quiet = false;
        let torn = matches!(conn.phase, ConnPhase::Tearing | ConnPhase::Gone);
        if result > 0 {
            let whole = conn.outbox.took(result as usize);
            self.stats.bytes_out += result as u64;
            self.stats.sends_short += u64::from(!whole);
            if !torn {
                self.start_send(id, !whole);
            }
        } else if !torn && (result == -libc::EINTR || is_quiet && result == -libc::EAGAIN) {
            self.start_send(id, true);
        } else if !torn {
            // A send of something that takes nothing would be a kernel's bug; not a loop of ours.
            let errno = if result == 0 {
                Errno(libc::EIO)
            } else {
                Errno(-result)
            };
            conn.outbox.fail(errno);
            self.stats.sends_failed += 1;
        }
        self.tell_sent(sink, id);
        self.settle(id);
        self.advance_close(id);
    }

    /// Those with a quiet send that may be over. To be asked before anything is ordered in this
    /// turn.
    pub(super) fn quiet_over(&mut self, batch: &[cqueue::Entry]) -> Vec<ConnId> {
        if !self.ring.took_all() {
            self.is_hasty |= !self.quiet_sends.is_empty();
            return Vec::new();
        }
        self.is_hasty = false;
        for completion in batch.iter().filter(|completion| ring::is_quiet(completion)) {
            if let Some(tag) = Tag::unpack(completion.user_data())
                && let Some(conn) = self.conns.at(tag.index, tag.generation)
            {
                conn.quiet = false; // it has something to say
            }
        }
        let spare = std::mem::take(&mut self.quiet_spare);
        std::mem::replace(&mut self.quiet_sends, spare)
    }

    /// Books the quiet sends that have said nothing.
    pub(super) fn deliver_quiet<S: Sink>(&mut self, sink: &mut S, mut sends: Vec<ConnId>) {
        for id in sends.drain(..) {
            let conn = self.conns.peek(id.index, id.generation);
            if let Some(conn) = conn.filter(|conn| conn.quiet) {
                let sent = conn
                    .outbox
                    .rest()
                    .map_or(0, |rest| rest.len().min(SEND_MAX));
                self.on_send(sink, id, sent as i32, true);
            }
        }
        self.quiet_spare = sends;
    }

    /// Tells the sink of every send that is over.
    fn tell_sent<S: Sink>(&mut self, sink: &mut S, id: ConnId) {
        while let Some((buf, result)) = self.conn(id).and_then(|conn| conn.outbox.pop()) {
            sink.on_sent(self, id, buf, result);
        }
    }

    fn on_cancel_all(&mut self, id: ConnId) {
        let Some(conn) = self.conn(id) else {
            self.stats.stale += 1;
            return;
        };
        conn.cancels -= 1;
        self.settle(id);
    }

    fn on_cancel_recv(&mut self, id: ConnId, result: i32) {
        let Some(conn) = self.conn(id) else {
            self.stats.stale += 1;
            return;
        };
        conn.cancels -= 1;
        let missed = result < 0 && conn.armed && !conn.receiving && conn.phase == ConnPhase::Open;
        if missed && !conn.sending {
            self.cancel_all(id);
        }
        self.settle(id);
    }

    fn on_wake<S: Sink>(&mut self, sink: &mut S, id: WakeId, flags: u32) {
        let Some(wake) = self.wakes.at(id.index, id.generation) else {
            self.stats.stale += 1;
            return;
        };
        wake.armed &= cqueue::more(flags);
        if wake.leaving {
            if !wake.armed {
                self.wakes.free(id.index, id.generation);
            }
            return;
        }
        if !wake.armed {
            self.arm_wake(id);
        }
        self.stats.wakes += 1;
        sink.on_wake(self, id);
    }

    /// Delivers what was kept aside while receiving was off.
    pub(super) fn deliver_resumed<S: Sink>(&mut self, sink: &mut S) {
        // Those that are paused and resumed again meanwhile wait for the next turn.
        for _ in 0..self.resumed.len() {
            let Some(id) = self.resumed.pop_front() else {
                return;
            };
            let Some(conn) = self.conn(id) else { continue };
            conn.resumed = false;
            if conn.phase != ConnPhase::Open || !conn.receiving {
                continue;
            }
            // A piece at a time: the sink may turn receiving off again.
            while let Some(conn) = self.conns.at(id.index, id.generation)
                && conn.phase == ConnPhase::Open
                && conn.receiving
                && let Some(mut piece) = conn.stash.pop()
            {
                self.stashed -= piece.len();
                self.stats.bytes_in += piece.len() as u64;
                sink.on_data(self, id, &mut piece);
            }
            self.after_recv(sink, id);
        }
    }

    /// Tells the sink of everything that is over, and frees the seats.
    pub(super) fn deliver_gone<S: Sink>(&mut self, sink: &mut S) {
        while let Some(id) = self.gone.pop_front() {
            if let Some(conn) = self.conns.at(id.index, id.generation) {
                self.stashed -= std::mem::take(&mut conn.stash).bytes();
                conn.outbox.fail(Errno(libc::ECANCELED));
            }
            self.tell_sent(sink, id);
            sink.on_closed(self, id);
            self.conns.free(id.index, id.generation);
            self.stats.closed += 1;
        }
        while let Some((id, broken)) = self.listeners_gone.pop_front() {
            self.listeners.free(id.index, id.generation);
            sink.on_listener_closed(self, id, broken);
        }
    }

    fn queue_for_buffer(&mut self, id: ConnId) {
        let Some(conn) = self.conns.at(id.index, id.generation) else {
            return;
        };
        if !std::mem::replace(&mut conn.starved, true) {
            self.starved[usize::from(conn.fed)].push_back(id);
        }
    }

    /// Arms those that found no buffer, each kind in the order in which they came, and no more of
    /// them at a time than there are buffers. All buffers are free at the end of a turn.
    pub(super) fn feed_starved(&mut self) {
        for _ in 0..self.buffers.count() {
            let [first, then] = &mut self.starved;
            let Some(id) = first.pop_front().or_else(|| then.pop_front()) else {
                return;
            };
            let Some(conn) = self.conn(id) else { continue };
            conn.starved = false;
            if conn.wants_recv() {
                self.arm_recv(id);
            }
        }
    }
}
