//! What the data plane decides about bytes, routes, slots and time.
//!
//! It opens no socket, reads no clock, makes no system call and holds no unsafe code: time comes in
//! as `u64` nanoseconds, randomness as a seed, and the numbers that all workers share through
//! [`admission::Slots`]. It knows no provider and no tuned constant; its bounds are in [`limits`].
//!
//! The modules in the order of a request: [`http1`] reads a head and its body, [`routes`] finds the
//! source and [`ids`] its sender's name of the event, [`admission`] gives it a slot or a place in
//! the queue, [`answers`] writes what the sender gets, and [`timers`] ends what takes too long.
//! [`Refusal`] is every fault of a sender.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod admission;
pub mod answers;
pub mod forwarded;
pub mod http1;
pub mod ids;
pub mod limits;
pub mod proxy;
mod refusal;
pub mod routes;
pub mod timers;

pub use refusal::Refusal;
