//! What a worker does with each completion: connections come, speak, and go.

use crate::conn::{Conn, mapped};
use crate::limits;
use crate::worker::Worker;
use sluice_kernel::sys;
use sluice_kernel::{Backend, ConnId, Errno, ListenerId, SendBuf, Sink, WakeId};
use std::os::fd::{AsFd, OwnedFd};

impl Sink for Worker {
    fn on_awake<B: Backend>(&mut self, io: &mut B) {
        self.begin_turn(io);
    }

    fn on_accept<B: Backend>(&mut self, io: &mut B, listener: ListenerId, socket: OwnedFd) {
        self.tally.worker().add_accepted(1);
        let is_unix = self
            .listening
            .iter()
            .any(|&(id, is_unix)| id == listener && is_unix);
        let peer = match sys::peer_addr(socket.as_fd()) {
            Ok(peer) => Some(peer),
            Err(_) if is_unix => None,
            Err(_) => return self.tally.worker().add_closed(1), // gone before it was looked at
        };
        let ip = peer.map(|peer| mapped(peer.ip()));
        let Some(counted) = self.plane.count_in(&self.config, ip) else {
            self.tally.worker().add_refused_connections(1);
            return self.tally.worker().add_closed(1);
        };
        let id = match io.attach(socket) {
            Ok(id) => id,
            Err(_full) => {
                self.plane.count_out(counted);
                self.tally.worker().add_refused_connections(1);
                return self.tally.worker().add_closed(1);
            }
        };
        let number = self.next_number;
        self.next_number += 1;
        let mut conn = Box::new(Conn::new(id, number, peer, counted, &self.config));
        let quiet_ns = match self.draining {
            true => limits::DRAIN_QUIET_NS,
            false => self.config.idle_timeout_ns,
        };
        self.set_deadline(&mut conn, self.now_ns + quiet_ns);
        if self.conns.len() <= id.index() {
            self.conns.resize_with(id.index() + 1, || None);
        }
        self.conns[id.index()] = Some(conn);
    }

    fn on_data<B: Backend>(&mut self, io: &mut B, conn: ConnId, data: &mut [u8]) {
        self.tally.worker().add_bytes_in(data.len() as u64);
        self.with_conn(io, conn.index(), |worker, io, conn| {
            worker.data(io, conn, data)
        });
    }

    fn on_eof<B: Backend>(&mut self, io: &mut B, conn: ConnId, broken: Option<Errno>) {
        self.with_conn(io, conn.index(), |worker, io, conn| {
            worker.ended(io, conn, broken.is_some());
        });
    }

    fn on_sent<B: Backend>(
        &mut self,
        io: &mut B,
        conn: ConnId,
        buf: SendBuf,
        result: Result<(), Errno>,
    ) {
        self.with_conn(io, conn.index(), |worker, io, conn| {
            worker.sent(io, conn, buf, result)
        });
    }

    fn on_closed<B: Backend>(&mut self, _io: &mut B, conn: ConnId) {
        if let Some(mut conn) = self.conns.get_mut(conn.index()).and_then(Option::take) {
            self.clear_timer(&mut conn);
            self.abandon(&mut conn);
            self.memory.charge(&mut conn.charge, None, 0);
            self.plane.count_out(conn.counted);
            self.tally.worker().add_closed(1);
        }
    }

    fn on_listener_closed<B: Backend>(
        &mut self,
        _io: &mut B,
        listener: ListenerId,
        broken: Option<Errno>,
    ) {
        self.listening.retain(|&(id, _)| id != listener);
        if let Some(errno) = broken {
            self.fail(format!("a listening socket no longer accepts: {errno}"));
        }
    }

    fn on_wake<B: Backend>(&mut self, io: &mut B, wake: WakeId) {
        if Some(wake) == self.reply_wake {
            self.tally.worker().add_wakes(1);
            self.replies(io); // those that came between the start of this turn and its bell
            self.unrung_ns = None;
        } else if let Err(error) = self.take_config(io) {
            self.fail(error.to_string());
        }
    }
}
