//! Workers between real sockets and a lane, with the control plane played by the test: it reads
//! frames and writes replies through the lane's file, by script, rightly or wrongly.

mod bounds;
mod chaos;
mod control;
mod draining;
mod faults;
mod holding;
mod lane_room;
mod pipelining;
mod replies;
mod sender;
mod world;
