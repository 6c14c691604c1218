//! Requests over TLS: the same requests, and nobody ends in silence.

use crate::certificates::certificates;
use crate::sender::{Sender, get, post};
use crate::world::{Setup, World, eventually, source};
use rustls::ClientConfig;
use shm_abi::{FRAME_FLAG_HTTP10, FRAME_FLAG_TLS};
use sluice_proto as proto;
use std::sync::Arc;

fn setup() -> Setup {
    Setup {
        listeners: vec![certificates().listener()],
        ..Setup::default()
    }
}

/// Only that version.
fn speaking(version: &'static rustls::SupportedProtocolVersion) -> Arc<ClientConfig> {
    let config = (*certificates().client()).clone();
    let mut only = ClientConfig::builder_with_protocol_versions(&[version])
        .with_root_certificates(certificates().roots())
        .with_no_client_auth();
    only.alpn_protocols = config.alpn_protocols;
    Arc::new(only)
}

#[test]
fn a_request_is_served_as_without_and_its_frame_says_how_it_came() {
    let Some(mut world) = World::start(setup()) else {
        return;
    };
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut sender = world.connect_tls(0, &speaking(version));
        let body: Vec<u8> = (0..100_000u32).map(|i| (i / 5) as u8).collect();
        for _ in 0..3 {
            sender.send(&post("/a", &body));
            let frame = world.accept_next(0, &body);
            assert_eq!((frame.line.flags, &*frame.client), (FRAME_FLAG_TLS, ""));
            let answer = sender.answer();
            assert_eq!((answer.status, answer.closes()), (200, false));
        }
        sender.send(b"POST /a HTTP/1.0\r\nContent-Length: 1\r\n\r\nx");
        let frame = world.accept_next(0, b"x");
        assert_eq!(frame.line.flags, FRAME_FLAG_TLS | FRAME_FLAG_HTTP10);
        assert_eq!(sender.answer().status, 200);
        // close_notify: a session that is cut off would be an error here.
        sender.expect_end();
    }
    let counts = world.counts(0);
    assert_eq!((counts.tls_handshakes(), counts.tls_failed()), (2, 0));
}

#[test]
fn a_session_that_comes_byte_by_byte_is_the_same() {
    let Some(mut world) = World::start(setup()) else {
        return;
    };
    let mut sender = world.connect(0).dripping();
    sender = sender.into_tls(&certificates().client());
    sender.send(&[post("/a", b"one"), post("/a", b"two")].concat());
    for body in [b"one", b"two"] {
        world.accept_next(0, body);
        assert_eq!(sender.answer().status, 200);
    }
    sender.finish();
    sender.expect_end();
}

#[test]
fn a_handshake_that_comes_in_pieces_of_any_size_is_the_same() {
    let Some(world) = World::start(setup()) else {
        return;
    };
    for size in [5, 100, 489, 700, 1000] {
        let mut sender = world.connect(0).into_tls(&certificates().client());
        for piece in sender.flight().chunks(size) {
            let before = world.counts(0).bytes_in();
            sender.send_below(piece);
            eventually("the piece came", || {
                world.counts(0).bytes_in() - before == piece.len() as u64
            });
        }
        sender.handshake().unwrap();
        // Its last words are on their way.
        eventually("it is done", || world.counts(0).kept_bytes() == 0);
        eventually("all came", || {
            let counts = world.counts(0);
            counts.tls_handshakes() + counts.tls_failed() == counts.accepted()
        });
    }
    assert_eq!(world.counts(0).tls_handshakes(), 5);
}

#[test]
fn names_in_a_clients_certificate_go_into_the_frame() {
    let mut setup = setup();
    setup.listeners = vec![certificates().mutual_listener()];
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let mut sender = world.connect_tls(0, &certificates().mutual_client());
    sender.send(&post("/a", b"x"));
    let frame = world.accept_next(0, b"x");
    let names: Vec<&str> = frame.client.lines().collect();
    assert!(names[0].starts_with("sha256:"), "{names:?}");
    for name in ["cn:sender one", "dns:sender.test"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert_eq!(sender.answer().status, 200);
}

#[test]
fn who_fails_the_handshake_is_told_why() {
    let mut setup = setup();
    setup.listeners = vec![certificates().mutual_listener()];
    let Some(world) = World::start(setup) else {
        return;
    };
    // With TLS 1.3 the client is done before the server has looked: the alert comes behind it.
    let mut nameless = world.connect_tls(0, &certificates().client());
    let told = nameless.handshake().and_then(|()| nameless.read_once());
    let told = told.unwrap_err().to_string();
    assert!(told.contains("CertificateRequired"), "{told}");

    let mut plain = world.connect(0);
    plain.send(&post("/a", b"x"));
    let answer = plain.rest();
    assert_eq!(
        answer.first(),
        Some(&0x15),
        "an alert and no answer: {answer:?}"
    );
    eventually("both are counted", || world.counts(0).tls_failed() == 2);
    assert_eq!(world.counts(0).tls_late(), 0);
    assert_eq!(world.counts(0).requests(), 0);
}

#[test]
fn a_header_of_a_proxy_that_is_not_listed_is_counted_as_such() {
    let Some(world) = World::start(setup()) else {
        return;
    };
    let mut sender = world.connect(0);
    sender.send(b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n");
    assert_eq!(sender.rest().first(), Some(&0x15));
    assert_eq!(world.counts(0).proxy_refused(), 1);
}

#[test]
fn a_sender_that_closes_its_half_still_gets_its_answer() {
    let Some(mut world) = World::start(setup()) else {
        return;
    };
    for end in [Sender::finish, Sender::finish_rudely, Sender::notify] {
        let mut sender = world.connect_tls(0, &certificates().client());
        sender.send(&post("/a", b"x"));
        end(&mut sender);
        world.accept_next(0, b"x");
        assert_eq!(sender.answer().status, 200);
        sender.expect_end();
    }
}

#[test]
fn half_a_request_and_the_end_of_the_session_never_was_a_request() {
    let Some(world) = World::start(setup()) else {
        return;
    };
    for end in [Sender::finish, Sender::finish_rudely, Sender::notify] {
        let mut sender = world.connect_tls(0, &certificates().client());
        sender.send(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc");
        end(&mut sender);
        sender.expect_end();
    }
    assert!(!world.control[0].has_frame());
    eventually("nothing is kept", || world.counts(0).kept_bytes() == 0);
}

#[test]
fn a_reload_leaves_open_connections_as_they_were_made() {
    let setup = setup();
    let (bounds, sources) = (setup.http, setup.sources.clone());
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let mut old = world.connect_tls(0, &certificates().client());
    old.handshake().unwrap();
    world.set_listeners(vec![proto::Listener::default()]);
    world.configure(2, bounds, sources);
    let mut new = world.connect(0);
    for (sender, flags) in [(&mut old, FRAME_FLAG_TLS), (&mut new, 0)] {
        sender.send(&post("/a", b"x"));
        assert_eq!(world.accept_next(0, b"x").line.flags, flags);
        assert_eq!(sender.answer().status, 200);
    }
}

#[test]
fn a_session_is_resumed_at_another_worker() {
    let mut setup = setup();
    setup.workers = 2;
    setup.ticket_keys = vec![proto::TicketKey {
        name: vec![1; 16],
        key: vec![2; 32],
    }];
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let client = certificates().client();
    for worker in [0, 1] {
        let mut sender = world.connect_tls(worker, &client);
        sender.send(&post("/a", b"x"));
        world.accept_next(worker, b"x");
        assert_eq!(sender.answer().status, 200);
    }
    assert_eq!(world.counts(0).tls_resumed(), 0);
    assert_eq!(world.counts(1).tls_resumed(), 1);
}

#[test]
fn tiny_requests_are_pipelined_only_so_far() {
    for has_tls in [false, true] {
        let mut setup = Setup::default();
        if has_tls {
            setup = self::setup();
        }
        let Some(mut world) = World::start(setup) else {
            return;
        };
        let mut sender = world.connect(0);
        if has_tls {
            sender = sender.into_tls(&certificates().client());
        }
        sender.send(&post("/a", b"first"));
        let first = world.control[0].frame();
        let requests = get("/nowhere").repeat(1000);
        let mut sent = 0;
        while sent < 512 << 10 {
            match sender.send_some(&requests[sent % requests.len()..]) {
                0 => break,
                count => sent += count,
            }
        }
        let ahead = |world: &World| world.counts(0).bytes_in();
        eventually("much comes ahead", || ahead(&world) > 64 * 1024);
        // A neighbour is served while nothing more of it is taken.
        let mut neighbour = world.connect(0);
        if has_tls {
            neighbour = neighbour.into_tls(&certificates().client());
        }
        for _ in 0..50 {
            neighbour.send(&get("/nowhere"));
            assert_eq!(neighbour.answer().status, 404);
        }
        assert!(
            ahead(&world) < 256 * 1024,
            "{} of {sent} came",
            ahead(&world)
        );
        assert!(world.counts(0).kept_bytes() < 128 * 1024);
        world.control[0].accept(&first);
        world.control[0].consume(&first);
        assert_eq!(sender.answer().status, 200);
        for _ in 0..sent / get("/nowhere").len() {
            assert_eq!(sender.answer().status, 404);
        }
    }
}

#[test]
fn an_early_refusal_reaches_a_sender_that_still_writes() {
    let mut forbidden = source("/forbidden", 1);
    forbidden.allow_from = vec!["192.0.2.0/24".into()];
    for has_tls in [false, true] {
        let mut setup = Setup::default();
        if has_tls {
            setup = self::setup();
        }
        setup.sources.push(forbidden.clone());
        let Some(world) = World::start(setup) else {
            return;
        };
        for (path, status) in [("/a", 413), ("/forbidden", 403)] {
            let mut sender = world.connect(0);
            if has_tls {
                sender = sender.into_tls(&certificates().client());
            }
            // It reads nothing before all is written.
            sender.send(&post(path, &vec![b'x'; 4 << 20]));
            let answer = sender.answer();
            assert_eq!((answer.status, answer.closes()), (status, true));
            sender.expect_end();
        }
    }
}
