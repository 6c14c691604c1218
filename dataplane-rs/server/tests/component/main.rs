//! Workers between real sockets and a lane, with the control plane played by the test: it reads
//! frames and writes replies through the lane's file, by script, rightly or wrongly.

mod bounds;
mod chaos;
mod classes;
mod control;
mod counting;
mod draining;
mod faults;
mod holding;
mod lane_room;
mod naming;
mod pipelining;
mod replies;
mod sender;
mod world;
