//! Ends: who sees FIN, who sees a reset, and when a seat is free again.

use std::net::Shutdown;
use std::os::fd::AsFd;

use sluice_kernel::{Backend, Close, Options, SendBuf, WhyRefused};

use super::world::{Client, Dice, End, Make, World, small};

/// The receive is armed: closing the descriptor alone would send nothing at all.
pub fn closing_an_idle_connection_sends_fin<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    world.turn();
    world.io.close(conn, Close::Now);
    world.until_closed(conn);
    world.until("end", |_| client.listen().end.is_some());
    assert_eq!(client.end, Some(End::Fin));
    assert_eq!(world.io.conns(), 0);
    assert_eq!(
        world.book.seen(conn).eof,
        None,
        "our own close is not the peer's end"
    );
}

pub fn an_aborted_connection_is_reset<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    world.turn();
    world.io.close(conn, Close::Abort);
    world.until_closed(conn);
    world.until("end", |_| client.listen().end.is_some());
    assert_eq!(client.end, Some(End::Reset));
}

pub fn closing_twice_reports_once<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    for first in [Close::Graceful, Close::Now, Close::Abort] {
        for second in [Close::Graceful, Close::Now, Close::Abort] {
            let (mut client, conn) = world.pair();
            world.io.close(conn, first);
            world.io.close(conn, second);
            world.io.recv(conn, false);
            let refused = world.io.send(conn, SendBuf::Static(b"x")).unwrap_err();
            assert_eq!(refused.why, WhyRefused::Closed);
            world.until("end", |_| client.listen().end.is_some());
            drop(client);
            world.until_closed(conn);
            world.io.close(conn, Close::Abort);
            world.turn();
        }
    }
    assert_eq!((world.book.closed, world.io.conns()), (9, 0));
}

pub fn a_graceful_close_sends_what_is_queued_first<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    let answer = Dice::new(1).bytes(3 << 20);
    world.send(conn, &answer[..1 << 20]);
    world.send(conn, &answer[1 << 20..]);
    world.io.close(conn, Close::Graceful);
    world.until("whole answer", |_| client.listen().end.is_some());
    assert_eq!(client.end, Some(End::Fin));
    assert!(client.heard == answer);
    drop(client);
    world.until_closed(conn);
    assert_eq!(
        world.book.seen(conn).sent,
        [(1 << 20, Ok(())), (2 << 20, Ok(()))]
    );
}

pub fn a_lingering_connection_ends_when_the_peer_does<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    world.io.close(conn, Close::Graceful);
    world.until("fin", |_| client.listen().end == Some(End::Fin));
    for _ in 0..5 {
        world.turn();
    }
    assert!(!world.book.seen(conn).closed, "the peer may still talk");
    client.stream.shutdown(Shutdown::Write).unwrap();
    world.until_closed(conn);
}

pub fn a_lingering_connection_ends_when_the_caller_says_so<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    world.send(conn, b"bye");
    world.io.close(conn, Close::Graceful);
    world.until("fin", |_| client.listen().end == Some(End::Fin));
    assert_eq!(client.heard, b"bye");
    world.io.close(conn, Close::Now);
    world.until_closed(conn);
}

/// A peer still sending its body when the refusal comes: with unread bytes in our buffer a plain
/// close is a reset, which destroys the answer on its way.
pub fn a_peer_that_talks_on_still_gets_its_answer<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    client.say(b"head");
    world.until_data(conn, b"head");
    world.recv(conn, false);
    let mut body = vec![0; 300_000];
    let mut written = client.write(&body);
    world.send(conn, b"413 too large");
    world.io.close(conn, Close::Graceful);
    world.until("whole body", |_| {
        written += client.write(&body[written.min(body.len())..]);
        written == body.len()
    });
    body.clear();
    world.until("answer", |_| client.listen().end.is_some());
    assert_eq!(
        (client.end, &client.heard[..]),
        (Some(End::Fin), &b"413 too large"[..])
    );
    drop(client);
    world.until_closed(conn);
    assert_eq!(
        world.book.seen(conn).data,
        b"head",
        "lingering bytes are thrown away"
    );
    assert!(world.io.stats().bytes_lingered > 0);
}

/// Seats are few and reused at once, ends come from both sides in every state, and every client
/// says its own name: none may be heard on another's connection.
pub fn a_closed_seat_is_used_again_and_nothing_crosses_over<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&Options {
        conns_max: 4,
        ..small()
    }) else {
        return;
    };
    let mut world = World::new(io);
    let (_listener, address, _) = world.listen();
    let mut dice = Dice::new(7);
    let mut alive: Vec<(Client, sluice_kernel::ConnId, Vec<u8>)> = Vec::new();
    for round in 0..400u32 {
        if alive.len() == 4 {
            let (client, conn, _) = alive.swap_remove(dice.below(4));
            if dice.below(2) == 0 {
                drop(client);
                world.io.close(
                    conn,
                    [Close::Graceful, Close::Now, Close::Abort][dice.below(3)],
                );
            } else {
                world
                    .io
                    .close(conn, [Close::Now, Close::Abort][dice.below(2)]);
                drop(client);
            }
            world.until_closed(conn);
        }
        let (mut client, conn) = world.connect(address);
        let name = round.to_be_bytes().repeat(1 + dice.below(2000));
        client.say(&name);
        alive.push((client, conn, name));
        if dice.below(3) == 0 {
            world.turn();
        }
        for (_, conn, name) in &alive {
            assert!(name.starts_with(&world.book.seen(*conn).data));
        }
    }
    for (_, conn, name) in &alive {
        world.until_data(*conn, name);
    }
    assert_eq!((world.io.conns(), world.io.stats().stale), (4, 0));
}

/// A reset in every state, told or not: each connection is closed once, every send comes back,
/// and nothing is left behind.
pub fn a_reset_at_any_point_leaves_nothing_behind<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (_listener, address, _) = world.listen();
    let stages = [
        "idle",
        "talking",
        "paused",
        "half-closed",
        "sending",
        "flushing",
        "lingering",
    ];
    for (round, stage) in (1..).zip(stages.iter().cycle().take(3 * stages.len())) {
        let (mut client, conn) = world.connect(address);
        match *stage {
            "talking" => client.say(b"said and perhaps not heard"),
            "paused" => {
                world.recv(conn, false);
                client.say(b"not heard");
                world.turn();
            }
            "half-closed" => {
                client.stream.shutdown(Shutdown::Write).unwrap();
                world.until("eof", |world| world.book.seen(conn).eof.is_some());
            }
            "sending" | "flushing" => {
                world.send(conn, &vec![7; 8 << 20]);
                world.send(conn, b"behind it");
                world.turn();
                if *stage == "flushing" {
                    world.io.close(conn, Close::Graceful);
                }
            }
            "lingering" => {
                world.send(conn, b"bye");
                world.io.close(conn, Close::Graceful);
                world.until("fin", |_| client.listen().end.is_some());
            }
            _ => {}
        }
        sluice_kernel::sys::set_linger_reset(client.stream.as_fd()).unwrap();
        drop(client);
        match *stage {
            "idle" | "talking" | "sending" => {
                world.until("told", |world| world.book.seen(conn).eof.is_some());
                world.io.close(conn, Close::Graceful);
            }
            "paused" | "half-closed" => {
                world.until_quiet();
                world.io.close(conn, Close::Graceful);
            }
            // On its way to the end already, which the reset now is.
            _ => {}
        }
        world.until_closed(conn);
        let sends = [("sending", 2), ("flushing", 2), ("lingering", 1)];
        let expected = sends
            .iter()
            .find(|(name, _)| name == stage)
            .map_or(0, |(_, n)| *n);
        assert_eq!(world.book.seen(conn).sent.len(), expected, "{stage}");
        assert_eq!((world.book.closed, world.io.conns()), (round, 0), "{stage}");
    }
    assert_eq!(world.io.stats().stale, 0);
    world.until_quiet();
}

pub fn dropping_the_backend_ends_every_connection<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (listener, address, _) = world.listen();
    let mut clients: Vec<_> = (0..8).map(|_| world.connect(address)).collect();
    let unsent = vec![1; 8 << 20];
    for (client, conn) in &mut clients {
        world.send(*conn, &unsent);
        client.say(b"unread");
    }
    world.turn();
    drop(world);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    for (client, _) in &mut clients {
        while client.listen().end.is_none() {
            assert!(
                std::time::Instant::now() < deadline,
                "a connection outlives its backend"
            );
        }
        assert!(client.heard.len() < unsent.len());
    }
    // The listening socket is not the backend's: it goes on.
    Client::connect(address);
    drop(listener);
}
