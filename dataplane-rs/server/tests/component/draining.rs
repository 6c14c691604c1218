//! The end of a data plane, wanted.

use crate::sender::post;
use crate::world::{FIRST_COME, MILLISECOND, SECOND, STOPPING, Setup, World, eventually, source};
use sluice_kernel::sys;

#[test]
fn a_drain_answers_what_is_open_and_then_the_worker_ends() {
    let Some(mut world) = World::start(Setup {
        limit: 1,
        words: FIRST_COME.into(),
        ..Setup::default()
    }) else {
        return;
    };
    let mut idle = world.connect(0);
    let mut awaits = world.connect(0);
    awaits.send(&post("/a", b"awaits"));
    let first = world.control[0].frame();
    let mut held = world.connect(0);
    held.send(&[post("/a", b"held"), post("/a", b"behind")].concat());
    eventually("it is held", || world.held() == 1);
    let mut half = world.connect(0);
    half.send(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nha");
    eventually("all are there", || {
        world.plane.counters.worker(0).requests() == 3
    });

    world.plane.drain(sys::boot_ns() + 600 * SECOND);
    idle.expect_end();
    eventually("it no longer accepts", || !world.plane.all_accept(1));
    half.send(b"lf");
    eventually("it is held, too", || world.held() == 2);
    let mut before = first;
    for (sender, next) in [
        (&mut awaits, Some(&b"held"[..])),
        (&mut held, Some(b"half")),
        (&mut half, None),
    ] {
        world.control[0].accept(&before);
        world.control[0].consume(&before);
        let answer = sender.answer();
        assert_eq!((answer.status, answer.closes()), (200, true));
        sender.expect_end();
        if let Some(body) = next {
            before = world.control[0].frame();
            assert_eq!(before.body, body);
        }
    }
    drop((idle, awaits, held, half));
    assert_eq!(world.end(), [true]);
    assert!(world.control[0].is_closed());
}

#[test]
fn at_the_end_of_a_drain_what_is_left_is_cut() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let mut awaits = world.connect(0);
    awaits.send(&post("/a", b"awaits"));
    let _frame = world.control[0].frame();
    world.plane.drain(sys::boot_ns() + SECOND / 10);
    awaits.expect_end();
    assert_eq!(world.end(), [true]);
    assert!(world.control[0].is_closed());
    assert_eq!(world.inflight(), 1, "the frame stays, and so does its slot");
}

#[test]
fn while_the_control_plane_stops_new_requests_get_503_and_close() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let mut old = world.connect(0);
    old.send(&post("/a", b"old"));
    let frame = world.control[0].frame();
    world.store(STOPPING, 1);
    for path in ["/a", "/nowhere"] {
        let mut new = world.connect(0);
        new.send(&post(path, b"new"));
        let answer = new.answer();
        assert_eq!((answer.status, answer.closes()), (503, true));
        assert!((5..=20).contains(&answer.retry_after()));
        new.expect_end();
    }
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    let answer = old.answer();
    assert_eq!((answer.status, answer.closes()), (200, true));
    let source = world.plane.counters.source(0, 0);
    assert_eq!(
        (source.shed_stopping(), source.code_503(), source.code_2xx()),
        (1, 1, 1)
    );
    assert_eq!(world.plane.counters.worker(0).unrouted(), 1);
}

#[test]
fn a_budget_that_ends_during_a_drain_ends_the_connection() {
    let mut quick = source("/a", 0);
    quick.budget_ns = 60 * MILLISECOND;
    let setup = Setup {
        sources: vec![quick],
        ..Setup::default()
    };
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let mut sender = world.connect(0);
    sender.send(&post("/a", b"x"));
    let _frame = world.control[0].frame();
    world.plane.drain(sys::boot_ns() + 600 * SECOND);
    let answer = sender.answer();
    assert_eq!((answer.status, answer.closes()), (503, true));
    sender.expect_end();
    drop(sender);
    assert_eq!(world.end(), [true]);
}
