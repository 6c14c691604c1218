//! Connections beyond the bounds on them: told so, where that costs little.

use crate::certificates::certificates;
use crate::sender::post;
use crate::world::{MILLISECOND, Setup, World, eventually};
use sluice_dataplane::TURNED_AWAY_MAX;
use sluice_proto as proto;

fn bounded(change: impl FnOnce(&mut proto::HttpBounds)) -> Setup {
    let mut setup = Setup::default();
    change(&mut setup.http);
    setup
}

#[test]
fn a_request_on_a_connection_beyond_the_bound_is_told_to_come_later() {
    let Some(mut world) = World::start(bounded(|http| http.max_connections = 2)) else {
        return;
    };
    let mut taken = vec![world.connect(0), world.connect(0)];
    eventually("both are there", || world.connections() == 2);
    // The first bytes are enough, however many more are on their way.
    for request in [
        post("/a", b"x"),
        post("/a", &vec![b'x'; 4 << 20]),
        b"P".to_vec(),
    ] {
        let mut late = world.connect(0);
        late.try_send(&request);
        let answer = late.answer();
        assert_eq!((answer.status, answer.closes()), (503, true));
        assert_eq!(answer.header("X-Backpressure-Reason"), Some("Overloaded"));
        assert!((5..=20).contains(&answer.retry_after()));
        late.expect_end();
    }
    let mut head = world.connect(0);
    head.send(b"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(head.answer_to(true).status, 503);
    head.expect_end();
    assert_eq!(world.counts(0).refused_connections(), 4);
    assert_eq!((world.connections(), world.counts(0).requests()), (2, 0));
    taken.pop();
    eventually("one is gone", || world.connections() == 1);
    let mut sender = world.connect(0);
    sender.send(&post("/a", b"x"));
    world.accept_next(0, b"x");
    assert_eq!(sender.answer().status, 200);
}

#[test]
fn who_has_one_of_the_last_seats_and_says_nothing_loses_it_soon() {
    let setup = bounded(|http| {
        http.max_connections = 1;
        http.header_timeout_ns = 30 * MILLISECOND;
    });
    let Some(world) = World::start(setup) else {
        return;
    };
    let _taken = world.connect(0);
    eventually("it is there", || world.connections() == 1);
    world.connect(0).expect_end();
    assert_eq!(world.connections(), 1, "an idle one that is counted stays");
}

#[test]
fn beyond_the_last_seat_a_connection_ends() {
    let Some(world) = World::start(bounded(|http| http.max_connections = 1)) else {
        return;
    };
    let _taken = world.connect(0);
    eventually("it is there", || world.connections() == 1);
    let mut late: Vec<_> = (0..TURNED_AWAY_MAX).map(|_| world.connect(0)).collect();
    world.connect(0).expect_end();
    // Whoever has a seat keeps it, and a seat that is given back is given again.
    let mut first = late.remove(0);
    first.send(b"P");
    assert_eq!(first.answer().status, 503);
    first.expect_end();
    drop(first);
    let accepted = u64::from(TURNED_AWAY_MAX) + 2;
    eventually("two are gone", || {
        (world.counts(0).accepted(), world.counts(0).closed()) == (accepted, 2)
    });
    let mut again = world.connect(0);
    again.send(b"P");
    assert_eq!(again.answer().status, 503);
}

#[test]
fn with_tls_a_connection_beyond_the_bound_ends_before_its_handshake() {
    let mut setup = bounded(|http| http.max_connections = 1);
    setup.listeners = vec![certificates().listener()];
    let Some(world) = World::start(setup) else {
        return;
    };
    let _taken = world.connect(0);
    eventually("it is there", || world.connections() == 1);
    world.connect(0).expect_end();
    assert_eq!(world.counts(0).refused_connections(), 1);
}

#[test]
fn a_bound_on_one_address_counts_only_connections_that_came_under_it() {
    let setup = Setup::default();
    let (bounds, sources) = (setup.http, setup.sources.clone());
    let Some(world) = World::start(setup) else {
        return;
    };
    let before = world.connect(0);
    eventually("it is taken", || world.connections() == 1);
    let bounds = proto::HttpBounds {
        max_connections_per_ip: 2,
        ..bounds
    };
    world.configure(2, bounds, sources);
    let _taken = (world.connect(0), world.connect(0));
    let refused = |world: &World| {
        let mut late = world.connect(0);
        late.send(&post("/a", b"x"));
        let answer = late.answer();
        assert_eq!((answer.status, answer.closes()), (503, true));
        late.expect_end();
    };
    refused(&world);
    // The first one was never counted, so its end makes no room.
    drop(before);
    eventually("it is gone", || world.connections() == 2);
    refused(&world);
    assert_eq!(world.counts(0).refused_connections(), 2);
}
