//! The data plane: from an accepted socket to a frame in the lane and back to an answer.
//!
//! It holds no tuned constant (numbers come through the control page), knows no provider (routes
//! come through a snapshot) and never touches a disk. It never waits for the control plane: without
//! one it goes on under its last snapshot, and what is not answered within its sender's budget gets
//! 503.
//!
//! In the order of a request: `sink` (accept, bytes) → `transport` (PROXY header, TLS) → `conn` →
//! `request` (head, body) → `admission` (slots) → `publish` (the lane, both ways) → `answer`;
//! `worker` is the turn around them. They keep their books in `inbox`, `memory`, `sender_id`,
//! `frames` and `tally`. Beside them: `config` and `listeners` (snapshots), `plane` (what threads
//! share), `grpc` and `handover` (the control plane's calls), `serve` (the process).
//!
//! A library only so that its tests can put a worker between a socket and a lane of their own.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod admission;
mod answer;
mod args;
mod config;
mod conn;
mod frames;
mod grpc;
mod handover;
mod inbox;
mod limits;
mod listeners;
mod memory;
mod plane;
mod publish;
mod request;
mod sender_id;
mod serve;
mod sink;
mod tally;
mod transport;
mod worker;

pub use args::{Args, Command, HELP, parse};
pub use config::{Config, Host};
pub use limits::{BODY_BYTES_MAX, KEPT_BYTES_MAX, TURNED_AWAY_MAX};
pub use listeners::Listener;
pub use plane::{Counted, Notice, Plane};
pub use serve::{probe_report, serve, version};
pub use worker::{Parts, Worker};
