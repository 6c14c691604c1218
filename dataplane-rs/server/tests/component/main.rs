//! Workers between real sockets and a lane, with the control plane played by the test: it reads
//! frames and writes replies through the lane's file, by script, rightly or wrongly.

mod bounds;
mod certificates;
mod chaos;
mod classes;
mod control;
mod corpus;
mod counting;
mod draining;
mod faults;
mod forwarded;
mod handshakes;
mod holding;
mod lane_room;
mod memory;
mod naming;
mod pipelining;
mod proxied;
mod replies;
mod resets;
mod sender;
mod shared;
mod tls;
mod turned_away;
mod world;
