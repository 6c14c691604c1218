//! What a worker does with each completion: connections come, speak, and go.

use crate::conn::{Conn, Origin, mapped};
use crate::transport::Transport;
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
        let Some(place) = self.listening.iter().find(|place| place.id == listener) else {
            return self.tally.worker().add_closed(1); // the backend's last word was its last
        };
        let (row, is_unix) = (place.row, place.is_unix);
        let peer = match sys::peer_addr(socket.as_fd()) {
            Ok(peer) => Some(peer),
            Err(_) if is_unix => None,
            Err(_) => return self.tally.worker().add_closed(1), // gone before it was looked at
        };
        let ip = peer.map(|peer| mapped(peer.ip()));
        // As many rows as sockets, or the config would have been refused.
        let transport = Transport::new(&self.config.listeners[row], ip);
        // A proxy has as many connections as those behind it.
        let own_ip = ip.filter(|_| !matches!(transport, Transport::Proxied { .. }));
        let counted = self.plane.count_in(&self.config, own_ip);
        let has_seat = counted.is_some() || self.turn_away(transport.has_tls());
        let socket = has_seat.then_some(socket);
        let Some(id) = socket.and_then(|socket| io.attach(socket).ok()) else {
            if counted.is_some() {
                self.tally.worker().add_refused_connections(1);
            }
            self.count_out(counted);
            return self.tally.worker().add_closed(1);
        };
        let number = self.next_number;
        self.next_number += 1;
        let origin = Origin {
            row,
            transport,
            peer,
            counted,
        };
        let mut conn = Box::new(Conn::new(id, number, origin, &self.config));
        let deadline_ns = self.first_deadline_ns(&conn);
        self.set_deadline(&mut conn, deadline_ns);
        if self.conns.len() <= id.index() {
            self.conns.resize_with(id.index() + 1, || None);
        }
        self.conns[id.index()] = Some(conn);
    }

    fn on_data<B: Backend>(&mut self, io: &mut B, conn: ConnId, data: &mut [u8]) {
        self.tally.worker().add_bytes_in(data.len() as u64);
        self.with_conn(io, conn.index(), |worker, io, conn| {
            worker.received(io, conn, data)
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
            self.count_out(conn.counted.take());
            self.tally.worker().add_closed(1);
        }
    }

    fn on_listener_closed<B: Backend>(
        &mut self,
        _io: &mut B,
        listener: ListenerId,
        broken: Option<Errno>,
    ) {
        self.listening.retain(|place| place.id != listener);
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
