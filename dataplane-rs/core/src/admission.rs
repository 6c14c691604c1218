//! Who gets a slot now, who waits for one, and who is shed.
//!
//! It computes no limit (that comes in [`Numbers`]), judges no request and answers nobody. One
//! [`Admission`] is one worker's; what all workers share goes through [`Shared`].
//!
//! A request is offered once it is whole. It takes a slot when one is free and nobody of its class
//! or above waits, otherwise it is held: strict classes, round robin over sources inside a class,
//! oldest first, or newest first while the class is overloaded (under overload the oldest is the
//! one whose sender gives up next, so serving it helps nobody).
//!
//! # States of a request
//!
//! ```text
//! offer ──▶ admitted ─────────────────────────────▶ release
//!   │          ▲ grant
//!   ├──▶ held ─┤
//!   │          ├──▶ shed      expire, grant, or an offer of a higher class
//!   │          └──▶ gone      cancel: the sender went away
//!   └──▶ shed
//! ```
//!
//! Only the worker that owns the [`Admission`] moves them. A crash loses the queue with the
//! connections that waited in it; nothing of it was acknowledged.
//!
//! # When to call what
//!
//! [`Admission::offer`] for each whole request. After each [`Admission::release`], each change of
//! numbers, each wake-up by another worker and once a turn while somebody waits:
//! [`Admission::grant`] until it says [`Grant::Idle`] or [`Grant::Elsewhere`]; the latter asks to
//! wake the other workers. Every [`crate::limits::EXPIRE_INTERVAL_NS`] while somebody waits:
//! [`Admission::expire`].
//!
//! ```
//! use sluice_core::admission::{Admission, Class, Grant, Numbers, Offer, SoleWorker, Verdict};
//!
//! let hold_budget_ns = 2_500_000_000;
//! let numbers = Numbers { limit: 1, max_held: 8, hold_budget_ns, ..Numbers::default() };
//! let mut shared = SoleWorker::default();
//! let mut admission = Admission::new(8);
//! let offer = |token| Offer {
//!     token, // names the connection
//!     class: Class::Default,
//!     source: 0,
//!     until_ns: 9_000_000_000,
//!     ring: false,
//!     floor: false,
//! };
//! assert_eq!(admission.offer(0, &offer(1), &numbers, &mut shared), Verdict::Admit);
//! let held = admission.offer(0, &offer(2), &numbers, &mut shared);
//! assert!(matches!(held, Verdict::Hold { pushed_out: None, .. }));
//! admission.release(&mut shared); // request 1 is durable
//! let granted = admission.grant(1_000_000, &numbers, &mut shared);
//! assert!(matches!(granted, Grant::Admit(waiter) if waiter.token == 2));
//! ```

mod class;
mod hold;
mod queue;
mod rate;
mod retry;

pub use class::Class;
pub use hold::{Admission, Grant, Offer, Shed, Verdict};
pub use queue::{Ticket, Waiter};
pub use rate::Rate;
pub use retry::Jitter;

/// What the limiter says; read from the control page once a turn. All zero, nothing is admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Requests in flight, of all workers.
    pub limit: u64,
    /// Slots beyond the limit for offers to the floor.
    pub floor_slots: u64,
    /// Requests held, of all workers. Workers that hold in the same instant may exceed it by one
    /// each.
    pub max_held: u64,
    /// Upper bound of any hold.
    pub hold_budget_ns: u64,
    /// Bound of a hold while its class is overloaded; 0: none.
    pub hold_bound_ns: u64,
    /// The classes that are overloaded, a bit each, as [`Class::bit`] has it.
    pub overloaded: u64,
    /// The time that a slot is taken for, in the mean.
    pub service_time_ns: u64,
    /// Thousandths of the limit that [`Class::Low`] may fill; 0: all of it.
    pub low_share_milli: u64,
}

impl Numbers {
    /// The bound on in-flight requests that holds for a class.
    fn limit_of(&self, class: Class) -> u64 {
        match (class, self.low_share_milli) {
            (Class::Low, 1..1000) => {
                (self.limit.saturating_mul(self.low_share_milli) / 1000).max(1)
            }
            _ => self.limit,
        }
    }

    /// How long a class may wait while it is overloaded. A wait shorter than the time of a slot
    /// could not bridge one release; High gets three of them.
    fn overload_bound(&self, class: Class) -> Option<u64> {
        if self.overloaded & class.bit() == 0 || self.hold_bound_ns == 0 {
            return None;
        }
        let slots = if class == Class::High { 3 } else { 1 };
        Some(
            self.hold_bound_ns
                .max(self.service_time_ns.saturating_mul(slots)),
        )
    }
}

/// What all workers of a data plane share: the slots that are taken and how many wait.
pub trait Shared {
    /// Takes a slot if fewer than `bound` are taken; must be one atomic step.
    fn take(&mut self, bound: u64) -> bool;
    /// Gives a slot back.
    fn give(&mut self);
    /// Slots that are taken.
    fn inflight(&self) -> u64;
    /// `count` more requests of `class` could use a slot. Never called with zero.
    fn wait(&mut self, class: Class, count: u64);
    /// `count` of them no longer wait.
    fn leave(&mut self, class: Class, count: u64);
    /// Requests of `class` that could use a slot, of all workers.
    fn waiting(&self, class: Class) -> u64;
    /// One more request is held.
    fn hold(&mut self);
    /// One less.
    fn unhold(&mut self);
    /// Requests held by all workers, those that could not use a slot included.
    fn held(&self) -> u64;
}

/// [`Shared`] for a data plane of one worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoleWorker {
    inflight: u64,
    waiting: [u64; Class::COUNT],
    held: u64,
}

impl Shared for SoleWorker {
    fn take(&mut self, bound: u64) -> bool {
        let is_free = self.inflight < bound;
        self.inflight += u64::from(is_free);
        is_free
    }

    fn give(&mut self) {
        self.inflight -= 1;
    }

    fn inflight(&self) -> u64 {
        self.inflight
    }

    fn wait(&mut self, class: Class, count: u64) {
        self.waiting[class as usize] += count;
    }

    fn leave(&mut self, class: Class, count: u64) {
        self.waiting[class as usize] -= count;
    }

    fn waiting(&self, class: Class) -> u64 {
        self.waiting[class as usize]
    }

    fn hold(&mut self) {
        self.held += 1;
    }

    fn unhold(&mut self) {
        self.held -= 1;
    }

    fn held(&self) -> u64 {
        self.held
    }
}
