//! Fewer slots than requests.

use crate::sender::{Sender, post};
use crate::world::{FIRST_COME, HOLD_BUDGET, LIMIT, MILLISECOND, Setup, World, eventually, source};
use sluice_proto as proto;

fn first_come() -> Setup {
    Setup {
        words: FIRST_COME.into(),
        ..Setup::default()
    }
}

/// A world whose one slot is taken by the frame that is given along.
pub fn one_slot(setup: Setup) -> Option<(World, crate::control::Frame, Sender)> {
    let mut world = World::start(Setup { limit: 1, ..setup })?;
    let mut first = world.connect(0);
    first.send(&post("/a", b"first"));
    let frame = world.control[0].frame();
    Some((world, frame, first))
}

/// One that waits behind whoever waits already.
pub fn hold(world: &World, worker: usize, path: &str, body: &[u8]) -> Sender {
    let before = world.held();
    let mut sender = world.connect(worker);
    sender.send(&post(path, body));
    eventually("it is held", || world.held() == before + 1);
    sender
}

#[test]
fn requests_without_a_slot_wait_and_go_in_the_order_in_which_they_came() {
    let Some((mut world, mut open, sender)) = one_slot(first_come()) else {
        return;
    };
    let mut senders = vec![sender];
    senders.extend((0..10).map(|i| hold(&world, 0, "/a", &[i])));
    for (i, sender) in senders.iter_mut().enumerate() {
        assert_eq!(world.inflight(), 1);
        assert!(!world.control[0].has_frame());
        world.control[0].accept(&open);
        world.control[0].consume(&open);
        assert_eq!(sender.answer().status, 200);
        if i < 10 {
            open = world.control[0].frame();
            assert_eq!(open.body, [i as u8]);
        }
    }
    assert_eq!(world.plane.counters.source(0, 0).hold_count(), 10);
}

#[test]
fn who_waits_too_long_is_told_when_to_come_again() {
    let setup = Setup {
        hold_budget_ns: 40 * MILLISECOND,
        ..Setup::default()
    };
    let Some((mut world, first, mut sender)) = one_slot(setup) else {
        return;
    };
    let mut waiting: Vec<Sender> = (0..5).map(|_| world.connect(0)).collect();
    for sender in &mut waiting {
        sender.send(&post("/a", b"waits"));
    }
    for sender in &mut waiting {
        let answer = sender.answer();
        assert_eq!((answer.status, answer.closes()), (503, false));
        assert_eq!(answer.header("X-Backpressure-Reason"), Some("Overloaded"));
        assert!((5..=20).contains(&answer.retry_after()));
    }
    // While they waited and were shed, the worker went on with everything else.
    world.control[0].accept(&first);
    world.control[0].consume(&first);
    assert_eq!(sender.answer().status, 200);
    eventually("nobody waits, nothing is taken", || {
        (world.held(), world.inflight()) == (0, 0)
    });
    let source = world.plane.counters.source(0, 0);
    assert_eq!((source.shed_hold(), source.code_503()), (5, 5));
}

#[test]
fn a_request_that_is_pushed_out_is_answered_and_what_it_pipelined_goes_on() {
    let mut high = source("/high", 1);
    high.priority = proto::Priority::High.into();
    let setup = Setup {
        max_held: 1,
        sources: vec![source("/a", 0), high],
        ..Setup::default()
    };
    let Some((mut world, first, _first)) = one_slot(setup) else {
        return;
    };
    // The one that is pushed out has a request of the higher class right behind it, which finds the
    // queue full in its turn.
    let mut low = world.connect(0);
    low.send(&[post("/a", b"low"), post("/high", b"behind low")].concat());
    eventually("it is held", || world.held() == 1);
    let mut high = world.connect(0);
    high.send(&post("/high", b"high"));
    assert_eq!(low.answer().status, 503);
    assert_eq!(low.answer().status, 503);
    assert_eq!(world.held(), 1);
    world.control[0].accept(&first);
    let frame = world.control[0].frame();
    assert_eq!(frame.body, b"high");
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    assert_eq!(high.answer().status, 200);
    assert_eq!(world.plane.counters.source(0, 0).shed_class(), 1);
    assert_eq!(world.plane.counters.source(0, 1).shed_held_full(), 1);
}

#[test]
fn a_held_request_whose_sender_leaves_takes_no_slot() {
    let Some((mut world, first, _sender)) = one_slot(first_come()) else {
        return;
    };
    let gone = hold(&world, 0, "/a", b"gone");
    let mut stays = hold(&world, 0, "/a", b"stays");
    // A FIN alone does not end the wait; a reset does.
    let half = hold(&world, 0, "/a", b"half");
    let mut half = half;
    half.finish();
    gone.reset();
    eventually("it left the queue", || world.held() == 2);
    let mut before = first;
    for (body, sender) in [(&b"stays"[..], &mut stays), (b"half", &mut half)] {
        world.control[0].accept(&before);
        world.control[0].consume(&before);
        before = world.control[0].frame();
        assert_eq!(before.body, body);
        world.control[0].accept(&before);
        assert_eq!(sender.answer().status, 200);
    }
    half.expect_end();
    world.control[0].consume(&before);
    eventually("no slot is taken", || world.inflight() == 0);
}

#[test]
fn a_slot_that_one_worker_frees_goes_to_who_waits_at_another() {
    let mut delivered = source("/delivered", 1);
    delivered.acknowledge = proto::Acknowledge::Delivered.into();
    let setup = Setup {
        workers: 2,
        sources: vec![source("/a", 0), delivered],
        ..Setup::default()
    };
    let Some((mut world, mut open, sender)) = one_slot(setup) else {
        return;
    };
    let mut senders = vec![sender];
    let mut open_at = 0;
    for round in 0..20u8 {
        let next_at = 1 - open_at;
        let path = if round % 2 == 0 { "/delivered" } else { "/a" };
        let mut waiting = hold(&world, next_at, path, &[round]);
        // Freed by its reply, or by its room alone.
        if open.target == "/a" {
            world.control[open_at].accept(&open);
        }
        world.control[open_at].consume(&open);
        open = world.control[next_at].frame();
        assert_eq!(open.body, [round]);
        assert_eq!((world.inflight(), world.held()), (1, 0));
        open_at = next_at;
        waiting.finish();
        senders.push(waiting);
    }
    world.control[open_at].accept(&open);
    world.control[open_at].consume(&open);
    assert_eq!(senders[20].answer().status, 200);
}

#[test]
fn a_higher_class_that_waits_at_another_worker_goes_first() {
    let mut high = source("/high", 1);
    high.priority = proto::Priority::High.into();
    let setup = Setup {
        workers: 2,
        sources: vec![source("/a", 0), high],
        ..Setup::default()
    };
    let Some((mut world, first, _sender)) = one_slot(setup) else {
        return;
    };
    let _low = hold(&world, 0, "/a", b"low at 0");
    let _high = hold(&world, 1, "/high", b"high at 1");
    world.control[0].accept(&first);
    world.control[0].consume(&first);
    let frame = world.control[1].frame();
    assert_eq!(frame.body, b"high at 1");
    assert!(!world.control[0].has_frame());
    world.control[1].accept(&frame);
    world.control[1].consume(&frame);
    let frame = world.control[0].frame();
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
}

#[test]
fn numbers_of_the_control_page_are_taken_up_while_requests_wait() {
    let Some((mut world, first, _sender)) = one_slot(first_come()) else {
        return;
    };
    let mut second = hold(&world, 0, "/a", b"second");
    let mut third = hold(&world, 0, "/a", b"third");
    world.store(LIMIT, 2);
    let frame = world.control[0].frame();
    assert_eq!(frame.body, b"second");
    world.store(HOLD_BUDGET, 1);
    assert_eq!(third.answer().status, 503);
    world.control[0].accept(&frame);
    assert_eq!(second.answer().status, 200);
    world.control[0].accept(&first);
    world.control[0].consume(&frame);
}

#[test]
fn of_many_workers_only_the_one_is_woken_that_can_use_the_slot() {
    const ROUNDS: u64 = 100;
    let Some((mut world, mut open, sender)) = one_slot(Setup {
        workers: 4,
        ..Setup::default()
    }) else {
        return;
    };
    let mut senders = vec![sender];
    let turns = |world: &World, worker| world.plane.counters.worker(worker).turns();
    let before = [turns(&world, 2), turns(&world, 3)];
    let mut open_at = 0;
    for round in 0..ROUNDS {
        let next_at = 1 - open_at;
        senders.push(hold(&world, next_at, "/a", &round.to_le_bytes()));
        world.control[open_at].accept(&open);
        world.control[open_at].consume(&open);
        open = world.control[next_at].frame();
        assert_eq!(open.body, round.to_le_bytes());
        open_at = next_at;
    }
    // They turn about once a second by themselves.
    for (worker, before) in [2, 3].into_iter().zip(before) {
        let woken = turns(&world, worker) - before;
        assert!(woken < ROUNDS / 2, "worker {worker} turned {woken} times");
    }
    world.control[open_at].accept(&open);
    world.control[open_at].consume(&open);
    for sender in &mut senders {
        assert_eq!(sender.answer().status, 200);
    }
}
