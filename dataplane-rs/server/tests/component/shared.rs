//! Listening sockets that workers share, and several rows of them.

use crate::certificates::certificates;
use crate::sender::post;
use crate::world::{PATIENCE, Row, Setup, World};
use sluice_proto as proto;
use std::time::Instant;

#[test]
fn every_worker_gets_connections_of_a_socket_that_they_share() {
    for row in [Row::Shared, Row::Unix] {
        let setup = Setup {
            workers: 2,
            rows: vec![row],
            ..Setup::default()
        };
        let Some(world) = World::start(setup) else {
            return;
        };
        let until = Instant::now() + PATIENCE;
        let mut senders = Vec::new();
        while (0..2).any(|worker| world.counts(worker).requests() < 2) {
            assert!(Instant::now() < until, "one worker gets nothing");
            let mut sender = world.connect(0);
            sender.send(&post("/nowhere", b"x"));
            assert_eq!(sender.answer().status, 404);
            senders.push(sender);
            senders.truncate(100);
        }
    }
}

#[test]
fn each_row_has_its_own_settings() {
    let setup = Setup {
        rows: vec![Row::Tcp, Row::Tcp, Row::Unix],
        listeners: vec![
            proto::Listener::default(),
            certificates().listener(),
            certificates().listener(),
        ],
        ..Setup::default()
    };
    let Some(mut world) = World::start(setup) else {
        return;
    };
    for (row, has_tls) in [(0, false), (1, true), (2, true)] {
        let mut sender = world.connect_row(row, 0);
        if has_tls {
            sender = sender.into_tls(&certificates().client());
        }
        sender.send(&post("/a", b"x"));
        let flags = world.accept_next(0, b"x").line.flags;
        assert_eq!(flags == shm_abi::FRAME_FLAG_TLS, has_tls, "row {row}");
        assert_eq!(sender.answer().status, 200);
    }
}
