//! TLS handshakes: how long each may take, and how many may be begun.

use crate::certificates::certificates;
use crate::sender::{Sender, post};
use crate::world::{MILLISECOND, Setup, World, eventually};
use sluice_proto as proto;
use std::time::{Duration, Instant};

fn setup(change: impl FnOnce(&mut proto::HttpBounds)) -> Setup {
    let mut setup = Setup {
        listeners: vec![certificates().listener()],
        ..Setup::default()
    };
    change(&mut setup.http);
    setup
}

/// A client that has sent its first flight and waits.
fn begun(world: &World) -> Sender {
    let mut sender = world.connect(0).into_tls(&certificates().client());
    sender.begin_handshake();
    sender
}

/// Whether this machine takes so long that a rate bounds nothing; says so.
fn is_slow(start: Instant) -> bool {
    let took = start.elapsed();
    if took > Duration::from_millis(250) {
        eprintln!("skipped: this machine takes {took:?} to begin some handshakes");
    }
    took > Duration::from_millis(250)
}

#[test]
fn a_handshake_that_is_not_done_in_time_ends() {
    let bounds = setup(|http| http.handshake_timeout_ns = 40 * MILLISECOND);
    let Some(world) = World::start(bounds) else {
        return;
    };
    world.connect(0).expect_end(); // it sent nothing, so nothing has begun
    assert_eq!(world.counts(0).tls_failed(), 0);
    for part in [&b"\x16"[..], b"\x16\x03\x01\x02\x00\x01"] {
        let mut slow = world.connect(0);
        slow.send(part);
        slow.expect_end();
    }
    // One that stops in the middle.
    begun(&world).outlast();
    eventually("all are counted", || world.counts(0).tls_failed() == 3);
    assert_eq!(world.counts(0).tls_late(), 3);
    assert_eq!(world.counts(0).tls_handshakes(), 0);
}

#[test]
fn handshakes_beyond_the_rate_wait_and_are_served_in_their_turn() {
    let Some(mut world) = World::start(setup(|http| http.handshake_rate = 4)) else {
        return;
    };
    let start = Instant::now();
    let mut senders: Vec<_> = (0..7).map(|_| begun(&world)).collect();
    if is_slow(start) {
        return;
    }
    eventually("two wait", || world.counts(0).tls_held() >= 2);
    for sender in &mut senders {
        sender.handshake().unwrap();
        sender.send(&post("/a", b"x"));
        world.accept_next(0, b"x");
        assert_eq!(sender.answer().status, 200);
    }
    assert_eq!(world.counts(0).tls_handshakes(), 7);
    eventually("nothing is kept", || world.counts(0).kept_bytes() == 0);
}

#[test]
fn a_handshake_that_waits_may_come_in_pieces() {
    let Some(world) = World::start(setup(|http| http.handshake_rate = 2)) else {
        return;
    };
    let mut sender = world.connect(0).into_tls(&certificates().client());
    let hello = sender.flight();
    let _taken = [begun(&world), begun(&world)];
    let taken = 2 * hello.len() as u64;
    eventually("both are begun", || world.counts(0).bytes_in() == taken);
    for piece in hello.chunks(hello.len() / 3) {
        let before = world.counts(0).bytes_in();
        sender.send_below(piece);
        let came = || world.counts(0).bytes_in() - before;
        eventually("the piece came", || came() == piece.len() as u64);
    }
    sender.handshake().unwrap();
}

#[test]
fn who_went_away_while_it_waited_costs_no_turn_and_nothing_is_begun_for_it() {
    let Some(world) = World::start(setup(|http| http.handshake_rate = 1)) else {
        return;
    };
    let start = Instant::now();
    let _taken = begun(&world);
    let mut waiting: Vec<_> = (0..40).map(|_| begun(&world)).collect();
    if is_slow(start) {
        return;
    }
    eventually("they wait", || world.counts(0).tls_held() >= 38);
    let mut last = waiting.pop().unwrap();
    last.finish_rudely();
    assert_eq!(last.outlast(), 0);
    waiting.into_iter().for_each(Sender::reset);
    eventually("they are gone", || world.counts(0).tls_failed() >= 38);
    begun(&world).handshake().unwrap(); // and not after forty seconds
}

#[test]
fn more_handshakes_than_one_turn_begins_are_all_made() {
    let Some(world) = World::start(setup(|_| {})) else {
        return;
    };
    let mut senders: Vec<_> = (0..100).map(|_| begun(&world)).collect();
    for sender in &mut senders {
        sender.handshake().unwrap();
    }
    assert_eq!(
        world.counts(0).tls_held(),
        0,
        "there is no bound on the rate"
    );
    eventually("all are made", || world.counts(0).tls_handshakes() == 100);
}

#[test]
fn who_waits_for_a_handshake_is_memory_and_goes_with_its_sender_or_its_time() {
    let bounds = setup(|http| {
        http.handshake_rate = 1;
        http.handshake_timeout_ns = 300 * MILLISECOND;
    });
    let Some(world) = World::start(bounds) else {
        return;
    };
    let mut first = begun(&world);
    first.handshake().unwrap();
    let mut late: Vec<_> = (0..3).map(|_| begun(&world)).collect();
    eventually("they wait or are gone", || {
        world.counts(0).tls_held() + world.counts(0).tls_failed() >= 3
    });
    late.pop().unwrap().reset();
    for mut sender in late {
        // Whether it got its turn in the last instant or not, it ends.
        let _ = sender.handshake();
        sender.finish();
        sender.outlast();
    }
    eventually("only one is left", || world.connections() == 1);
    assert_eq!(world.counts(0).kept_bytes(), 0);
}

#[test]
fn what_is_held_of_handshakes_is_bounded_with_the_rest() {
    let mut bounds = setup(|http| {
        http.handshake_rate = 1;
        http.receive_memory = 300_000;
    });
    bounds.sources[0].max_body = 10_000;
    let Some(world) = World::start(bounds) else {
        return;
    };
    let mut first = begun(&world);
    first.handshake().unwrap();
    // A record of a ClientHello that is larger than any need be.
    let hello = [&b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc"[..], &[7; 16_000]].concat();
    let mut senders = Vec::new();
    while world.counts(0).kept_refused() == 0 {
        assert!(senders.len() < 100, "nothing is refused");
        let mut sender = world.connect(0);
        sender.try_send(&hello);
        let (came, count) = (world.counts(0), senders.len() as u64);
        eventually("it came", || came.bytes_in() >= count * 16_000);
        senders.push(sender);
    }
    assert!(world.counts(0).kept_bytes() <= 300_000);
}
