//! From events to calls of the sink.
//!
//! After every call the connection is looked up again: the sink may have given any order to any
//! connection meanwhile. Seats of connections are freed only at the very end of a turn.

use super::Epoll;
use super::poll::{Event, IN, OUT};
use crate::phases::ConnPhase;
use crate::tag::Op;
use crate::{ConnId, Errno, ListenerId, Sink, WakeId, sys};

impl Epoll {
    pub(super) fn dispatch<S: Sink>(&mut self, sink: &mut S, event: &Event, buffer: &mut [u8]) {
        let tag = event.tag();
        let (index, generation) = (tag.index, tag.generation);
        match tag.op {
            Op::Accept => self.on_acceptable(sink, ListenerId { index, generation }),
            Op::Wake => self.on_wake(sink, WakeId { index, generation }),
            _ => self.on_ready(sink, ConnId { index, generation }, event.bits(), buffer),
        }
    }

    fn on_wake<S: Sink>(&mut self, sink: &mut S, id: WakeId) {
        // Else it is no longer watched, since an earlier callback of this turn.
        if self.wakes.peek(id.index, id.generation).is_some() {
            self.stats.wakes += 1;
            sink.on_wake(self, id);
        }
    }

    /// `bits` may hold errors and hang-ups, too. The calls that they stand for meet them.
    fn on_ready<S: Sink>(&mut self, sink: &mut S, id: ConnId, bits: u32, buffer: &mut [u8]) {
        let Some(conn) = self.conn(id) else {
            self.stats.stale += 1;
            return;
        };
        // First of all, for what is there to be heard even if the connection is broken.
        if bits & !OUT != 0 && conn.wants_recv() {
            self.receive(sink, id, buffer);
        }
        if bits & !IN != 0 && self.conn(id).is_some_and(|conn| conn.blocked) {
            self.write(id);
        }
        self.ask_for_less(id, bits);
    }

    /// Takes one piece, whatever may be left: others wait, too.
    fn receive<S: Sink>(&mut self, sink: &mut S, id: ConnId, buffer: &mut [u8]) {
        let Some(socket) = self.socket_of(id) else {
            return;
        };
        match sys::receive(socket, buffer) {
            Ok(0) => self.end(sink, id, None),
            Ok(length)
                if self
                    .conn(id)
                    .is_some_and(|conn| conn.phase == ConnPhase::Open) =>
            {
                self.stats.bytes_in += length as u64;
                sink.on_data(self, id, &mut buffer[..length]);
            }
            Ok(length) => self.stats.bytes_lingered += length as u64,
            Err(Errno(libc::EAGAIN | libc::EINTR)) => {}
            Err(errno) => self.end(sink, id, Some(errno)),
        }
    }

    fn end<S: Sink>(&mut self, sink: &mut S, id: ConnId, broken: Option<Errno>) {
        let Some(conn) = self.conn(id) else { return };
        conn.ended = true;
        let broken = broken.or(conn.outbox.broken());
        if conn.phase == ConnPhase::Open {
            sink.on_eof(self, id, broken);
        }
        self.advance_close(id);
    }

    /// Tells the sink of the sends that are over. Those that become so meanwhile are for the next
    /// time, or a sink that sends more in every call would never be done.
    pub(super) fn tell_sent<S: Sink>(&mut self, sink: &mut S) {
        for _ in 0..self.telling.len() {
            let Some(id) = self.telling.pop_front() else {
                return;
            };
            let Some(conn) = self.conn(id) else { continue };
            conn.telling = false;
            for _ in 0..conn.outbox.over() {
                self.tell_one_sent(sink, id);
            }
        }
    }

    fn tell_one_sent<S: Sink>(&mut self, sink: &mut S, id: ConnId) -> bool {
        let over = self.conn(id).and_then(|conn| conn.outbox.pop());
        let any = over.is_some();
        if let Some((buf, result)) = over {
            sink.on_sent(self, id, buf, result);
        }
        any
    }

    /// Tells the sink of the listeners that are over, and frees the seats. Those that become so
    /// meanwhile are for the next turn, after their last look.
    pub(super) fn tell_listeners_gone<S: Sink>(&mut self, sink: &mut S) {
        for _ in 0..self.listeners_gone.len() {
            let Some((id, broken)) = self.listeners_gone.pop_front() else {
                return;
            };
            self.listeners.free(id.index, id.generation);
            sink.on_listener_closed(self, id, broken);
        }
    }

    /// Tells the sink of the connections that are over, and frees the seats.
    pub(super) fn tell_gone<S: Sink>(&mut self, sink: &mut S) {
        while let Some(id) = self.gone.pop_front() {
            if let Some(conn) = self.conn(id) {
                conn.outbox.fail(Errno(libc::ECANCELED));
            }
            while self.tell_one_sent(sink, id) {}
            sink.on_closed(self, id);
            self.conns.free(id.index, id.generation);
            self.stats.closed += 1;
        }
    }
}
