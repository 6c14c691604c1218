//! One worker thread: its connections, its lane, its turn.
//!
//! The order of a turn is part of the protocol: replies, then timers, then new work, then
//! doorbells. A reply that lies in the ring so beats a budget that ends in the same turn. Nothing
//! in a turn waits for anybody: a request that has to wait is left in its stage, and the turn goes
//! on.

use crate::config::Config;
use crate::conn::{Conn, Stage, seat_of};
use crate::frames::Frames;
use crate::limits;
use crate::memory::Memory;
use crate::plane::{Counted, Plane};
use crate::tally::Tally;
use crate::transport::Handshakes;
use sluice_core::admission::{Admission, Jitter, Numbers};
use sluice_core::answers;
use sluice_core::http1::Fields;
use sluice_core::timers::Wheel;
use sluice_kernel::sys::{self, EventFd};
use sluice_kernel::{Backend, Close, ListenerId, Share, Stats, Wait, WakeId};
use sluice_lane::{HeaderSpan, Lane};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// What a worker is made of.
pub struct Parts {
    /// Which worker it is.
    pub index: usize,
    /// Shared by all of them.
    pub plane: Arc<Plane>,
    /// Its lane.
    pub lane: Lane,
    /// One listening socket of each row, and who else accepts on it.
    pub sockets: Vec<(OwnedFd, Share)>,
    /// Rung by us when the control plane is to look.
    pub request_bell: EventFd,
    /// Rung by the control plane when there are replies or room.
    pub reply_bell: EventFd,
    /// Spreads the retries of those that are shed.
    pub seed: u64,
}

/// A listener in use.
pub(crate) struct Place {
    pub id: ListenerId,
    /// Its row in the config.
    pub row: usize,
    pub is_unix: bool,
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
    pub(crate) frames: Frames,
    pub(crate) memory: Memory,
    pub(crate) jitter: Jitter,
    pub(crate) tally: Tally,
    /// The clocks at the beginning of the turn: boot and wall.
    pub(crate) now_ns: u64,
    pub(crate) wall_ns: u64,
    pub(crate) date: [u8; 29],
    /// Frames were committed in this turn.
    pub(crate) published: bool,
    /// An answer waits for a send that was ordered in this turn.
    pub(crate) awaits_sent: bool,
    /// Connections whose request has a slot and waits for room in the lane, by token.
    pub(crate) lane_waiting: VecDeque<u64>,
    /// Waiters that an `expire` found; kept for its memory.
    pub(crate) spent: Vec<u64>,
    pub(crate) expire_at_ns: u64,
    pub(crate) buffers: Vec<Vec<u8>>,
    /// For an id that has escapes.
    pub(crate) id_buffer: Vec<u8>,
    pub(crate) slept_at_ns: Option<u64>,
    /// Since when there were replies that nothing but the bound on a sleep has found, as long as
    /// their bell may still ring.
    pub(crate) unrung_ns: Option<u64>,
    pub(crate) reply_wake: Option<WakeId>,
    /// Listeners in use.
    pub(crate) listening: Vec<Place>,
    /// Handshakes that wait for their turn.
    pub(crate) handshakes: Handshakes,
    /// For what was decrypted last.
    pub(crate) plain: Vec<u8>,
    /// Connections beyond a bound that have a seat until they were told so.
    pub(crate) turned_away: u32,
    pub(crate) next_number: u64,
    pub(crate) draining: bool,
    pub(crate) failed: bool,
    /// Connections that have bytes to go on with, by token.
    ready: VecDeque<u64>,
    wheel: Wheel,
    sockets: Vec<(OwnedFd, Share)>,
    request_bell: EventFd,
    reply_bell: EventFd,
    date_s: u64,
    cut_at_ns: u64,
    stats: Stats,
    turn_ns_max: u64,
}

impl Worker {
    /// A worker for `seats` connections, to be run on the thread that calls this.
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
            admission: Admission::new(parts.index, sluice_core::limits::HELD_MAX),
            numbers: Numbers::default(),
            frames: Frames::default(),
            memory: Memory::new(0),
            jitter: Jitter::new(parts.seed),
            tally,
            now_ns,
            wall_ns: 0,
            date: answers::http_date(0),
            published: false,
            awaits_sent: false,
            lane_waiting: VecDeque::new(),
            spent: Vec::new(),
            expire_at_ns: 0,
            buffers: Vec::new(),
            id_buffer: Vec::new(),
            slept_at_ns: None,
            unrung_ns: None,
            reply_wake: None,
            listening: Vec::new(),
            handshakes: Handshakes::default(),
            plain: Vec::new(),
            turned_away: 0,
            next_number: 1,
            draining: false,
            failed: false,
            ready: VecDeque::new(),
            wheel: Wheel::new(seats, now_ns),
            sockets: parts.sockets,
            request_bell: parts.request_bell,
            reply_bell: parts.reply_bell,
            date_s: 0,
            cut_at_ns: 0,
            stats: Stats::default(),
            turn_ns_max: 0,
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
                self.ring();
                return Ok(());
            }
        }
    }

    /// How long the next turn may wait; takes a sleep ticket when it may.
    fn prepare_wait(&mut self) -> Wait {
        self.slept_at_ns = None;
        let wants_room = !self.lane_waiting.is_empty() || self.frames.await_room();
        let awaits_sent = std::mem::take(&mut self.awaits_sent);
        if awaits_sent || !self.ready.is_empty() || !self.lane.sleep(wants_room) {
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
        if self.plane.slots.overloaded() != 0 {
            until_ns = until_ns.min(self.now_ns + limits::OVERLOAD_LOOK_NS);
        }
        if let Some(due_ns) = self.handshakes.due_ns() {
            until_ns = until_ns.min(due_ns);
        }
        if self.draining {
            until_ns = until_ns.min(self.cut_at_ns);
        }
        Wait::at_most(Duration::from_nanos(until_ns.saturating_sub(self.now_ns)))
    }

    /// The wait is over: first of all what has waited for us.
    pub(crate) fn begin_turn<B: Backend>(&mut self, io: &mut B) {
        self.lane.wake();
        self.now_ns = io.boot_ns();
        self.wall_ns = sys::wall_ns();
        let now_s = self.wall_ns / 1_000_000_000;
        if now_s != self.date_s {
            self.date_s = now_s;
            self.date = answers::http_date(now_s);
        }
        self.read_numbers();
        self.plane.pulse(self.now_ns, &self.numbers, &self.config);
        self.replies(io);
        self.give_consumed_slots();
        self.timers(io);
    }

    /// Everything between the last completion and the next wait.
    fn end_turn<B: Backend>(&mut self, io: &mut B) {
        if self
            .unrung_ns
            .is_some_and(|at| self.now_ns > at + limits::BELL_NS_MAX)
        {
            self.unrung_ns = None;
            self.tally.worker().add_belt_wakes(1);
        }
        self.begin_handshakes(io);
        self.go_on_with_ready(io);
        self.retry_lane_waiting(io);
        if !self.failed {
            self.grant(io);
            if self.admission.held() > 0 && self.now_ns >= self.expire_at_ns {
                self.expire(io);
            }
        }
        self.drain(io);
        self.plane.publish_taken();
        let kept = self.memory.bytes() as u64;
        if kept != self.tally.worker().kept_bytes() {
            self.tally.worker().store_kept_bytes(kept);
        }
        let published = std::mem::take(&mut self.published);
        if self.lane.end_turn(published) {
            self.tally.worker().add_rings(1);
            self.ring();
        }
        if self.lane.retired() {
            self.fail("the control plane gave the lane up".into());
        }
        self.count_turn(io.stats());
    }

    fn ring(&mut self) {
        if let Err(error) = self.request_bell.ring() {
            self.plane
                .report("error", format!("ring the control plane: {error}"));
        }
    }

    fn count_turn(&mut self, stats: &Stats) {
        let worker = self.tally.worker();
        worker.add_turns(1);
        worker.add_recv_starved(stats.recv_starved - self.stats.recv_starved);
        worker.add_accept_paused(stats.accept_paused - self.stats.accept_paused);
        worker.add_cq_overflow(stats.cq_overflows - self.stats.cq_overflows);
        self.stats = *stats;
        let took_ns = sys::boot_ns().saturating_sub(self.now_ns);
        if took_ns > self.turn_ns_max {
            self.turn_ns_max = took_ns;
            worker.store_turn_ns_max(took_ns);
        }
        if self.index == 0 {
            self.plane.counters.header().store_dp_beat(self.now_ns);
        }
    }

    /// New numbers, once a turn.
    fn read_numbers(&mut self) {
        let page = self.plane.control.page();
        let newest = page.newest_generation();
        self.numbers = Numbers {
            // Beside a newer data plane this one only finishes what it has.
            limit: match u64::from(self.plane.generation) < newest {
                true => page.elder_limit().max(1),
                false => page.limit(),
            },
            floor_slots: page.floor_slots(),
            floor_rate_milli: page.floor_rate_milli(),
            max_held: page.max_held(),
            hold_budget_ns: page.hold_budget_ns(),
            hold_bound_ns: page.hold_bound_ns(),
            growing: page.growing() != 0,
            service_time_ns: page.service_time_ns(),
            repeat_share_milli: page.repeat_share_milli(),
            share_rate_milli: page.share_rate_milli(),
            codel_target_ns: page.codel_target_ns(),
            codel_interval_ns: page.codel_interval_ns(),
            pace_interval_ns: page.pace_interval_ns(),
            pace_depth_ns: page.pace_depth_ns(),
        };
        // Half of this worker's part of the slots: the others have the rest for sure.
        let part = self.numbers.limit / 2 / self.plane.host().workers as u64;
        let share = u32::try_from(part.max(1)).unwrap_or(u32::MAX);
        let max = self.config.verify_weight_max;
        self.admission.bound_weight(share, max, &self.plane.slots);
    }

    /// Takes up the config in force; the first one starts accepting.
    pub(crate) fn take_config<B: Backend>(
        &mut self,
        io: &mut B,
    ) -> Result<(), sluice_kernel::Error> {
        self.config = self.plane.config();
        self.memory.set_bytes_max(self.config.kept_bytes_max);
        if self.config.version == 0 || self.draining {
            return Ok(());
        }
        if self.listening.is_empty() {
            for (row, (socket, share)) in self.sockets.iter().enumerate() {
                let is_unix = sys::local_addr(socket.as_fd()).is_err();
                let id = io.listen(socket.as_fd(), *share)?;
                self.listening.push(Place { id, row, is_unix });
            }
        }
        self.plane.set_accepting(self.index, self.config.version);
        Ok(())
    }

    fn timers<B: Backend>(&mut self, io: &mut B) {
        while let Some(token) = self.wheel.pop(self.now_ns) {
            self.with_token(io, token, |worker, io, conn| {
                conn.timer = None;
                if conn.deadline_ns > worker.now_ns {
                    return worker.set_deadline(conn, conn.deadline_ns);
                }
                conn.deadline_ns = u64::MAX;
                worker.timed_out(io, conn);
            });
        }
    }

    /// Sets when the current stage ends. A timer that fires earlier than that stays where it is and
    /// is set again when it does, so that the two deadlines of each request move nothing.
    pub(crate) fn set_deadline(&mut self, conn: &mut Conn, deadline_ns: u64) {
        conn.deadline_ns = deadline_ns;
        match conn.timer {
            Some((_, fires_ns)) if fires_ns <= deadline_ns => return,
            Some((key, _)) => {
                self.wheel.cancel(key);
            }
            None => {}
        }
        let key = self.wheel.set(deadline_ns, conn.token());
        debug_assert!(key.is_some(), "the wheel has a place for each connection");
        conn.timer = key.map(|key| (key, deadline_ns));
    }

    pub(crate) fn clear_timer(&mut self, conn: &mut Conn) {
        if let Some((key, _)) = conn.timer.take() {
            self.wheel.cancel(key);
        }
    }

    /// A connection has bytes to go on with: later in this turn, or in the next one.
    pub(crate) fn enqueue(&mut self, conn: &mut Conn) {
        if !conn.queued {
            conn.queued = true;
            self.ready.push_back(conn.token());
        }
    }

    /// Each connection that is ready now gets one visit; who wants more stands in line again.
    fn go_on_with_ready<B: Backend>(&mut self, io: &mut B) {
        for _ in 0..self.ready.len() {
            let Some(token) = self.ready.pop_front() else {
                return;
            };
            self.with_token(io, token, |worker, io, conn| {
                conn.queued = false;
                worker.advance_kept(io, conn);
            });
        }
    }

    /// Takes a drain up, and cuts what is left at its end.
    fn drain<B: Backend>(&mut self, io: &mut B) {
        let Some(cut_at_ns) = self.plane.draining() else {
            return;
        };
        if !self.draining {
            self.draining = true;
            self.plane.set_accepting(self.index, 0);
            for place in &self.listening {
                io.unlisten(place.id);
            }
            self.for_each_conn(io, |worker, _, conn| worker.hurry(conn));
        }
        self.cut_at_ns = cut_at_ns;
        if self.now_ns >= cut_at_ns {
            self.for_each_conn(io, |worker, io, conn| worker.leave(io, conn, Close::Abort));
            self.cut_at_ns = self.now_ns + limits::SLEEP_NS_MAX;
        }
    }

    /// Sets how long a connection stays that need not be served to its end. While another data
    /// plane takes over, all that has begun goes on; while the daemon stops, a head that is not
    /// whole was not taken, and its sender comes again.
    fn hurry(&mut self, conn: &mut Conn) {
        let is_unused = match conn.stage {
            Stage::Lingering => true,
            Stage::Opening => self.is_stopping(),
            Stage::Head => self.is_stopping() || conn.is_idle(),
            _ => false,
        };
        let until_ns = self.now_ns + self.quiet_ns();
        if is_unused && until_ns < conn.deadline_ns {
            self.set_deadline(conn, until_ns);
        }
    }

    /// While draining, how long nothing may come from a connection before it is closed.
    pub(crate) fn quiet_ns(&self) -> u64 {
        match self.is_stopping() {
            true => limits::STOP_QUIET_NS,
            false => limits::DRAIN_QUIET_NS,
        }
    }

    /// Gives the whole plane up: this lane can no longer be believed.
    pub(crate) fn fail(&mut self, why: String) {
        if !self.failed {
            self.failed = true;
            self.plane
                .fail(format!("worker {}: {why}", self.index), self.now_ns);
        }
    }

    /// Whether new requests are refused: nobody would answer them.
    pub(crate) fn is_stopping(&self) -> bool {
        self.failed || self.plane.control.page().stopping() != 0
    }

    /// Whether connections end with their next answer, because this data plane does.
    pub(crate) fn is_leaving(&self) -> bool {
        self.draining || self.is_stopping()
    }

    /// Counts a connection out, or gives back the seat of one that was turned away.
    pub(crate) fn count_out(&mut self, counted: Option<Counted>) {
        match counted {
            Some(counted) => self.plane.count_out(counted),
            None => self.turned_away -= 1,
        }
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
    /// used beside it, and settles what follows.
    pub(crate) fn with_conn<B: Backend>(
        &mut self,
        io: &mut B,
        seat: usize,
        run: impl FnOnce(&mut Worker, &mut B, &mut Conn),
    ) {
        let Some(mut conn) = self.conns.get_mut(seat).and_then(Option::take) else {
            return;
        };
        run(self, io, &mut conn);
        self.settle(io, &mut conn);
        let kept = conn.kept();
        self.memory.charge(&mut conn.charge, conn.asked.slot, kept);
        self.conns[seat] = Some(conn);
    }

    /// Likewise, if the connection of that name still sits there.
    pub(crate) fn with_token<B: Backend>(
        &mut self,
        io: &mut B,
        token: u64,
        run: impl FnOnce(&mut Worker, &mut B, &mut Conn),
    ) {
        if self.conn_of(token).is_some() {
            self.with_conn(io, seat_of(token), run);
        }
    }

    /// The connection of that name, if it still sits there.
    pub(crate) fn conn_of(&self, token: u64) -> Option<&Conn> {
        let conn = self.conns.get(seat_of(token))?.as_deref()?;
        (conn.token() == token).then_some(conn)
    }
}
