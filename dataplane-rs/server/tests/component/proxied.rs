//! PROXY headers: from those who are listed, and from nobody else.

use crate::certificates::certificates;
use crate::sender::post;
use crate::world::{MILLISECOND, Row, Setup, World, eventually, source};
use sluice_proto as proto;
use std::net::Ipv6Addr;

const V1: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n";

/// Version 2 with a TLV behind the addresses of 192.0.2.7:4711 and 198.51.100.1:443.
fn v2() -> Vec<u8> {
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0f".to_vec();
    bytes.extend_from_slice(&[192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x67, 0x01, 0xbb]);
    bytes.extend_from_slice(b"\x04\x00\x00"); // NOOP
    bytes
}

fn listed(networks: &[&str]) -> proto::Listener {
    proto::Listener {
        proxy_from: networks.iter().map(|text| text.to_string()).collect(),
        ..proto::Listener::default()
    }
}

fn setup(listener: proto::Listener) -> Setup {
    Setup {
        listeners: vec![listener],
        ..Setup::default()
    }
}

fn behind() -> (Ipv6Addr, u16) {
    ("::ffff:192.0.2.7".parse().unwrap(), 4711)
}

#[test]
fn a_header_cut_anywhere_names_the_peer_of_the_request_behind_it() {
    let Some(mut world) = World::start(setup(listed(&["127.0.0.1"]))) else {
        return;
    };
    let request = post("/a", b"x");
    for header in [V1.to_vec(), v2()] {
        let glued = [&header[..], &request].concat();
        for cut in 1..=header.len() + 1 {
            let mut sender = world.connect(0);
            let before = world.counts(0).bytes_in();
            sender.send(&glued[..cut]);
            eventually("the first part came", || {
                world.counts(0).bytes_in() - before == cut as u64
            });
            sender.send(&glued[cut..]);
            assert_eq!(world.accept_next(0, b"x").peer, behind(), "cut at {cut}");
            assert_eq!(sender.answer().status, 200);
            // It is the connection's, not the request's.
            sender.send(&request);
            assert_eq!(world.accept_next(0, b"x").peer, behind());
            assert_eq!(sender.answer().status, 200);
        }
        let mut sender = world.connect(0).dripping();
        sender.send(&glued);
        assert_eq!(world.accept_next(0, b"x").peer, behind());
        assert_eq!(sender.answer().status, 200);
    }
    assert_eq!(world.counts(0).proxy_refused(), 0);
}

#[test]
fn a_listed_peer_without_a_header_ends_at_its_first_wrong_byte() {
    let Some(world) = World::start(setup(listed(&["127.0.0.0/8"]))) else {
        return;
    };
    for (count, bytes) in [
        &b"POST"[..],
        b"PROXY TCP9",
        b"\r\n\r\n\0\r\nQUIT\n\x31",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 04711 443\r\n",
        b"G",
    ]
    .into_iter()
    .enumerate()
    {
        let mut sender = world.connect(0);
        sender.send(bytes);
        sender.expect_end();
        assert_eq!(world.counts(0).proxy_refused(), count as u64 + 1);
    }
    assert_eq!(world.counts(0).unrouted(), 0, "nothing is answered");
}

#[test]
fn a_listed_peer_that_says_nothing_ends_in_time() {
    let mut setup = setup(listed(&["127.0.0.0/8"]));
    setup.http.header_timeout_ns = 30 * MILLISECOND;
    let Some(world) = World::start(setup) else {
        return;
    };
    world.connect(0).expect_end();
    let mut half = world.connect(0);
    half.send(b"PROXY TC");
    half.expect_end();
    assert_eq!(world.counts(0).proxy_refused(), 2);
    eventually("nothing is kept", || world.counts(0).kept_bytes() == 0);
}

#[test]
fn a_header_from_who_is_not_listed_is_no_request() {
    for networks in [&["10.0.0.0/8"][..], &[]] {
        let Some(mut world) = World::start(setup(listed(networks))) else {
            return;
        };
        for header in [V1.to_vec(), v2()] {
            let mut sender = world.connect(0);
            sender.send(&[&header[..], &post("/a", b"x")].concat());
            let answer = sender.answer();
            assert_eq!((answer.status, answer.closes()), (400, true));
            sender.expect_end();
        }
        assert_eq!(world.counts(0).proxy_refused(), 2);
        let mut sender = world.connect(0);
        sender.send(&post("/a", b"x"));
        let (ip, port) = world.accept_next(0, b"x").peer;
        assert_eq!(ip, "::ffff:127.0.0.1".parse::<Ipv6Addr>().unwrap());
        assert_ne!(port, 0);
        assert_eq!(sender.answer().status, 200);
    }
}

#[test]
fn a_proxy_that_speaks_for_itself_is_the_peer() {
    let Some(mut world) = World::start(setup(listed(&["127.0.0.1"]))) else {
        return;
    };
    for header in [
        &b"PROXY UNKNOWN\r\n"[..],
        b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00",
    ] {
        let mut sender = world.connect(0);
        sender.send(&[header, &post("/a", b"x")].concat());
        let (ip, _) = world.accept_next(0, b"x").peer;
        assert_eq!(ip, "::ffff:127.0.0.1".parse::<Ipv6Addr>().unwrap());
        assert_eq!(sender.answer().status, 200);
    }
}

#[test]
fn tls_begins_behind_the_header() {
    let mut listener = certificates().listener();
    listener.proxy_from = vec!["127.0.0.1".into()];
    let Some(mut world) = World::start(setup(listener)) else {
        return;
    };
    for header in [V1.to_vec(), v2()] {
        let mut sender = world.connect(0);
        sender.send(&header);
        let mut sender = sender.into_tls(&certificates().client());
        sender.send(&post("/a", b"x"));
        let frame = world.accept_next(0, b"x");
        assert_eq!(frame.peer, behind());
        assert_eq!(frame.line.flags, shm_abi::FRAME_FLAG_TLS);
        assert_eq!(sender.answer().status, 200);
    }
    // A handshake where the header belongs is none.
    let mut sender = world.connect(0).into_tls(&certificates().client());
    assert!(sender.handshake().is_err());
    assert_eq!(world.counts(0).proxy_refused(), 1);
    assert_eq!(world.counts(0).tls_failed(), 0, "it never began");
}

#[test]
fn bounds_and_allow_lists_are_about_the_address_behind_the_proxy() {
    let mut guarded = source("/guarded", 1);
    guarded.allow_from = vec!["192.0.2.0/24".into()];
    let mut setup = setup(listed(&["127.0.0.1"]));
    setup.sources = vec![source("/a", 0), guarded];
    setup.http.max_connections_per_ip = 2;
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let other = b"PROXY TCP4 198.51.100.9 198.51.100.1 1 443\r\n";
    let mut taken = Vec::new();
    for (header, status) in [(V1, 200), (other, 403), (V1, 200)] {
        let mut sender = world.connect(0);
        sender.send(&[header, &post("/guarded", b"x")].concat());
        if status == 200 {
            world.accept_next(0, b"x");
        }
        assert_eq!(sender.answer().status, status);
        taken.push(sender);
    }
    // The third of one address, while the proxy has as many as it likes.
    let mut late = world.connect(0);
    late.send(&[V1, &post("/a", b"x")].concat());
    let answer = late.answer();
    assert_eq!((answer.status, answer.closes()), (503, true));
    assert_eq!(answer.header("X-Backpressure-Reason"), Some("Overloaded"));
    late.expect_end();
    assert_eq!(world.counts(0).refused_connections(), 1);
    drop((taken, late));
    eventually("all are gone", || world.connections() == 0);
    let mut sender = world.connect(0);
    sender.send(&[V1, &post("/a", b"x")].concat());
    world.accept_next(0, b"x");
    assert_eq!(sender.answer().status, 200);
}

#[test]
fn with_tls_a_connection_beyond_the_bound_of_its_address_ends() {
    let mut listener = certificates().listener();
    listener.proxy_from = vec!["127.0.0.1".into()];
    let mut setup = setup(listener);
    setup.http.max_connections_per_ip = 1;
    let Some(world) = World::start(setup) else {
        return;
    };
    let mut first = world.connect(0);
    first.send(V1);
    eventually("it is known", || {
        world.counts(0).bytes_in() == V1.len() as u64
    });
    let mut late = world.connect(0);
    late.send(V1);
    late.expect_end();
    let mut first = first.into_tls(&certificates().client());
    first.handshake().unwrap();
    eventually("one is left", || world.connections() == 1);
}

#[test]
fn beyond_the_bound_on_all_connections_a_header_is_still_read_before_the_answer() {
    let mut setup = setup(listed(&["127.0.0.1"]));
    setup.http.max_connections = 1;
    let Some(world) = World::start(setup) else {
        return;
    };
    let _taken = world.connect(0);
    eventually("it is there", || world.connections() == 1);
    let mut late = world.connect(0);
    late.send(&[V1, &post("/a", b"x")].concat());
    assert_eq!(late.answer().status, 503);
    late.expect_end();
}

#[test]
fn on_a_unix_socket_with_a_list_everybody_sends_a_header() {
    let mut setup = setup(listed(&["10.0.0.0/8"]));
    setup.rows = vec![Row::Unix];
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let mut sender = world.connect(0);
    sender.send(&[V1, &post("/a", b"x")].concat());
    assert_eq!(world.accept_next(0, b"x").peer, behind());
    assert_eq!(sender.answer().status, 200);
    let mut local = world.connect(0);
    local.send(&[&b"PROXY UNKNOWN\r\n"[..], &post("/a", b"x")].concat());
    assert_eq!(world.accept_next(0, b"x").peer, (Ipv6Addr::from(0), 0));
    let mut without = world.connect(0);
    without.send(&post("/a", b"x"));
    without.expect_end();
}
