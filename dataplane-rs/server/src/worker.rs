//! One worker thread: its connections, its lane, its turn.
//!
//! The order of a turn is part of the protocol: replies, then timers, then new work, then doorbells.
//! A reply that lies in the ring so beats a budget that ends in the same turn.

use crate::config::Config;
use crate::conn::Conn;
use crate::limits;
use crate::plane::{Plane, Slots};
use crate::tally::{ShedReason, Tally};
use shm_abi::LINE_SIZE;
use sluice_core::admission::{Admission, Grant, Jitter, Numbers};
use sluice_core::answers;
use sluice_core::http1::Fields;
use sluice_core::limits::EXPIRE_INTERVAL_NS;
use sluice_core::timers::Wheel;
use sluice_kernel::sys::{self, EventFd};
use sluice_kernel::{
    Backend, Close, ConnId, Errno, ListenerId, SendBuf, Share, Sink, Wait, WakeId,
};
use sluice_lane::{HeaderSpan, Lane};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// What a worker is made of.
pub struct Parts {
    pub index: usize,
    pub plane: Arc<Plane>,
    pub lane: Lane,
    /// One listening socket per address.
    pub sockets: Vec<OwnedFd>,
    /// Rung by us when the control plane is to look.
    pub request_bell: EventFd,
    /// Rung by the control plane when there are replies or room.
    pub reply_bell: EventFd,
    pub seed: u64,
}

/// A frame in the lane and the slot that it holds.
struct InLane {
    from: u64,
    to: u64,
    slot_given: bool,
}

/// One worker. It is the sink of its backend's completions.
pub struct Worker {
    pub(crate) index: usize,
    pub(crate) plane: Arc<Plane>,
    pub(crate) lane: Lane,
    pub(crate) config: Arc<Config>,
    pub(crate) conns: Vec<Option<Box<Conn>>>,
    pub(crate) fields: Fields,
    pub(crate) spans: Vec<HeaderSpan>,
    pub(crate) admission: Admission,
    pub(crate) numbers: Numbers,
    pub(crate) wheel: Wheel,
    pub(crate) jitter: Jitter,
    pub(crate) tally: Tally,
    pub(crate) now_ns: u64,
    pub(crate) published: bool,
    /// Bytes kept for requests that are not whole or wait.
    pub(crate) kept: usize,
    /// Connections whose request has a slot and waits for room in the lane, by token.
    pub(crate) lane_waiting: VecDeque<u64>,
    pub(crate) draining: bool,
    in_lane: VecDeque<InLane>,
    buffers: Vec<Vec<u8>>,
    date: [u8; 29],
    date_s: u64,
    next_number: u64,
    sockets: Vec<OwnedFd>,
    listening: Vec<(ListenerId, bool)>,
    request_bell: EventFd,
    reply_bell: EventFd,
    reply_wake: Option<WakeId>,
    bell_heard: bool,
    slept_at_ns: Option<u64>,
    late_replies: bool,
    expire_at_ns: u64,
    cut_at_ns: u64,
    failed: bool,
}

impl Worker {
    pub fn new(parts: Parts, seats: usize) -> Worker {
        let now_ns = sys::boot_ns();
        let tally = Tally::new(parts.plane.counters.clone(), parts.index);
        Worker {
            index: parts.index,
            config: parts.plane.config(),
            plane: parts.plane,
            lane: parts.lane,
            conns: Vec::new(),
            fields: Fields::new(),
            spans: Vec::new(),
            admission: Admission::new(sluice_core::limits::HELD_MAX),
            numbers: Numbers::default(),
            wheel: Wheel::new(seats + 64, now_ns),
            jitter: Jitter::new(parts.seed),
            tally,
            now_ns,
            published: false,
            kept: 0,
            lane_waiting: VecDeque::new(),
            draining: false,
            in_lane: VecDeque::new(),
            buffers: Vec::new(),
            date: answers::http_date(0),
            date_s: 0,
            next_number: 1,
            sockets: parts.sockets,
            listening: Vec::new(),
            request_bell: parts.request_bell,
            reply_bell: parts.reply_bell,
            reply_wake: None,
            bell_heard: false,
            slept_at_ns: None,
            late_replies: false,
            expire_at_ns: 0,
            cut_at_ns: 0,
            failed: false,
        }
    }

    /// Turns until the plane has drained.
    pub fn run<B: Backend>(&mut self, io: &mut B) -> Result<(), sluice_kernel::Error> {
        self.reply_wake = Some(io.watch(self.reply_bell.as_fd())?);
        io.watch(self.plane.poke(self.index).as_fd())?;
        self.take_config(io)?;
        loop {
            let wait = self.prepare_wait();
            io.turn(self, wait)?;
            self.end_turn(io);
            if self.draining && self.listening.is_empty() && io.conns() == 0 {
                self.lane.close();
                return Ok(());
            }
        }
    }

    /// How long the next turn may wait; takes a sleep ticket when it may.
    fn prepare_wait(&mut self) -> Wait {
        self.bell_heard = false;
        self.late_replies = false;
        if !self.lane.sleep(!self.lane_waiting.is_empty()) {
            self.slept_at_ns = None;
            return Wait::none();
        }
        self.slept_at_ns = Some(self.now_ns);
        let mut until_ns = self.now_ns + limits::SLEEP_NS_MAX;
        if let Some(due_ns) = self.wheel.next_ns() {
            until_ns = until_ns.min(due_ns);
        }
        if self.admission.held() > 0 {
            until_ns = until_ns.min(self.expire_at_ns);
        }
        if self.draining {
            until_ns = until_ns.min(self.cut_at_ns);
        }
        Wait::at_most(Duration::from_nanos(until_ns.saturating_sub(self.now_ns)))
    }

    /// New numbers, once a turn.
    fn read_numbers(&mut self) {
        let page = self.plane.control.page();
        let defaults = Numbers::default();
        self.numbers = match page.limit() {
            0 => defaults, // the page is new: nothing was published yet
            limit => Numbers {
                limit,
                floor_slots: page.floor_slots(),
                max_held: page.max_held(),
                hold_budget_ns: page.hold_budget_ns(),
                hold_bound_ns: page.hold_bound_ns(),
                overloaded: page.overloaded(),
                service_time_ns: page.service_time_ns(),
                low_share_milli: page.low_share_milli(),
            },
        };
    }

    /// Takes up the config in force; the first one starts accepting.
    fn take_config<B: Backend>(&mut self, io: &mut B) -> Result<(), sluice_kernel::Error> {
        self.config = self.plane.config();
        if self.config.version == 0 || self.draining {
            return Ok(());
        }
        if self.listening.is_empty() {
            for socket in &self.sockets {
                let is_unix = sys::local_addr(socket.as_fd()).is_err();
                let listener = io.listen(socket.as_fd(), Share::Exclusive)?;
                self.listening.push((listener, is_unix));
            }
        }
        self.plane.set_accepting(self.index, self.config.version);
        Ok(())
    }

    /// Everything between the last completion and the next wait.
    fn end_turn<B: Backend>(&mut self, io: &mut B) {
        if self.late_replies && !self.bell_heard {
            self.tally.worker().add_belt_wakes(1);
        }
        self.give_consumed_slots();
        self.retry_lane_waiting(io);
        self.grant(io);
        if self.admission.held() > 0 && self.now_ns >= self.expire_at_ns {
            self.expire(io);
        }
        self.drain(io);
        let published = std::mem::take(&mut self.published);
        if self.lane.end_turn(published) {
            self.tally.worker().add_rings(1);
            if let Err(error) = self.request_bell.ring() {
                self.plane.report("error", format!("ring the control plane: {error}"));
            }
        }
        self.tally.worker().add_turns(1);
        if self.lane.retired() && !self.failed {
            self.fail("the control plane gave the lane up".into());
        }
        if self.index == 0 {
            self.plane.counters.header().store_dp_beat(self.now_ns);
        }
    }

    /// Drains the reply ring.
    fn replies<B: Backend>(&mut self, io: &mut B) {
        let asleep_ns = self.slept_at_ns.map_or(0, |at| self.now_ns.saturating_sub(at));
        loop {
            let mut out = self.buffer();
            let (entry, answered) = match self.lane.next_reply() {
                Ok(None) => {
                    self.keep_buffer(out);
                    return;
                }
                Err(error) => {
                    self.fail(error.to_string());
                    return;
                }
                Ok(Some(reply)) => {
                    let seat = crate::conn::seat_of(reply.entry.token);
                    let conn = self.conns.get(seat).and_then(Option::as_ref);
                    let wait = conn.and_then(|conn| conn.awaits(&reply.entry));
                    if let Some(wait) = &wait {
                        let keep_alive = wait.keep_alive && !self.draining;
                        let manner = answers::Manner {
                            keep_alive,
                            head_only: wait.head_only,
                            date: Some(&self.date),
                        };
                        crate::answer::write(&mut out, &reply, &manner);
                    }
                    (reply.entry, wait.map(|wait| (seat, wait)))
                }
            };
            if asleep_ns >= limits::SLEEP_NS_MAX {
                self.late_replies = true;
            }
            self.lane.reply_done(entry.length);
            self.give_slot(entry.position);
            self.tally.worker().add_replies(1);
            let Some((seat, wait)) = answered else {
                self.tally.worker().add_late_replies(1);
                self.keep_buffer(out);
                continue;
            };
            self.tally.answered(wait.slot, entry.code);
            let took_ns = sys::wall_ns().saturating_sub(wait.received_ns);
            self.tally.acknowledged(wait.slot, took_ns);
            self.with_conn(io, seat, |worker, io, conn| {
                worker.send(io, conn, out, wait.keep_alive && !worker.draining);
                worker.resume(io, conn);
            });
        }
    }

    fn timers<B: Backend>(&mut self, io: &mut B) {
        while let Some(token) = self.wheel.pop(self.now_ns) {
            self.with_token(io, token, |worker, io, conn| {
                conn.timer = None;
                worker.timed_out(io, conn);
                worker.resume(io, conn);
            });
        }
    }

    /// Gives a frame's slot back with its reply.
    fn give_slot(&mut self, position: u64) {
        if let Ok(at) = self.in_lane.binary_search_by_key(&position, |frame| frame.from)
            && !self.in_lane[at].slot_given
        {
            self.in_lane[at].slot_given = true;
            self.admission.release(&mut Slots(&self.plane));
        }
    }

    /// Frames that were given back have lost their slot whatever became of their reply.
    fn give_consumed_slots(&mut self) {
        let used = match self.lane.used() {
            Ok(used) => used,
            Err(error) => return self.fail(error.to_string()),
        };
        let consumed = self.lane.position() - used;
        while let Some(frame) = self.in_lane.front()
            && frame.to <= consumed
        {
            if !frame.slot_given {
                self.admission.release(&mut Slots(&self.plane));
            }
            self.in_lane.pop_front();
        }
        let pause = used * 1000 / self.lane.capacity() >= limits::LANE_PAUSE_MILLI;
        self.admission.pause_ring(pause, &mut Slots(&self.plane));
    }

    /// A frame went into the lane; it holds a slot.
    pub(crate) fn frame_published(&mut self, position: u64) {
        let to = self.lane.position();
        debug_assert_eq!(to % LINE_SIZE, 0);
        self.in_lane.push_back(InLane { from: position, to, slot_given: false });
        self.published = true;
        self.tally.worker().add_frames(1);
        self.tally.worker().add_frame_bytes(to - position);
    }

    fn retry_lane_waiting<B: Backend>(&mut self, io: &mut B) {
        for _ in 0..self.lane_waiting.len() {
            let Some(token) = self.lane_waiting.pop_front() else { return };
            let before = self.lane_waiting.len();
            self.with_token(io, token, |worker, io, conn| worker.room_again(io, conn));
            if self.lane_waiting.len() > before {
                // It is still too large for what is free; first come, first served.
                if let Some(token) = self.lane_waiting.pop_back() {
                    self.lane_waiting.push_front(token);
                }
                return;
            }
        }
    }

    fn grant<B: Backend>(&mut self, io: &mut B) {
        loop {
            match self.admission.grant(self.now_ns, &self.numbers, &mut Slots(&self.plane)) {
                Grant::Idle => return,
                Grant::Elsewhere => return self.plane.poke_all(Some(self.index)),
                Grant::Admit(waiter) => {
                    let found = self.with_token(io, waiter.token, |worker, io, conn| {
                        worker.granted(io, conn, waiter.since_ns);
                    });
                    if !found {
                        self.admission.release(&mut Slots(&self.plane));
                    }
                }
                Grant::Shed(waiter, _) => {
                    self.with_token(io, waiter.token, |worker, io, conn| {
                        worker.held_in_vain(io, conn, ShedReason::Hold);
                    });
                }
            }
        }
    }

    fn expire<B: Backend>(&mut self, io: &mut B) {
        self.expire_at_ns = self.now_ns + EXPIRE_INTERVAL_NS;
        let mut spent = Vec::new();
        let plane = self.plane.clone();
        self.admission.expire(self.now_ns, &self.numbers, &mut Slots(&plane), |waiter| {
            spent.push(waiter.token);
        });
        for token in spent {
            self.with_token(io, token, |worker, io, conn| {
                worker.held_in_vain(io, conn, ShedReason::Hold);
            });
        }
    }

    /// Takes a drain up, and cuts what is left at its end.
    fn drain<B: Backend>(&mut self, io: &mut B) {
        let Some(cut_at_ns) = self.plane.draining() else { return };
        self.cut_at_ns = cut_at_ns;
        if !self.draining {
            self.draining = true;
            self.plane.set_accepting(self.index, 0);
            for (listener, _) in &self.listening {
                io.unlisten(*listener);
            }
            let quiet_ns = self.now_ns + limits::DRAIN_QUIET_NS;
            self.for_each_conn(io, |worker, _, conn| {
                if conn.is_idle() {
                    worker.set_timer(conn, quiet_ns);
                }
            });
        }
        if self.now_ns >= cut_at_ns {
            self.for_each_conn(io, |worker, io, conn| worker.leave(io, conn, Close::Abort));
            self.cut_at_ns = self.now_ns + limits::SLEEP_NS_MAX;
        }
    }

    /// Gives the whole plane up: this lane can no longer be believed.
    pub(crate) fn fail(&mut self, why: String) {
        if !self.failed {
            self.failed = true;
            self.plane.fail(format!("worker {}: {why}", self.index), self.now_ns);
        }
    }

    /// Whether new requests are refused.
    pub(crate) fn is_stopping(&self) -> bool {
        self.draining || self.failed || self.plane.control.page().stopping() != 0
    }

    fn for_each_conn<B: Backend>(
        &mut self,
        io: &mut B,
        mut each: impl FnMut(&mut Worker, &mut B, &mut Conn),
    ) {
        for seat in 0..self.conns.len() {
            self.with_conn(io, seat, &mut each);
        }
    }

    /// Runs with the connection of a seat taken out of the table, so that all of the worker can be
    /// used beside it.
    pub(crate) fn with_conn<B: Backend>(
        &mut self,
        io: &mut B,
        seat: usize,
        run: impl FnOnce(&mut Worker, &mut B, &mut Conn),
    ) -> bool {
        let Some(mut conn) = self.conns.get_mut(seat).and_then(Option::take) else {
            return false;
        };
        let before = conn.kept();
        run(self, io, &mut conn);
        self.kept = self.kept + conn.kept() - before;
        self.conns[seat] = Some(conn);
        true
    }

    fn with_token<B: Backend>(
        &mut self,
        io: &mut B,
        token: u64,
        run: impl FnOnce(&mut Worker, &mut B, &mut Conn),
    ) -> bool {
        let seat = crate::conn::seat_of(token);
        let conn = self.conns.get(seat).and_then(Option::as_ref);
        if conn.is_none_or(|conn| conn.token() != token) {
            return false;
        }
        self.with_conn(io, seat, run)
    }

    /// An empty answer buffer.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_else(|| Vec::with_capacity(512))
    }

    pub(crate) fn keep_buffer(&mut self, mut buffer: Vec<u8>) {
        if self.buffers.len() < limits::BUFFERS_KEPT
            && buffer.capacity() <= limits::BUFFER_BYTES_KEPT
        {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    pub(crate) fn date(&self) -> [u8; 29] {
        self.date
    }

    pub(crate) fn set_timer(&mut self, conn: &mut Conn, deadline_ns: u64) {
        self.clear_timer(conn);
        conn.timer = self.wheel.set(deadline_ns, conn.token());
    }

    pub(crate) fn clear_timer(&mut self, conn: &mut Conn) {
        if let Some(key) = conn.timer.take() {
            self.wheel.cancel(key);
        }
    }
}

impl Sink for Worker {
    fn on_awake<B: Backend>(&mut self, io: &mut B) {
        self.lane.wake();
        self.now_ns = io.boot_ns();
        let now_s = sys::wall_ns() / 1_000_000_000;
        if now_s != self.date_s {
            self.date_s = now_s;
            self.date = answers::http_date(now_s);
        }
        self.read_numbers();
        self.replies(io);
        self.timers(io);
    }

    fn on_accept<B: Backend>(&mut self, io: &mut B, listener: ListenerId, socket: OwnedFd) {
        self.tally.worker().add_accepted(1);
        let is_unix = self.listening.iter().any(|&(id, is_unix)| id == listener && is_unix);
        let peer = match sys::peer_addr(socket.as_fd()) {
            Ok(peer) => Some(peer),
            Err(_) if is_unix => None,
            Err(_) => return self.tally.worker().add_closed(1), // gone before it was looked at
        };
        let ip = peer.map(|peer| crate::conn::mapped(peer.ip()));
        if !self.plane.admit_connection(&self.config, ip) {
            self.tally.worker().add_refused_connections(1);
            return self.tally.worker().add_closed(1);
        }
        match io.attach(socket) {
            Err(_full) => {
                self.plane.connection_gone(ip);
                self.tally.worker().add_refused_connections(1);
                self.tally.worker().add_closed(1);
            }
            Ok(id) => {
                let number = self.next_number;
                self.next_number += 1;
                let mut conn = Box::new(Conn::new(id, number, peer, &self.config));
                let quiet_ns = match self.draining {
                    true => limits::DRAIN_QUIET_NS,
                    false => self.config.idle_timeout_ns,
                };
                self.set_timer(&mut conn, self.now_ns + quiet_ns);
                if self.conns.len() <= id.index() {
                    self.conns.resize_with(id.index() + 1, || None);
                }
                self.conns[id.index()] = Some(conn);
            }
        }
    }

    fn on_data<B: Backend>(&mut self, io: &mut B, conn: ConnId, data: &[u8]) {
        self.tally.worker().add_bytes_in(data.len() as u64);
        self.with_conn(io, conn.index(), |worker, io, conn| worker.data(io, conn, data));
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
        if let SendBuf::Owned(buffer) = buf {
            self.tally.worker().add_bytes_out(buffer.len() as u64);
            self.keep_buffer(buffer);
        }
        if result.is_err() {
            self.with_conn(io, conn.index(), |worker, io, conn| worker.ended(io, conn, true));
        }
    }

    fn on_closed<B: Backend>(&mut self, _io: &mut B, conn: ConnId) {
        if let Some(mut conn) = self.conns.get_mut(conn.index()).and_then(Option::take) {
            self.kept -= conn.kept();
            self.clear_timer(&mut conn);
            self.forget_request(&mut conn);
            self.plane.connection_gone(conn.peer.map(|_| conn.ip));
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
            self.bell_heard = true;
            self.replies(io); // those that came between the start of this turn and its bell
        } else if let Err(error) = self.take_config(io) {
            self.fail(error.to_string());
        }
    }
}
