//! Slots, the bounded hold, and the decision between them.

use super::class::Class;
use super::queue::{Queue, Ticket, Waiter};
use super::{Numbers, Shared};
use crate::limits;

/// A request that is whole and asks for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The caller's name for it.
    pub token: u64,
    /// Its class.
    pub class: Class,
    /// Its source's slot, under [`limits::SOURCES_MAX`].
    pub source: u16,
    /// The end of its sender's budget: an answer later than this helps nobody.
    pub until_ns: u64,
    /// Acknowledged at `ring`, so that its slot is given back with the reply and what bounds it is
    /// the lane: see [`Admission::pause_ring`].
    pub ring: bool,
    /// Entitled to the floor: handshakes, and sources that are nearly deleted for lack of answers.
    pub floor: bool,
}

/// What becomes of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A slot was taken for it.
    Admit,
    /// It waits. When the queue was full, another one had to leave for it.
    Hold {
        /// Names it until it leaves.
        ticket: Ticket,
        /// The one to answer as shed ([`Shed::Outranked`]).
        pushed_out: Option<Waiter>,
    },
    /// It is refused.
    Shed(Shed),
}

/// Why a request is shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shed {
    /// The queue is full, and nobody in it is of a lower class.
    HeldFull,
    /// Its bound is spent, or too little is left of its budget to wait at all.
    HoldSpent,
    /// The queue was full and one of a higher class came.
    Outranked,
}

/// What [`Admission::grant`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// A slot was taken for this one.
    Admit(Waiter),
    /// This one had waited beyond its bound when its turn came.
    Shed(Waiter, Shed),
    /// A slot is free, and those that go first wait at another worker: wake it.
    Elsewhere,
    /// Nothing to do: no slot or nobody.
    Idle,
}

/// One worker's share of admission.
pub struct Admission {
    queue: Queue,
    ring_is_paused: bool,
}

impl Admission {
    /// `capacity` bounds what this worker holds; [`Numbers::max_held`] bounds all workers.
    pub fn new(capacity: usize) -> Admission {
        Admission {
            queue: Queue::new(capacity),
            ring_is_paused: false,
        }
    }

    /// Requests that wait here.
    pub fn held(&self) -> usize {
        self.queue.count()
    }

    /// Gives a whole request a slot, a place in the queue, or neither.
    pub fn offer(
        &mut self,
        now_ns: u64,
        offer: &Offer,
        numbers: &Numbers,
        shared: &mut impl Shared,
    ) -> Verdict {
        debug_assert!(usize::from(offer.source) < limits::SOURCES_MAX);
        if offer.floor && shared.take(numbers.limit.saturating_add(numbers.floor_slots)) {
            return Verdict::Admit;
        }
        let is_paused = offer.ring && self.ring_is_paused;
        if !is_paused
            && !waits_up_to(offer.class, shared)
            && shared.take(numbers.limit_of(offer.class))
        {
            return Verdict::Admit;
        }
        let waiter = Waiter {
            token: offer.token,
            class: offer.class,
            source: offer.source,
            since_ns: now_ns,
            until_ns: offer.until_ns,
            ring: offer.ring,
        };
        if now_ns >= budget_end(&waiter, numbers) {
            return Verdict::Shed(Shed::HoldSpent);
        }
        let pushed_out = if self.queue.is_full() || shared.held() >= numbers.max_held {
            let Some(index) = self.lowest_below(offer.class) else {
                return Verdict::Shed(Shed::HeldFull);
            };
            Some(self.take_out(index, shared))
        } else {
            None
        };
        let ticket = self.queue.push(waiter);
        shared.hold();
        if !is_paused {
            shared.wait(offer.class, 1);
        }
        Verdict::Hold { ticket, pushed_out }
    }

    /// Gives back the slot of an admitted request.
    pub fn release(&mut self, shared: &mut impl Shared) {
        shared.give();
    }

    /// Gives a free slot to whoever goes first. Each call moves at most one request.
    pub fn grant(&mut self, now_ns: u64, numbers: &Numbers, shared: &mut impl Shared) -> Grant {
        let may_go = |waiter: &Waiter| !(waiter.ring && self.ring_is_paused);
        for class in Class::ALL {
            if shared.waiting(class) == 0 {
                continue;
            }
            let limit = numbers.limit_of(class);
            if shared.inflight() >= limit {
                return Grant::Idle;
            }
            let newest_first = numbers.overloaded & class.bit() != 0;
            let Some(index) = self.queue.turn(class, newest_first, may_go) else {
                return Grant::Elsewhere;
            };
            if is_spent(self.queue.waiter(index), now_ns, numbers) {
                return Grant::Shed(self.take_out(index, shared), Shed::HoldSpent);
            }
            if !shared.take(limit) {
                return Grant::Idle;
            }
            let waiter = self.queue.serve(index);
            shared.unhold();
            shared.leave(class, 1);
            return Grant::Admit(waiter);
        }
        Grant::Idle
    }

    /// Sheds all that have waited beyond their bound: the lowest class first, in it the oldest.
    pub fn expire(
        &mut self,
        now_ns: u64,
        numbers: &Numbers,
        shared: &mut impl Shared,
        mut shed: impl FnMut(Waiter),
    ) {
        for class in Class::ALL.into_iter().rev() {
            let mut next = self.queue.oldest(class);
            while let Some(index) = next {
                next = self.queue.younger(index);
                if is_spent(self.queue.waiter(index), now_ns, numbers) {
                    shed(self.take_out(index, shared));
                }
            }
        }
    }

    /// The sender of a held request went away. `false`: it had left the queue already.
    pub fn cancel(&mut self, ticket: Ticket, shared: &mut impl Shared) -> bool {
        let found = self.queue.find(ticket);
        if let Some(index) = found {
            self.take_out(index, shared);
        }
        found.is_some()
    }

    /// While this worker's lane is half full its ring requests wait as if no slot were free. They
    /// do not count as waiting then, or they would keep slots from those that could use them.
    pub fn pause_ring(&mut self, pause: bool, shared: &mut impl Shared) {
        if pause == self.ring_is_paused {
            return;
        }
        self.ring_is_paused = pause;
        for class in Class::ALL {
            match u64::from(self.queue.ring_count_of(class)) {
                0 => {}
                count if pause => shared.leave(class, count),
                count => shared.wait(class, count),
            }
        }
    }

    /// Requests of a class that wait here.
    pub fn held_of(&self, class: Class) -> u32 {
        self.queue.count_of(class)
    }

    /// The oldest waiter of the lowest class below `class`.
    fn lowest_below(&self, class: Class) -> Option<u32> {
        let below = Class::ALL
            .into_iter()
            .rev()
            .take_while(|&lower| lower > class);
        below.into_iter().find_map(|lower| self.queue.oldest(lower))
    }

    fn take_out(&mut self, index: u32, shared: &mut impl Shared) -> Waiter {
        let waiter = self.queue.remove(index);
        shared.unhold();
        if !(waiter.ring && self.ring_is_paused) {
            shared.leave(waiter.class, 1);
        }
        waiter
    }
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let held = Class::ALL.map(|class| self.queue.count_of(class));
        write!(
            f,
            "Admission {{ held: {held:?}, ring_is_paused: {} }}",
            self.ring_is_paused
        )
    }
}

/// Whether anybody of `class` or above waits, at any worker.
fn waits_up_to(class: Class, shared: &impl Shared) -> bool {
    Class::ALL
        .into_iter()
        .take_while(|&other| other <= class)
        .any(|c| shared.waiting(c) > 0)
}

/// A slot granted later than this comes too late: it is taken for one service time, and the answer
/// has its spread around that, so two of them are kept free. The numbers of now count, not those of
/// when the hold began: a store that became slow meanwhile answers as late.
fn budget_end(waiter: &Waiter, numbers: &Numbers) -> u64 {
    let by_sender = waiter
        .until_ns
        .saturating_sub(numbers.service_time_ns.saturating_mul(2));
    by_sender.min(waiter.since_ns.saturating_add(numbers.hold_budget_ns))
}

fn is_spent(waiter: &Waiter, now_ns: u64, numbers: &Numbers) -> bool {
    let bound = numbers.overload_bound(waiter.class);
    let waited = now_ns.saturating_sub(waiter.since_ns);
    now_ns >= budget_end(waiter, numbers) || bound.is_some_and(|bound| waited >= bound)
}
