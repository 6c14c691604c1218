//! Bounds that a sender meets.

use crate::certificates::certificates;
use crate::sender::post;
use crate::world::{MILLISECOND, Setup, WRITABLE, World, eventually, source};
use sluice_dataplane::{Config, Host};
use sluice_proto as proto;

fn http(change: impl FnOnce(&mut proto::HttpBounds)) -> Setup {
    let mut setup = Setup::default();
    change(&mut setup.http);
    setup
}

#[test]
fn who_is_too_slow_with_a_head_or_a_body_gets_408_and_who_is_idle_nothing() {
    let setup = http(|http| {
        http.header_timeout_ns = 30 * MILLISECOND;
        http.body_timeout_ns = 30 * MILLISECOND;
        http.idle_timeout_ns = 60 * MILLISECOND;
    });
    let Some(world) = World::start(setup) else {
        return;
    };
    for part in [
        &b"POST /a HTTP/1.1\r\nHost"[..],
        b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabc",
        b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
        b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabc",
    ] {
        let mut slow = world.connect(0);
        slow.send(part);
        let answer = slow.answer();
        assert_eq!((answer.status, answer.closes()), (408, true));
        slow.expect_end();
    }
    world.connect(0).expect_end();
    assert_eq!(world.plane.counters.source(0, 0).code_408(), 2);
    assert_eq!(world.counts(0).too_slow(), 4);
}

#[test]
fn a_body_that_comes_fast_enough_has_more_time_than_one_that_does_not() {
    let setup = http(|http| {
        http.body_timeout_ns = 30 * MILLISECOND;
        http.min_body_rate = 1000;
    });
    let Some(mut world) = World::start(setup) else {
        return;
    };
    // A minute's worth of bytes each.
    let part = [b'x'; 60_000];
    let chunk = [&b"ea60\r\n"[..], &part].concat();
    let mut senders = Vec::new();
    for (head, part, rest, status) in [
        ("/a HTTP/1.1\r\nContent-Length: 60001", &part[..], "y", 200),
        (
            "/a HTTP/1.1\r\nTransfer-Encoding: chunked",
            &chunk,
            "\r\n1\r\ny\r\n0\r\n\r\n",
            200,
        ),
        ("/no HTTP/1.1\r\nContent-Length: 60001", &part, "y", 404),
        (
            "/no HTTP/1.1\r\nTransfer-Encoding: chunked",
            &chunk,
            "\r\n0\r\n\r\n",
            404,
        ),
    ] {
        let mut sender = world.connect(0);
        sender.send(format!("POST {head}\r\nHost: x\r\n\r\n").as_bytes());
        sender.send(part);
        senders.push((sender, rest, status));
    }
    eventually("all of it came", || world.counts(0).bytes_in() > 240_000);
    // One that sends nothing tells that the time is over for those that earned none.
    let mut clock = world.connect(0);
    clock.send(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(clock.answer().status, 408);
    let body = [&part[..], b"y"].concat();
    for (sender, rest, status) in &mut senders {
        sender.send(rest.as_bytes());
        if *status == 200 {
            world.accept_next(0, &body);
        }
        assert_eq!(sender.answer().status, *status);
    }
    assert_eq!(world.counts(0).too_slow(), 1);
}

#[test]
fn a_deadline_that_was_met_ends_nothing_later() {
    let mut quick = source("/quick", 1);
    quick.budget_ns = 60 * MILLISECOND;
    let setup = Setup {
        sources: vec![source("/a", 0), quick],
        ..Setup::default()
    };
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let mut sender = world.connect(0);
    sender.send(&post("/quick", b"in time"));
    let frame = world.control[0].frame();
    world.control[0].accept(&frame);
    assert_eq!(sender.answer().status, 200);
    sender.send(&post("/a", b"no hurry"));
    let frame = world.control[0].frame();
    // The same budget again, on another connection, tells that the first one is over.
    let mut clock = world.connect(0);
    clock.send(&post("/quick", b"late"));
    let last = world.control[0].frame();
    assert_eq!(clock.answer().status, 503);
    world.control[0].accept(&frame);
    assert_eq!(sender.answer().status, 200);
    world.control[0].consume(&last);
}

#[test]
fn a_peer_that_does_not_close_is_closed() {
    let Some(world) = World::start(Setup::default()) else {
        return;
    };
    let mut sender = world.connect(0);
    sender.send(b"\x16\x03\x01 is no request");
    let answer = sender.answer();
    assert_eq!((answer.status, answer.closes()), (400, true));
    sender.expect_end();
    // It lingers only for so long, although this end stays open.
    eventually("it is gone", || {
        world.plane.counters.header().connections() == 0
    });
    assert_eq!(world.plane.counters.worker(0).malformed(), 1);
}

#[test]
fn while_the_journal_takes_nothing_senders_are_sent_away_for_longer() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    world.store(WRITABLE, 0);
    let mut sender = world.connect(0);
    sender.send(&post("/a", b"x"));
    let answer = sender.answer();
    assert_eq!((answer.status, answer.closes()), (503, false));
    assert_eq!(
        answer.header("X-Backpressure-Reason"),
        Some("Ingestion-Queue-Full")
    );
    assert!((300..=360).contains(&answer.retry_after()));
    world.store(WRITABLE, 1);
    sender.send(&post("/a", b"y"));
    let frame = world.control[0].frame();
    assert_eq!(frame.body, b"y");
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    assert_eq!(sender.answer().status, 200);
    assert_eq!(world.plane.counters.source(0, 0).shed_journal(), 1);
}

#[test]
fn a_source_over_its_rate_gets_429() {
    let mut rated = source("/a", 0);
    (rated.rate, rated.shed_status) = (0.001, 503);
    let setup = Setup {
        sources: vec![rated],
        ..Setup::default()
    };
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let mut sender = world.connect(0);
    sender.send(&post("/a", b"x").repeat(2));
    let frame = world.control[0].frame();
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    assert_eq!(sender.answer().status, 200);
    let answer = sender.answer();
    assert_eq!((answer.status, answer.closes()), (429, false));
    assert_eq!(answer.header("X-Backpressure-Reason"), Some("Rate-Limited"));
    assert!(answer.retry_after() >= 60);
    assert_eq!(world.plane.counters.source(0, 0).shed_rate(), 1);
}

#[test]
fn a_body_over_the_routes_bound_is_refused_before_it_is_read() {
    let Some(world) = World::start(Setup::default()) else {
        return;
    };
    let mut announced = world.connect(0);
    announced.send(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 131073\r\n\r\n");
    assert_eq!(announced.answer().status, 413);
    announced.expect_end();
    let mut chunked = world.connect(0);
    chunked.send(b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n20001\r\n");
    assert_eq!(chunked.answer().status, 413);
    chunked.expect_end();
    assert_eq!(world.plane.counters.source(0, 0).code_413(), 2);
    assert_eq!(world.plane.counters.worker(0).malformed(), 0);
}

#[test]
fn slow_bodies_of_one_source_leave_memory_for_another() {
    let mut setup = Setup {
        sources: vec![source("/slow", 0), source("/a", 1)],
        ..Setup::default()
    };
    setup.http.receive_memory = 530_000;
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let head = b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 131072\r\n\r\n";
    let part = [&head[..], &[b's'; 90_000]].concat();
    let received = || world.plane.counters.worker(0).bytes_in();
    let mut slow: Vec<_> = (0..2)
        .map(|i| {
            let mut sender = world.connect(0);
            sender.send(&part);
            eventually("it is kept", || received() == (i + 1) * part.len() as u64);
            sender
        })
        .collect();
    let mut newest = world.connect(0);
    assert!(newest.try_send(&part));
    let answer = newest.answer();
    assert_eq!((answer.status, answer.closes()), (503, true));
    assert_eq!(answer.header("X-Backpressure-Reason"), Some("Overloaded"));

    let body = vec![b'a'; 60_000];
    let mut other = world.connect(0);
    other.send(&post("/a", &body));
    let frame = world.control[0].frame();
    assert!(frame.body == body);
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    assert_eq!(other.answer().status, 200);

    // Those that came first go on.
    for sender in &mut slow {
        sender.send(&[b's'; 131_072 - 90_000]);
        let frame = world.control[0].frame();
        assert_eq!(frame.body.len(), 131_072);
        world.control[0].accept(&frame);
        world.control[0].consume(&frame);
        assert_eq!(sender.answer().status, 200);
    }
    let source = world.plane.counters.source(0, 0);
    assert_eq!((source.shed_held_full(), source.code_503()), (1, 1));
}

type Change = fn(&mut proto::Snapshot);

#[test]
fn a_config_that_cannot_be_served_names_what_is_wrong() {
    let tickets = std::sync::Arc::default();
    let host = Host {
        ring_size: 1 << 20,
        workers: 2,
        rows: 1,
        tickets: &tickets,
    };
    let read = |host: &Host<'_>, change: Change| {
        let mut snapshot = proto::Snapshot {
            config_version: 1,
            http: Some(Setup::default().http),
            sources: vec![source("/a", 0)],
            listeners: vec![certificates().listener()],
            ..proto::Snapshot::default()
        };
        change(&mut snapshot);
        Config::new(snapshot, host).map(drop)
    };
    assert_eq!(read(&host, |_| {}), Ok(()));
    assert_eq!(
        read(&host, |s| s.listeners.clear()),
        Ok(()),
        "all are plain"
    );
    let faults: &[(Change, &[&str])] = &[
        (
            |s| s.sources[0].max_body = 128 * 1024 + 1,
            &["source a", "max_body"],
        ),
        (|s| s.sources[0].methods = vec!["BREW".into()], &["BREW"]),
        (|s| s.sources[0].shed_status = 500, &["shed_status"]),
        (|s| s.sources[0].acknowledge = 0, &["acknowledge"]),
        (|s| s.sources[0].priority = 0, &["priority"]),
        (|s| s.sources[0].slot = 70_000, &["slot"]),
        (
            |s| s.sources[0].allow_from = vec!["10.0.0.0/33".into()],
            &["allow_from"],
        ),
        (
            |s| s.http.as_mut().unwrap().receive_memory = 1_000_000,
            &["source a", "max_body: 131072", "receive_memory, 1000000"],
        ),
        (
            |s| s.http.as_mut().unwrap().handshake_timeout_ns = 0,
            &["handshake_timeout"],
        ),
        (
            |s| s.listeners.push(proto::Listener::default()),
            &["listeners: 2 of them", "has 1"],
        ),
        (
            |s| s.listeners[0].proxy_from = vec!["10.0.0.0/33".into()],
            &["listener 0", "proxy_from"],
        ),
        (
            |s| s.listeners[0].forwarded_from = vec!["all".into()],
            &["listener 0", "forwarded_from"],
        ),
        (
            |s| s.listeners[0].tls.as_mut().unwrap().certificates[0].key = b"x".to_vec(),
            &["listener 0", "tls"],
        ),
        (
            |s| s.listeners[0].tls.as_mut().unwrap().client_required = true,
            &["listener 0", "tls", "client_ca"],
        ),
        (
            |s| s.ticket_keys = vec![proto::TicketKey::default()],
            &["ticket_keys", "key 0"],
        ),
    ];
    for (change, parts) in faults {
        let fault = read(&host, *change).unwrap_err();
        for part in *parts {
            assert!(fault.contains(part), "{part:?} is not in {fault:?}");
        }
    }
    let tiny = Host {
        ring_size: 4096,
        ..host
    };
    assert!(read(&tiny, |_| {}).unwrap_err().contains("at most 0"));
}
