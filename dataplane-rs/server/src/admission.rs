//! Slots: who gets one, who waits, who is shed, and when one is given back.
//!
//! The decisions are those of `sluice_core::admission`; here they meet connections and the lane. A
//! request that is whole asks for a slot (`offer`), a held one gets it later (`grant`) or in vain
//! (`give_up`). From `publish` on the slot belongs to the frame.

use crate::conn::{Conn, Request, Stage};
use crate::limits;
use crate::plane::Slots;
use crate::request::Whole;
use crate::tally::ShedReason;
use crate::worker::Worker;
use sluice_core::admission::{Grant, Offer, Shed, Verdict};
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
        request: Request,
    ) -> bool {
        conn.reader.restart();
        conn.seq = conn.seq.wrapping_add(1);
        if let Some(reason) = self.refused_at_once(&request) {
            self.shed(io, conn, reason);
            return false;
        }
        let routed = &request.routed;
        let offer = Offer {
            token: conn.token(),
            class: routed.class,
            source: routed.slot,
            until_ns: routed.until_ns,
            ring: routed.ack == Ack::Ring,
            floor: false,
        };
        let mut slots = Slots(&self.plane);
        match self
            .admission
            .offer(self.now_ns, &offer, &self.numbers, &mut slots)
        {
            Verdict::Admit => self.publish(io, conn, whole, request),
            Verdict::Hold { ticket, pushed_out } => {
                if let Some(waiter) = pushed_out {
                    // Never this connection: its one request was not in the queue yet.
                    self.with_token(io, waiter.token, |worker, io, other| {
                        worker.held_in_vain(io, other, ShedReason::Class);
                    });
                }
                let bytes = whole.head.len() + whole.body.len();
                if !self.memory.fits(&conn.charge, conn.asked.slot, bytes) {
                    self.admission.cancel(ticket, &mut Slots(&self.plane));
                    self.shed(io, conn, ShedReason::HeldFull);
                    return false;
                }
                conn.stage = Stage::Held(request, ticket);
                // The queue has its own clock, which is never behind this one.
                self.set_deadline(conn, request.routed.until_ns);
                true
            }
            Verdict::Shed(why) => {
                self.shed(io, conn, why.into());
                false
            }
        }
    }

    /// What no slot would help against.
    fn refused_at_once(&mut self, request: &Request) -> Option<ShedReason> {
        if self.failed {
            return Some(ShedReason::Stopping);
        }
        let page = self.plane.control.page();
        if page.writable() == 0 || page.journal_full() != 0 {
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

    /// Gives one slot back.
    pub(crate) fn release_slot(&mut self) {
        self.admission.release(&mut Slots(&self.plane));
        self.freed = true;
    }

    /// Gives free slots to those that wait.
    pub(crate) fn grant<B: Backend>(&mut self, io: &mut B) {
        loop {
            match self
                .admission
                .grant(self.now_ns, &self.numbers, &mut Slots(&self.plane))
            {
                Grant::Idle => break,
                Grant::Elsewhere => {
                    // Only whoever freed the slot tells the others, once: two workers that both
                    // think it is the other's turn do not keep each other awake. All that makes a
                    // slot free otherwise is seen by a worker with waiters when it looks for those
                    // that have waited too long.
                    if self.freed {
                        self.plane.poke_all(Some(self.index));
                    }
                    break;
                }
                Grant::Admit(waiter) => {
                    let mut admitted = false;
                    self.with_token(io, waiter.token, |worker, io, conn| {
                        admitted = worker.granted(io, conn, waiter.since_ns);
                    });
                    if !admitted {
                        self.release_slot();
                    }
                }
                Grant::Shed(waiter, why) => {
                    self.with_token(io, waiter.token, |worker, io, conn| {
                        worker.held_in_vain(io, conn, why.into());
                    });
                }
            }
        }
        self.freed = false;
    }

    /// Sheds those that have waited too long.
    pub(crate) fn expire<B: Backend>(&mut self, io: &mut B) {
        self.expire_at_ns = self.now_ns + EXPIRE_INTERVAL_NS;
        let mut spent = std::mem::take(&mut self.spent);
        let mut slots = Slots(&self.plane);
        self.admission
            .expire(self.now_ns, &self.numbers, &mut slots, |waiter| {
                spent.push(waiter.token);
            });
        for token in spent.drain(..) {
            self.with_token(io, token, |worker, io, conn| {
                worker.held_in_vain(io, conn, ShedReason::Hold);
            });
        }
        self.spent = spent;
    }

    /// A held request got its slot. False: there is none that could use it.
    fn granted<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, since_ns: u64) -> bool {
        let Stage::Held(request, _) = conn.stage else {
            return false;
        };
        self.tally
            .held(request.routed.slot, self.now_ns.saturating_sub(since_ns));
        self.publish_kept(io, conn, request, false);
        true
    }

    /// A held request leaves the queue without a slot; the queue no longer knows it.
    fn held_in_vain<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, reason: ShedReason) {
        if matches!(conn.stage, Stage::Held(..)) {
            self.drop_request(conn);
            self.shed(io, conn, reason);
        }
    }

    /// Sheds a request that waits for a slot or for room.
    pub(crate) fn give_up<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, reason: ShedReason) {
        self.forget_request(conn);
        self.drop_request(conn);
        self.shed(io, conn, reason);
    }

    /// Gives the current request up as far as it is not in the lane: its place in the queue, or the
    /// slot that it has without a frame.
    fn forget_request(&mut self, conn: &mut Conn) {
        match conn.stage {
            Stage::Held(_, ticket) => {
                self.admission.cancel(ticket, &mut Slots(&self.plane));
            }
            Stage::LaneFull(_) => {
                let token = conn.token();
                self.lane_waiting.retain(|&waiting| waiting != token);
                self.release_slot();
            }
            _ => {}
        }
        conn.stage = Stage::Head;
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
        self.flush_last(io, conn);
        self.abandon(conn);
        let linger_ns = match self.draining {
            true => limits::DRAIN_LINGER_NS,
            false => limits::LINGER_NS,
        };
        self.set_deadline(conn, self.now_ns + linger_ns);
        io.close(conn.id, how);
    }

    /// Gives back all that a connection holds, its timer apart.
    pub(crate) fn abandon(&mut self, conn: &mut Conn) {
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
