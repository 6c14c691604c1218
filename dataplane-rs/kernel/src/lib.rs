//! The only crate that talks to the kernel on the data path: sockets, waits and clocks, turned into
//! completions for the worker above.
//!
//! It does *not* know HTTP, TLS, frames or lanes, keeps no policy (every tuned number comes in
//! through [`Options`]), maps no lane file and starts no thread. A worker thread builds one
//! [`Backend`], implements [`Sink`], and calls [`Backend::turn`] for ever.
//!
//! ```text
//!  loop {                                        one turn
//!      drain replies, timers, new work           the worker's own
//!      ring doorbells, take a sleep ticket       the worker's own
//!      backend.turn(&mut sink, Wait::at_most(d)) submit + wait + dispatch:
//!          sink.on_awake                             once, right after the wait
//!          sink.on_accept / on_data / on_sent ...    any number, borrowed data
//!  }
//! ```
//!
//! Everything in here belongs to one thread. Another thread reaches a worker only by writing to
//! an eventfd that the worker watches ([`Backend::watch`]).

#![deny(missing_docs)]

mod backend;
mod caps;
mod epoll;
mod error;
mod ids;
mod outbox;
mod phases;
mod probe;
pub mod sandbox;
mod seats;
mod shortage;
mod stats;
pub mod sys;
mod tag;
mod uring;

pub use backend::{Backend, Close, Options, SendBuf, SendRefused, Share, Sink, Wait, WhyRefused};
pub use caps::{Caps, Missing, Refusal};
pub use epoll::Epoll;
pub use error::{Errno, Error};
pub use ids::{ConnId, ListenerId, WakeId};
pub use probe::probe;
pub use stats::Stats;
pub use uring::Uring;
