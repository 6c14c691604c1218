//! Connections that break at every byte: nothing of them is left.

use crate::certificates::certificates;
use crate::sender::{Sender, post};
use crate::world::{Setup, World, eventually};
use sluice_proto as proto;

/// Everything that a connection can hold is given back.
fn nothing_is_left(world: &World) {
    let left = std::cell::Cell::new([u64::MAX; 4]);
    let _shown = Shown(&left);
    eventually("nothing is left", || {
        let counts = world.counts(0);
        let open = counts.accepted() - counts.closed();
        left.set([world.connections(), world.held(), counts.kept_bytes(), open]);
        left.get() == [0; 4]
    });
}

/// Shows what was left where a test fails for it.
struct Shown<'a>(&'a std::cell::Cell<[u64; 4]>);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let [connections, held, kept, open] = self.0.get();
            eprintln!("{connections} connections, {held} held, {kept} bytes kept, {open} open");
        }
    }
}

/// How a connection ends early.
fn ends() -> [fn(Sender); 3] {
    [Sender::reset, drop, |mut sender| {
        if sender.try_finish() {
            sender.outlast();
        }
    }]
}

#[test]
fn a_plain_request_cut_off_at_every_byte_leaves_nothing() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let chunked = b"POST /a HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n\
                    4\r\nabcd\r\n1;x=y\r\ne\r\n0\r\nX-Trailer: z\r\n\r\n";
    for request in [
        &chunked[..],
        &post("/a", b"abcde"),
        &post("/nowhere", b"abcde"),
    ] {
        for end in ends() {
            for cut in 0..request.len() {
                let mut sender = world.connect(0);
                sender.send(&request[..cut]);
                end(sender);
            }
        }
    }
    nothing_is_left(&world);
    assert!(!world.control[0].has_frame(), "nothing was whole");
    let mut sender = world.connect(0);
    sender.send(&post("/a", b"x"));
    world.accept_next(0, b"x");
    assert_eq!(sender.answer().status, 200);
}

#[test]
fn a_handshake_cut_off_at_every_byte_leaves_nothing() {
    let header = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n";
    for header in [&b""[..], header] {
        let mut listener = certificates().listener();
        if !header.is_empty() {
            listener.proxy_from = vec!["127.0.0.1".into()];
        }
        let mut setup = Setup {
            listeners: vec![listener],
            ..Setup::default()
        };
        setup.http.max_connections_per_ip = 1000;
        let Some(world) = World::start(setup) else {
            return;
        };
        let hello = world.connect(0).into_tls(&certificates().client()).flight();
        let bytes = [header, &hello].concat();
        for end in ends() {
            for cut in 0..bytes.len() {
                let mut sender = world.connect(0);
                sender.send(&bytes[..cut]);
                end(sender);
            }
        }
        nothing_is_left(&world);
        assert_eq!(world.counts(0).tls_handshakes(), 0);
    }
}

#[test]
fn an_encrypted_request_cut_off_at_every_byte_leaves_nothing() {
    let setup = Setup {
        listeners: vec![certificates().listener()],
        ticket_keys: vec![proto::TicketKey {
            name: vec![1; 16],
            key: vec![2; 32],
        }],
        ..Setup::default()
    };
    let Some(world) = World::start(setup) else {
        return;
    };
    let client = certificates().client();
    let request = post("/a", b"abcde");
    let mut length = 1;
    let mut cut = 0;
    while cut < length {
        for end in ends() {
            let mut sender = world.connect_tls(0, &client);
            sender.handshake().unwrap();
            let record = sender.sealed(&request);
            length = record.len();
            sender.send_below(&record[..cut]);
            end(sender);
        }
        cut += 1;
    }
    nothing_is_left(&world);
    assert!(!world.control[0].has_frame(), "nothing was whole");
}

#[test]
fn a_connection_that_breaks_while_its_request_waits_leaves_nothing() {
    let setup = Setup {
        listeners: vec![certificates().listener()],
        limit: 1,
        ..Setup::default()
    };
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let client = certificates().client();
    let mut awaits = world.connect_tls(0, &client);
    awaits.send(&post("/a", b"awaits"));
    let frame = world.control[0].frame();
    let mut held = world.connect_tls(0, &client);
    held.send(&[post("/a", b"held"), post("/a", b"behind")].concat());
    eventually("it is held", || world.held() == 1);
    awaits.reset();
    held.reset();
    nothing_is_left(&world);
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    eventually("its slot is free", || world.inflight() == 0);
}
