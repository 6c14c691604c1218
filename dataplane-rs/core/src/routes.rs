//! Finds the source of a request by its path, exactly.
//!
//! It verifies nothing and counts nothing. A table is built once from a snapshot, then only read.

mod handshake;
mod network;
mod table;

pub use handshake::Handshake;
pub use network::{Network, Networks, NoNetwork};
pub use table::{Ack, Methods, Route, RouteFault, Table};
