//! A lane that is nearly full.

use crate::sender::{Sender, post};
use crate::world::{FIRST_COME, MILLISECOND, Setup, World, eventually, source};
use sluice_proto as proto;

/// Seven of these leave less than an eighth of the ring, and less than one of them.
const LARGE: usize = 128 * 1024;

fn send(world: &World, path: &str, body: &[u8]) -> Sender {
    let mut sender = world.connect(0);
    sender.send(&post(path, body));
    sender
}

/// Fills the lane with seven large frames.
fn fill(world: &mut World) -> (Vec<crate::control::Frame>, Vec<Sender>) {
    let body = vec![b'x'; LARGE];
    (0..7)
        .map(|_| {
            let sender = send(world, "/a", &body);
            (world.control[0].frame(), sender)
        })
        .unzip()
}

#[test]
fn a_frame_without_room_waits_and_a_small_one_does_not_pass_it() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let (frames, mut senders) = fill(&mut world);
    let mut large = send(&world, "/a", &vec![b'y'; LARGE]);
    eventually("it has its slot", || world.inflight() == 8);
    let mut small = send(&world, "/a", b"small");
    eventually("it has one, too", || world.inflight() == 9);
    assert!(!world.control[0].has_frame());
    // Replies go on meanwhile.
    for (frame, sender) in frames.iter().zip(&mut senders) {
        world.control[0].accept(frame);
        assert_eq!(sender.answer().status, 200);
    }
    assert!(!world.control[0].has_frame());
    eventually("it sleeps", || world.control[0].waits_for_room());
    world.control[0].consume(&frames[0]);
    let first = world.control[0].frame();
    assert!(first.body == vec![b'y'; LARGE]);
    let second = world.control[0].frame();
    assert_eq!(second.body, b"small");
    for (frame, sender) in [(&first, &mut large), (&second, &mut small)] {
        world.control[0].accept(frame);
        assert_eq!(sender.answer().status, 200);
    }
    world.control[0].consume(&second);
}

#[test]
fn over_nine_tenths_a_request_is_refused_and_taken_again_when_there_is_room() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let (frames, _senders) = fill(&mut world);
    let _more = send(&world, "/a", &vec![b'x'; 40 * 1024]);
    let more = world.control[0].frame();
    let mut refused = send(&world, "/a", b"refused");
    let answer = refused.answer();
    assert_eq!((answer.status, answer.closes()), (503, false));
    assert_eq!(answer.header("X-Backpressure-Reason"), Some("Overloaded"));
    world.control[0].consume(&frames[6]);
    refused.send(&post("/a", b"taken"));
    let frame = world.control[0].frame();
    assert_eq!(frame.body, b"taken");
    world.control[0].accept(&frame);
    assert_eq!(refused.answer().status, 200);
    world.control[0].accept(&more);
    world.control[0].consume(&frame);
    assert_eq!(world.plane.counters.source(0, 0).shed_lane(), 1);
    assert_eq!(world.plane.counters.worker(0).lane_full(), 1);
}

#[test]
fn a_request_that_never_gets_room_gives_its_slot_back() {
    let mut quick = source("/quick", 1);
    quick.budget_ns = 60 * MILLISECOND;
    let setup = Setup {
        sources: vec![source("/a", 0), quick],
        ..Setup::default()
    };
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let (frames, _senders) = fill(&mut world);
    let mut unlucky = send(&world, "/quick", &vec![b'x'; LARGE]);
    assert_eq!(unlucky.answer().status, 503);
    assert_eq!(world.inflight(), 7);
    // One whose sender leaves meanwhile does, too.
    let gone = send(&world, "/a", &vec![b'x'; LARGE]);
    eventually("it has a slot", || world.inflight() == 8);
    gone.reset();
    eventually("it has none", || world.inflight() == 7);
    unlucky.send(&post("/a", b"next"));
    let next = world.control[0].frame();
    assert_eq!(next.body, b"next");
    world.control[0].accept(&next);
    assert_eq!(unlucky.answer().status, 200);
    world.control[0].consume(&next);
    drop(frames);
}

#[test]
fn from_half_full_on_ring_requests_wait_as_if_there_were_no_slot() {
    let mut ring = source("/ring", 1);
    ring.acknowledge = proto::Acknowledge::Ring.into();
    let setup = Setup {
        sources: vec![source("/a", 0), ring],
        ..Setup::default()
    };
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let (frames, _senders) = fill(&mut world);
    let mut waits = send(&world, "/ring", b"waits");
    eventually("it is held", || world.held() == 1);
    let mut passes = send(&world, "/a", b"passes");
    let frame = world.control[0].frame();
    assert_eq!(frame.body, b"passes");
    world.control[0].accept(&frame);
    assert_eq!(passes.answer().status, 200);
    world.control[0].consume(&frames[6]);
    let frame = world.control[0].frame();
    assert_eq!(frame.body, b"waits");
    world.control[0].accept(&frame);
    assert_eq!(waits.answer().status, 200);
    world.control[0].consume(&frame);
}

#[test]
fn a_crowd_of_ring_requests_that_goes_on_does_not_overrun_half_of_the_lane() {
    let mut ring = source("/ring", 1);
    ring.acknowledge = proto::Acknowledge::Ring.into();
    let setup = Setup {
        sources: vec![source("/a", 0), ring],
        words: FIRST_COME.into(),
        ..Setup::default()
    };
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let (frames, _senders) = fill(&mut world);
    let body = vec![b'r'; 20_000];
    let mut crowd: Vec<Sender> = (0..40)
        .map(|i| {
            let sender = send(&world, "/ring", &body);
            eventually("it is held", || world.held() == i + 1);
            sender
        })
        .collect();
    assert_eq!(world.inflight(), 7, "none of them has a slot");
    world.control[0].consume(&frames[6]);
    let mut answered = 0;
    while answered < crowd.len() {
        let open = frames_of(&mut world, crowd.len() - answered);
        let bytes: u64 = open.iter().map(|f| u64::from(f.line.length)).sum();
        // As many as fit into a half, and one that crosses it.
        assert!(bytes <= (1 << 19) + 21_000, "{bytes} bytes in the lane");
        for frame in &open {
            world.control[0].accept(frame);
            assert_eq!(crowd[answered].answer().status, 200);
            answered += 1;
        }
        world.control[0].consume(open.last().expect("at least one"));
    }
}

/// The frames that lie in the lane once all have gone on that will without more room.
fn frames_of(world: &mut World, waiting: usize) -> Vec<crate::control::Frame> {
    let mut frames = Vec::new();
    eventually("no more go on", || {
        while world.control[0].has_frame() {
            frames.push(world.control[0].frame());
        }
        let bytes: u64 = frames.iter().map(|f| u64::from(f.line.length)).sum();
        frames.len() == waiting || bytes >= 1 << 19
    });
    frames
}
