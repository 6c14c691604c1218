//! TLS for one connection at a time: bytes in, bytes out, no socket and no clock.
//!
//! The protocol is rustls's, through its unbuffered interface; what this crate adds is what a
//! server of many idle connections needs around it: no buffer where no record is open, an alert for
//! every verdict, the choice of a certificate, tickets that other processes can open, and the names
//! of a client certificate as lines. It does not read or write sockets, set deadlines, bound how
//! many handshakes there are, or decide what a client's name permits: that is the server's.
//!
//! What is on: TLS 1.2 and 1.3 with what aws-lc-rs offers, X25519MLKEM768 first, and ALPN
//! `http/1.1` alone. What is off: early data (it could be replayed), renegotiation, compression,
//! and sending before the handshake is over.
//!
//! The time of day is read where certificates are verified and tickets are sealed and opened.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod certificates;
mod client;
mod error;
pub mod limits;
mod session;
mod settings;
#[cfg(test)]
mod tests;
mod tickets;

pub use error::Error;
pub use session::Session;
pub use settings::{Acceptor, CertificateKey, Settings};
pub use tickets::{TicketKey, Tickets};
