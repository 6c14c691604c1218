//! The component suite on the epoll driver: the same files as in `main.rs`, built under a name that
//! tells `world` so.

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
