//! Replies that come right, late, twice, for somebody else, or not at all.

use crate::sender::post;
use crate::world::{MILLISECOND, Setup, World, eventually, source};
use shm_abi::{REPLY_DUPLICATE, REPLY_INLINE, REPLY_QUEUED};
use sluice_proto as proto;

fn quick() -> Setup {
    let mut quick = source("/quick", 1);
    quick.budget_ns = 60 * MILLISECOND;
    Setup {
        sources: vec![source("/a", 0), quick],
        ..Setup::default()
    }
}

#[test]
fn a_reply_behind_the_budget_is_dropped_and_the_next_request_gets_its_own() {
    let Some(mut world) = World::start(quick()) else {
        return;
    };
    let mut sender = world.connect(0);
    sender.send(&post("/quick", b"late"));
    let late = world.control[0].frame();
    let answer = sender.answer();
    assert_eq!((answer.status, answer.closes()), (503, false));
    assert_eq!(answer.header("X-Backpressure-Reason"), Some("Overloaded"));
    assert_eq!(world.inflight(), 1, "the slot belongs to the frame");
    sender.send(&post("/a", b"next"));
    let next = world.control[0].frame();
    world.control[0].accept(&late);
    world.control[0].refuse(&next, 401);
    assert_eq!(sender.answer().status, 401);
    world.control[0].consume(&next);
    let source = world.plane.counters.source(0, 1);
    assert_eq!(
        (source.shed_budget(), source.code_503(), source.code_2xx()),
        (1, 1, 0)
    );
    assert_eq!(world.plane.counters.worker(0).late_replies(), 1);
    assert_eq!(world.plane.counters.worker(0).budget_over(), 1);
}

#[test]
fn a_reply_counts_once_and_a_wrong_seq_not_at_all() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let mut sender = world.connect(0);
    for round in 0..3 {
        sender.send(&post("/a", b"x"));
        let frame = world.control[0].frame();
        let mut wrong = frame.answer(shm_abi::REPLY_ACCEPTED, 200);
        for seq in [frame.line.seq + 1, frame.line.seq - 1, 0, u32::MAX] {
            wrong.seq = seq;
            world.control[0].reply(&wrong);
        }
        world.control[0].refuse(&frame, 403);
        world.control[0].accept(&frame);
        world.control[0].consume(&frame);
        assert_eq!(sender.answer().status, 403);
        eventually("all replies were seen", || {
            world.plane.counters.worker(0).late_replies() == 5 * (round + 1)
        });
    }
    assert_eq!(world.inflight(), 0);
    assert_eq!(world.plane.counters.source(0, 0).code_403(), 3);
}

#[test]
fn a_reply_for_a_connection_that_is_gone_does_not_reach_the_next_one_in_its_seat() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let mut gone = world.connect(0);
    gone.send(&post("/a", b"gone"));
    let old = world.control[0].frame();
    gone.reset();
    eventually("it is closed", || {
        world.plane.counters.worker(0).closed() == 1
    });
    assert_eq!(world.inflight(), 1, "the frame keeps its slot");

    let mut sender = world.connect(0);
    sender.send(&post("/a", b"new"));
    let new = world.control[0].frame();
    let seat = |token: u64| token & ((1 << 20) - 1);
    assert_eq!(
        seat(old.line.token),
        seat(new.line.token),
        "the seat is used again"
    );
    assert_ne!(old.line.token, new.line.token);
    assert_eq!(old.line.seq, new.line.seq);
    world.control[0].accept(&old);
    world.control[0].refuse(&new, 401);
    assert_eq!(sender.answer().status, 401);
    world.control[0].consume(&new);
    assert_eq!(world.plane.counters.worker(0).late_replies(), 1);
}

#[test]
fn the_slot_of_a_connection_that_closed_ends_with_its_frame() {
    let mut delivered = source("/a", 0);
    delivered.acknowledge = proto::Acknowledge::Delivered.into();
    let setup = Setup {
        sources: vec![delivered],
        ..Setup::default()
    };
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let mut gone = world.connect(0);
    gone.send(&post("/a", b"gone"));
    let frame = world.control[0].frame();
    gone.reset();
    eventually("it is closed", || {
        world.plane.counters.worker(0).closed() == 1
    });
    assert_eq!(world.inflight(), 1);
    eventually("it sleeps", || world.control[0].waits_for_room());
    // No reply: the bell rings for the room alone.
    world.control[0].consume(&frame);
    eventually("the slot is given back", || world.inflight() == 0);
    // A reply that comes later gives back nothing more.
    world.control[0].accept(&frame);
    eventually("it was seen", || {
        world.plane.counters.worker(0).late_replies() == 1
    });
    assert_eq!(world.inflight(), 0);
}

#[test]
fn a_reply_that_comes_after_its_frames_room_was_given_back_still_answers() {
    let mut delivered = source("/a", 0);
    delivered.acknowledge = proto::Acknowledge::Delivered.into();
    let budget_ns = delivered.budget_ns;
    let setup = Setup {
        sources: vec![delivered],
        ..Setup::default()
    };
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let mut sender = world.connect(0);
    for (kind, code, body) in [
        (REPLY_QUEUED, 202, b"".as_slice()),
        (REPLY_INLINE, 201, b"<ok/>"),
        (REPLY_INLINE, 422, b"no"),
        (shm_abi::REPLY_ACCEPTED, 200, b""),
    ] {
        sender.send(&post("/a", b"x"));
        let frame = world.control[0].frame();
        let since_ns = frame.line.until_ns - budget_ns;
        assert!(
            since_ns > 0 && since_ns <= frame.line.admitted_ns,
            "the budget begins with the request, on the clock of the slot"
        );
        eventually("it sleeps", || world.control[0].waits_for_room());
        world.control[0].consume(&frame);
        eventually("the slot is given back", || world.inflight() == 0);
        // Another frame of the same worker goes by meanwhile.
        let mut other = world.connect(0);
        other.send(&post("/a", b"other"));
        let second = world.control[0].frame();
        world.control[0].accept(&second);
        world.control[0].consume(&second);
        assert_eq!(other.answer().status, 200);
        world.control[0].reply_with(&frame.answer(kind, code), b"X-Kind: late\r\n", body);
        let answer = sender.answer();
        assert_eq!(answer.status, code);
        if kind == REPLY_INLINE {
            assert_eq!(answer.header("X-Kind"), Some("late"));
            assert!(answer.body == body);
        }
    }
    assert_eq!(world.inflight(), 0);
    assert_eq!(world.plane.counters.worker(0).late_replies(), 0);
}

#[test]
fn every_kind_of_reply_has_its_form() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let mut sender = world.connect(0);
    let text = |body: Vec<u8>| String::from_utf8(body).unwrap();
    let mut ask = |kind, code, body: &[u8]| {
        sender.send(&post("/a", b"x"));
        let frame = world.control[0].frame();
        let entry = frame.answer(kind, code);
        world.control[0].reply_with(&entry, b"X-Kind: inline\r\n", body);
        world.control[0].consume(&frame);
        sender.answer()
    };
    let accepted = ask(shm_abi::REPLY_ACCEPTED, 200, b"");
    let id = accepted.header("X-Event-Id").unwrap().to_owned();
    assert_eq!(
        text(accepted.body),
        format!(r#"{{"status":"accepted","id":"{id}"}}"#)
    );
    let duplicate = ask(REPLY_DUPLICATE, 200, b"");
    assert_eq!(duplicate.status, 200);
    assert!(text(duplicate.body).contains(r#""status":"duplicate""#));
    let queued = ask(REPLY_QUEUED, 202, b"");
    assert_eq!(
        (queued.status, queued.header("X-Execution-Path")),
        (202, Some("Queue-Only"))
    );
    let large = vec![b'z'; 60_000];
    let inline = ask(REPLY_INLINE, 418, &large);
    assert_eq!(
        (inline.status, inline.header("X-Kind")),
        (418, Some("inline"))
    );
    assert!(inline.body == large);
    let source = world.plane.counters.source(0, 0);
    assert_eq!(
        (source.code_2xx(), source.code_other(), source.ack_count()),
        (3, 1, 4)
    );
}

#[test]
fn an_answer_to_head_has_no_body_and_one_to_http_1_0_closes() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let mut sender = world.connect(0);
    sender.send(b"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\nHEAD /nowhere HTTP/1.1\r\nHost: x\r\n\r\n");
    let frame = world.control[0].frame();
    world.control[0].accept(&frame);
    assert_eq!(sender.answer_to(true).status, 200);
    assert_eq!(sender.answer_to(true).status, 404);
    sender.send(b"GET /a HTTP/1.0\r\n\r\n");
    let frame = world.control[0].frame();
    assert_eq!(frame.line.flags, shm_abi::FRAME_FLAG_HTTP10);
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    let answer = sender.answer();
    assert!(answer.status == 200 && answer.closes());
    sender.expect_end();
}

#[test]
fn the_control_planes_bell_rings_once_a_frame_is_in_the_lane() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let mut sender = world.connect(0);
    let rang = world.control[0].rings_after(|| sender.send(&post("/a", b"x")));
    assert!(rang && world.control[0].has_frame());
    let frame = world.control[0].frame();
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    assert_eq!(sender.answer().status, 200);
    assert_eq!(world.plane.counters.worker(0).rings(), 1);
}

#[test]
fn without_control_plane_every_request_gets_503_when_its_budget_ends() {
    let Some(world) = World::start(quick()) else {
        return;
    };
    let mut senders: Vec<_> = (0..8).map(|_| world.connect(0)).collect();
    for _ in 0..2 {
        for sender in &mut senders {
            sender.send(&post("/quick", b"x"));
        }
        for sender in &mut senders {
            assert_eq!(sender.answer().status, 503);
        }
    }
    assert_eq!(world.plane.counters.source(0, 1).shed_budget(), 16);
    assert_eq!(world.inflight(), 16);
}
