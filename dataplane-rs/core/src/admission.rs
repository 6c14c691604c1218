//! Who gets a slot now, who waits for one, and who is shed.
//!
//! It computes no limit (that comes in [`Numbers`]), verifies no request and answers nobody. One
//! [`Admission`] is one worker's; what all workers share is in [`Slots`].
//!
//! A request is offered once it is whole. Its [`Class`] is computed then. It takes a slot when one
//! is free and nobody of its class or above waits for one, otherwise it is held: strict classes,
//! round robin over sources inside a class, oldest first, or newest first while the class is
//! overloaded (under overload the oldest is the one whose sender gives up next, so serving it helps
//! nobody). Over its share a source is of a lower class, never refused for it.
//! Who waits while its source comes to be guarded is raised to class High instead of being shed.
//!
//! The *floor* is for those who would get no slot and must get an answer now and then: handshakes,
//! senders that probe with wrong signatures, sources nearly disabled or without a success for long.
//! It is a few slots beyond the limit and bounded by two rates, for each source and for all.
//!
//! A *heavy* request takes long to judge, and what lies behind it in the lane waits for that. So
//! the weight of those that one worker admits and are not answered is bounded, and over a share of
//! the slots they go last, whatever their class. Who goes last is held, and in nobody's way.
//!
//! A *ring* request takes no slot: the lane bounds it. While its lane is half full it is held, in
//! the same classes, and it goes on as soon as there is room again.
//!
//! # States of a request
//!
//! ```text
//! offer ──▶ admitted ─────────────────────────────▶ release, unless it is a ring request
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
//! [`Slots::pulse`] at the beginning of each turn. [`Admission::offer`] for each whole request.
//! After each [`Admission::release`], each change of numbers, each wake-up by another worker and
//! once a turn while somebody waits: [`Admission::grant`] until it says [`Grant::Idle`] or
//! [`Grant::Elsewhere`]; the latter asks to wake that worker, always, since it is said only once.
//! Every [`crate::limits::EXPIRE_INTERVAL_NS`] while somebody waits: [`Admission::expire`].
//!
//! ```
//! use sluice_core::admission::{Admission, Class, Grant, Numbers, Offer, Priority, Slots, Verdict};
//!
//! let hold_budget_ns = 2_500_000_000;
//! let numbers = Numbers { limit: 1, max_held: 8, hold_budget_ns, ..Numbers::default() };
//! let slots = Slots::new(1, 1);
//! let mut admission = Admission::new(0, 8);
//! let offer = |token| Offer {
//!     token, // names the connection
//!     source: 0,
//!     priority: Priority::Default,
//!     never_retries: false,
//!     repeat: false,
//!     handshake: false,
//!     probes: false,
//!     guard_after: 0,
//!     until_ns: 9_000_000_000,
//!     ring: false,
//!     weight: 0,
//! };
//! assert_eq!(admission.offer(0, &offer(1), &numbers, &slots), (Class::Default, Verdict::Admit));
//! let held = admission.offer(0, &offer(2), &numbers, &slots);
//! assert!(matches!(held, (Class::Default, Verdict::Hold { pushed_out: None, .. })));
//! admission.release(&slots); // request 1 is durable
//! let granted = admission.grant(1_000_000, &numbers, &slots);
//! assert!(matches!(granted, Grant::Admit(waiter) if waiter.token == 2));
//! ```

mod class;
mod hold;
mod meter;
mod numbers;
mod overload;
mod queue;
mod rate;
mod repeats;
mod retry;
mod share;
mod slots;

pub use class::{Class, Priority};
pub use hold::{Admission, Grant, Offer, Shed, Verdict};
pub use numbers::Numbers;
pub use queue::{Ticket, Waiter};
pub use rate::Rate;
pub use repeats::RepeatFilter;
pub use retry::Jitter;
pub use slots::{Pulse, Slots, Standing};
