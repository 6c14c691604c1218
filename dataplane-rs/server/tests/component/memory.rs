//! What is kept for requests that are not whole: bounded, in sight, and given back.

use crate::certificates::certificates;
use crate::sender::post;
use crate::world::{Setup, World, eventually, source};

const HEAD: &[u8] = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";

/// What bytes may count as: buffers have up to a quarter more.
fn is_about(kept: usize, bytes: usize) -> bool {
    (bytes..=bytes + bytes / 4).contains(&kept)
}

#[test]
fn what_is_kept_is_in_sight_until_it_is_used_or_its_sender_is_gone() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let part = [HEAD, &[b'x'; 99_999]].concat();
    let mut whole = world.connect(0);
    whole.send(&part);
    let mut broken = world.connect(0);
    broken.send(&part);
    let kept = |world: &World| world.counts(0).kept_bytes() as usize;
    eventually("both are kept", || is_about(kept(&world), 2 * part.len()));
    broken.reset();
    eventually("one is", || is_about(kept(&world), part.len()));
    whole.send(b"x");
    world.accept_next(0, &[b'x'; 100_000]);
    assert_eq!(whole.answer().status, 200);
    eventually("none is", || kept(&world) == 0);
    assert_eq!(world.counts(0).kept_refused(), 0);
}

#[test]
fn the_largest_body_comes_through_the_least_memory_that_a_config_may_give_it() {
    let max_body = 1 << 20;
    let mut setup = Setup {
        ring_size: 8 << 20,
        ..Setup::default()
    };
    setup.sources[0].max_body = max_body as u64;
    setup.http.receive_memory = 2 * (max_body as u64 + 128 * 1024);
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let body = vec![b'x'; max_body];
    let chunks = [&b"100000\r\n"[..], &body, b"\r\n0\r\n\r\n"].concat();
    for (framing, rest) in [
        ("Content-Length: 1048576", &body),
        ("Transfer-Encoding: chunked", &chunks),
    ] {
        let mut sender = world.connect(0);
        let head = format!("POST /a HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n");
        for piece in [head.as_bytes()].into_iter().chain(rest.chunks(50_000)) {
            let before = world.counts(0).bytes_in();
            sender.send(piece);
            eventually("it came", || {
                world.counts(0).bytes_in() - before == piece.len() as u64
            });
        }
        world.accept_next(0, &body);
        assert_eq!(sender.answer().status, 200, "{framing}");
    }
    assert_eq!(world.counts(0).kept_refused(), 0);
}

#[test]
fn bytes_that_are_not_a_record_yet_are_kept_bytes_too() {
    let setup = Setup {
        listeners: vec![certificates().listener()],
        ..Setup::default()
    };
    let Some(world) = World::start(setup) else {
        return;
    };
    let mut sender = world.connect(0);
    sender.send(b"\x16\x03\x01\x02\x00\x01\x00");
    eventually("they are kept", || world.counts(0).kept_bytes() >= 7);
    sender.reset();
    eventually("they are not", || world.counts(0).kept_bytes() == 0);
}

#[test]
fn a_bound_that_a_reload_lowers_holds_for_those_that_come() {
    let mut setup = Setup {
        workers: 2,
        ..Setup::default()
    };
    setup.sources[0].max_body = 100_000;
    let (mut bounds, sources) = (setup.http, setup.sources.clone());
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let part = [HEAD, &[b'x'; 99_999]].concat();
    let mut first = world.connect(0);
    first.send(&part);
    let kept = |world: &World, worker| world.counts(worker).kept_bytes() as usize;
    eventually("it is kept", || is_about(kept(&world, 0), part.len()));
    // Half of a worker's share takes one such request and no second one.
    bounds.receive_memory = 2 * 600_000;
    world.configure(2, bounds, sources);
    let mut senders = Vec::new();
    for _ in 0..2 {
        let mut sender = world.connect(0);
        sender.send(&part[..HEAD.len() + 60_000]);
        senders.push(sender);
    }
    let bytes = part.len() + 2 * (HEAD.len() + 60_000);
    eventually("they are kept", || is_about(kept(&world, 0), bytes));
    let mut refused = world.connect(0);
    refused.try_send(&part);
    let answer = refused.answer();
    assert_eq!((answer.status, answer.closes()), (503, true));
    assert_eq!(answer.header("X-Backpressure-Reason"), Some("Overloaded"));
    assert_eq!(world.counts(0).kept_refused(), 1);
    // The other worker has its own share.
    let mut other = world.connect(1);
    other.send(&part);
    eventually("it is kept", || is_about(kept(&world, 1), part.len()));
    first.send(b"x");
    world.accept_next(0, &[b'x'; 100_000]);
    assert_eq!(first.answer().status, 200);
}

#[test]
fn heads_of_no_source_leave_memory_for_one_that_has_a_source() {
    let mut setup = Setup {
        sources: vec![source("/a", 0)],
        ..Setup::default()
    };
    setup.http.receive_memory = 600_000;
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let head = [&b"POST /"[..], &[b'x'; 30_000]].concat();
    let mut slow = Vec::new();
    let mut refused = 0;
    while refused == 0 {
        let mut sender = world.connect(0);
        let before = (world.counts(0).bytes_in(), world.counts(0).kept_refused());
        sender.send(&head);
        eventually("it is kept or refused", || {
            refused = world.counts(0).kept_refused() - before.1;
            refused > 0 || world.counts(0).bytes_in() == before.0 + head.len() as u64
        });
        slow.push(sender);
    }
    assert_eq!(slow.last_mut().unwrap().answer().status, 503);
    let mut sender = world.connect(0);
    sender.send(&post("/a", &[b'a'; 100_000]));
    world.accept_next(0, &[b'a'; 100_000]);
    assert_eq!(sender.answer().status, 200);
}
