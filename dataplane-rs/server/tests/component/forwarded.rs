//! `X-Forwarded-For`: believed from those who are listed, and from nobody else.

use crate::sender::{post, post_with};
use crate::world::{Row, Setup, World, source};
use sluice_proto as proto;
use std::net::Ipv6Addr;

fn believing(networks: &[&str]) -> Vec<proto::Listener> {
    vec![proto::Listener {
        forwarded_from: networks.iter().map(|text| text.to_string()).collect(),
        ..proto::Listener::default()
    }]
}

fn address(text: &str) -> Ipv6Addr {
    match text.parse().unwrap() {
        std::net::IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        std::net::IpAddr::V6(v6) => v6,
    }
}

#[test]
fn the_sender_behind_a_listed_peer_is_the_one_that_it_names() {
    let setup = Setup {
        listeners: believing(&["127.0.0.1", "10.0.0.0/8"]),
        ..Setup::default()
    };
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let mut sender = world.connect(0);
    for (lines, ip) in [
        ("", "127.0.0.1"),
        ("X-Forwarded-For: 192.0.2.7\r\n", "192.0.2.7"),
        ("", "127.0.0.1"),
        (
            "x-forwarded-for: 192.0.2.7, 203.0.113.9, 10.1.2.3\r\n",
            "203.0.113.9",
        ),
        (
            "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-For: 10.9.9.9\r\n",
            "203.0.113.9",
        ),
        ("X-Forwarded-For: 2001:db8::7\r\n", "2001:db8::7"),
        ("X-Forwarded-For: 203.0.113.9, unknown\r\n", "127.0.0.1"),
    ] {
        sender.send(&post_with("/a", lines, b"x"));
        let frame = world.accept_next(0, b"x");
        assert_eq!(frame.peer.0, address(ip), "{lines:?}");
        assert_eq!(sender.answer().status, 200);
    }
}

#[test]
fn the_allow_list_is_about_the_sender_that_is_named_and_only_by_who_may_name_one() {
    let mut guarded = source("/a", 0);
    guarded.allow_from = vec!["192.0.2.0/24".into()];
    for (networks, inside, outside) in [(&["127.0.0.0/8"], 200, 403), (&["10.0.0.0/8"], 403, 403)] {
        let setup = Setup {
            listeners: believing(networks),
            sources: vec![guarded.clone()],
            ..Setup::default()
        };
        let Some(mut world) = World::start(setup) else {
            return;
        };
        for (ip, status) in [("192.0.2.7", inside), ("198.51.100.7", outside)] {
            let mut sender = world.connect(0);
            sender.send(&post_with(
                "/a",
                &format!("X-Forwarded-For: {ip}\r\n"),
                b"x",
            ));
            if status == 200 {
                world.accept_next(0, b"x");
            }
            assert_eq!(sender.answer().status, status);
        }
    }
}

#[test]
fn a_reload_decides_who_is_believed_on_connections_that_are_open() {
    let setup = Setup::default();
    let (bounds, sources) = (setup.http, setup.sources.clone());
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let mut sender = world.connect(0);
    let request = post_with("/a", "X-Forwarded-For: 192.0.2.7\r\n", b"x");
    sender.send(&request);
    let frame = world.accept_next(0, b"x");
    assert_eq!(frame.peer.0, address("127.0.0.1"));
    assert_ne!(frame.peer.1, 0);
    assert_eq!(sender.answer().status, 200);
    world.set_listeners(believing(&["127.0.0.1"]));
    world.configure(2, bounds, sources);
    sender.send(&request);
    let frame = world.accept_next(0, b"x");
    assert_eq!(frame.peer, (address("192.0.2.7"), 0));
    assert_eq!(sender.answer().status, 200);
}

#[test]
fn on_a_unix_socket_with_a_list_everybody_is_believed() {
    for (networks, ip) in [
        (&["10.0.0.0/8"][..], address("192.0.2.7")),
        (&[], Ipv6Addr::from(0)),
    ] {
        let setup = Setup {
            rows: vec![Row::Unix],
            listeners: believing(networks),
            ..Setup::default()
        };
        let Some(mut world) = World::start(setup) else {
            return;
        };
        let mut sender = world.connect(0);
        sender.send(&post_with("/a", "X-Forwarded-For: 192.0.2.7\r\n", b"x"));
        assert_eq!(world.accept_next(0, b"x").peer, (ip, 0));
        assert_eq!(sender.answer().status, 200);
        sender.send(&post("/a", b"y"));
        assert_eq!(world.accept_next(0, b"y").peer, (Ipv6Addr::from(0), 0));
        assert_eq!(sender.answer().status, 200);
    }
}
