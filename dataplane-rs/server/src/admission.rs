//! Slots: who gets one, who waits, who is shed, and when one is given back.
//!
//! The decisions are those of `sluice_core::admission`; here they meet connections and the lane. A
//! request that is whole asks for a slot (`offer`), a held one gets it later (`grant`) or in vain
//! (`give_up`). From `publish` on the slot belongs to the frame. Requests of sources that are
//! acknowledged at `ring` ask as well, and take none: what bounds them is the lane.

use crate::conn::{Conn, Request, Stage};
use crate::limits;
use crate::request::Whole;
use crate::tally::ShedReason;
use crate::worker::Worker;
use sluice_core::admission::{Grant, Offer, Shed, Ticket, Verdict, Waiter};
use sluice_core::limits::EXPIRE_INTERVAL_NS;
use sluice_core::routes::Ack;
use sluice_kernel::{Backend, Close};

impl From<Shed> for ShedReason {
    fn from(shed: Shed) -> ShedReason {
        match shed {
            Shed::HeldFull => ShedReason::HeldFull,
            Shed::HoldSpent => ShedReason::Hold,
            _ => ShedReason::Class,
        }
    }
}

impl Worker {
    /// A whole request asks for a slot. True: it waits, and its bytes must be kept.
    pub(crate) fn offer<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        whole: Whole<'_>,
        mut request: Request,
    ) -> bool {
        conn.reader.restart();
        conn.seq = conn.seq.wrapping_add(1);
        let handshake = self.is_handshake_like(&whole, &request);
        if let Some(reason) = self.refused_at_once(&request, handshake) {
            self.shed_whole(io, conn, whole, &mut request, reason);
            return false;
        }
        if request.id_in_body && self.is_pressed() {
            self.identify(conn, &mut request, whole.head, Some(whole.body));
        }
        let offer = self.offer_of(conn, &request, handshake);
        if offer.ring && !self.watch_lane() {
            self.shed_whole(io, conn, whole, &mut request, ShedReason::Stopping);
            return false;
        }
        let slots = &self.plane.slots;
        let (class, verdict) = self
            .admission
            .offer(self.now_ns, &offer, &self.numbers, slots);
        self.tally.offered(offer.source, class, offer.repeat);
        match verdict {
            Verdict::Admit | Verdict::Floor => {
                self.tally.admitted(class);
                if verdict == Verdict::Floor {
                    self.tally.floored(offer.source);
                }
                let taken_ns = (!offer.ring).then_some(self.now_ns);
                self.publish(io, conn, whole, request, taken_ns)
            }
            Verdict::Hold { ticket, pushed_out } => {
                if let Some(waiter) = pushed_out {
                    // Never this connection: its one request was not in the queue yet.
                    self.with_token(io, waiter.token, |worker, io, other| {
                        worker.held_in_vain(io, other, ShedReason::Class);
                    });
                }
                let bytes = whole.head.len() + whole.body.len();
                if !self.memory.fits(&conn.charge, conn.asked.slot, bytes) {
                    self.cancel(ticket);
                    self.tally.turned_away(class);
                    self.tally.worker().add_kept_refused(1);
                    self.shed_whole(io, conn, whole, &mut request, ShedReason::HeldFull);
                    return false;
                }
                self.tally.waits(class);
                conn.stage = Stage::Held(request, ticket, class);
                // The queue has its own clock, which is never behind this one.
                self.set_deadline(conn, request.routed.until_ns);
                true
            }
            Verdict::Shed(why) => {
                self.tally.turned_away(class);
                self.shed_whole(io, conn, whole, &mut request, why.into());
                false
            }
        }
    }

    /// Whether a request looks like a question of its sender. The worker's fields are its own.
    fn is_handshake_like(&self, whole: &Whole<'_>, request: &Request) -> bool {
        let routed = &request.routed;
        let route = self.config.routes.of_source(routed.slot, routed.source_id);
        let body_bytes = whole.body.len() as u64;
        route.is_some_and(|route| {
            route.is_handshake_like(&request.head, whole.head, &self.fields, body_bytes)
        })
    }

    fn offer_of(&self, conn: &Conn, request: &Request, handshake: bool) -> Offer {
        let routed = &request.routed;
        Offer {
            token: conn.token(),
            source: routed.slot,
            priority: routed.priority,
            never_retries: routed.never_retries,
            repeat: request.repeat,
            handshake,
            probes: routed.probes,
            guard_after: routed.guard_after,
            until_ns: routed.until_ns,
            ring: routed.ack == Ack::Ring,
            weight: routed.verify_weight,
        }
    }

    /// Whether it matters now who sends something again: somebody waits, or a repeat might have to.
    fn is_pressed(&self) -> bool {
        let slots = &self.plane.slots;
        let share_milli = match self.numbers.repeat_share_milli {
            0 => 1000,
            share_milli => share_milli,
        };
        slots.overloaded() != 0
            || slots.held() > 0
            || slots.inflight().saturating_mul(1000)
                >= self.numbers.limit.saturating_mul(share_milli)
    }

    /// Sheds a request that is whole, of which whoever asks for what is missing wants the name.
    fn shed_whole<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        whole: Whole<'_>,
        request: &mut Request,
        reason: ShedReason,
    ) {
        if request.id_in_body {
            self.identify(conn, request, whole.head, Some(whole.body));
        }
        self.shed(io, conn, reason);
    }

    /// What no slot would help against. A handshake needs no journal: the control plane answers it,
    /// or says that it was none.
    fn refused_at_once(&mut self, request: &Request, handshake: bool) -> Option<ShedReason> {
        if self.failed {
            return Some(ShedReason::Stopping);
        }
        let page = self.plane.control.page();
        if !handshake && (page.writable() == 0 || page.journal_full() != 0) {
            return Some(ShedReason::Journal);
        }
        if let Some(rate) = request.routed.rate
            && let Err(wait_ns) = rate.take(self.plane.rate(request.routed.slot), self.now_ns)
        {
            return Some(ShedReason::Rate { wait_ns });
        }
        match self.lane.used() {
            Ok(used) if used * 1000 / self.lane.capacity() < limits::LANE_SHED_MILLI => None,
            Ok(_) => {
                self.tally.worker().add_lane_full(1);
                Some(ShedReason::Lane)
            }
            Err(error) => {
                self.fail(error.to_string());
                Some(ShedReason::Stopping)
            }
        }
    }

    /// Gives back what an admitted request had: its slot, if it took one then, and its weight.
    /// `is_sample`: its frame became durable.
    pub(crate) fn give_back(&mut self, taken_ns: Option<u64>, weight: u32, is_sample: bool) {
        if weight > 0 {
            self.admission.give_weight(weight, &self.plane.slots);
        }
        let Some(taken_ns) = taken_ns else {
            return;
        };
        // Counted first: who sees the slot free sees what it was.
        let took_ns = self.now_ns.saturating_sub(taken_ns);
        self.tally.slot_given_back(took_ns, is_sample);
        self.admission.release(&self.plane.slots);
    }

    /// Gives free slots to those that wait.
    pub(crate) fn grant<B: Backend>(&mut self, io: &mut B) {
        // Before each: those who go without a slot together could fill the lane.
        while self.watch_lane() {
            match self
                .admission
                .grant(self.now_ns, &self.numbers, &self.plane.slots)
            {
                Grant::Idle => break,
                Grant::Elsewhere(worker) => {
                    self.plane.poke_one(worker);
                    break;
                }
                Grant::Admit(waiter) => {
                    let mut admitted = false;
                    self.with_token(io, waiter.token, |worker, io, conn| {
                        admitted = worker.granted(io, conn, &waiter);
                    });
                    if !admitted {
                        let taken_ns = (!waiter.ring).then_some(self.now_ns);
                        self.give_back(taken_ns, waiter.weight, false);
                    }
                }
                Grant::Shed(waiter, why) => {
                    self.with_token(io, waiter.token, |worker, io, conn| {
                        worker.held_in_vain(io, conn, why.into());
                    });
                }
            }
        }
    }

    /// From half full of the lane on ring requests wait. False: the lane is given up.
    fn watch_lane(&mut self) -> bool {
        match self.lane.used() {
            Ok(used) => {
                let pause = used * 1000 / self.lane.capacity() >= limits::LANE_PAUSE_MILLI;
                self.admission.pause_ring(pause);
                true
            }
            Err(error) => {
                self.fail(error.to_string());
                false
            }
        }
    }

    /// Sheds those that have waited too long.
    pub(crate) fn expire<B: Backend>(&mut self, io: &mut B) {
        self.expire_at_ns = self.now_ns + EXPIRE_INTERVAL_NS;
        let mut spent = std::mem::take(&mut self.spent);
        let slots = &self.plane.slots;
        self.admission
            .expire(self.now_ns, &self.numbers, slots, |waiter| {
                spent.push(waiter.token);
            });
        for token in spent.drain(..) {
            self.with_token(io, token, |worker, io, conn| {
                worker.held_in_vain(io, conn, ShedReason::Hold);
            });
        }
        self.spent = spent;
    }

    /// A held request got its turn, and with it a slot if it takes one. False: there is none that
    /// could use it.
    fn granted<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, waiter: &Waiter) -> bool {
        let Stage::Held(request, _, class) = conn.stage else {
            return false;
        };
        self.tally.admitted(class);
        let waited_ns = self.now_ns.saturating_sub(waiter.since_ns);
        self.tally.held(request.routed.slot, waited_ns);
        let taken_ns = (!waiter.ring).then_some(self.now_ns);
        self.publish_kept(io, conn, request, taken_ns, false);
        true
    }

    /// A held request leaves the queue without a slot; the queue no longer knows it.
    fn held_in_vain<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, reason: ShedReason) {
        if let Stage::Held(_, _, class) = conn.stage {
            self.tally.turned_away(class);
            self.drop_request(conn);
            self.shed(io, conn, reason);
        }
    }

    /// Sheds a request that waits for a slot or for room.
    pub(crate) fn give_up<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, reason: ShedReason) {
        if let Stage::Held(_, _, class) = conn.stage {
            self.tally.turned_away(class);
        }
        self.forget_request(conn);
        self.drop_request(conn);
        self.shed(io, conn, reason);
    }

    /// Gives the current request up as far as it is not in the lane: its place in the queue, or
    /// what it was admitted with.
    fn forget_request(&mut self, conn: &mut Conn) {
        match conn.stage {
            Stage::Held(_, ticket, _) => self.cancel(ticket),
            Stage::LaneFull(request, taken_ns) => {
                let token = conn.token();
                self.lane_waiting.retain(|&waiting| waiting != token);
                self.give_back(taken_ns, request.routed.verify_weight, false);
            }
            _ => {}
        }
        conn.stage = Stage::Head;
    }

    fn cancel(&mut self, ticket: Ticket) {
        self.admission.cancel(ticket, &self.plane.slots);
    }

    /// Forgets the kept bytes of the current request; those behind it stay.
    pub(crate) fn drop_request(&mut self, conn: &mut Conn) {
        self.consume(conn, conn.whole);
        conn.whole = 0;
        let spill = std::mem::take(&mut conn.spill);
        self.keep_buffer(spill);
    }

    /// Ends a connection. What was sent before still goes out when `how` is graceful.
    pub(crate) fn leave<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, how: Close) {
        if how == Close::Graceful {
            self.say_goodbye(io, conn);
        }
        self.flush_last(io, conn);
        self.abandon(conn);
        let linger_ns = match self.is_stopping() {
            true => limits::STOP_LINGER_NS,
            false => limits::LINGER_NS,
        };
        self.set_deadline(conn, self.now_ns + linger_ns);
        io.close(conn.id, how);
    }

    /// Gives back all that a connection holds, its timer apart.
    pub(crate) fn abandon(&mut self, conn: &mut Conn) {
        self.close_transport(conn);
        self.forget_request(conn);
        conn.stage = Stage::Lingering;
        conn.whole = 0;
        self.consume(conn, usize::MAX);
        for buffer in [&mut conn.spill, &mut conn.unsent] {
            let buffer = std::mem::take(buffer);
            self.keep_buffer(buffer);
        }
    }
}
