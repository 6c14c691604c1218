//! Bytes in: all of them, in order, and only when they are wanted.

use std::net::{Shutdown, TcpListener};
use std::os::fd::AsRawFd;
use std::time::Duration;

use sluice_kernel::{Backend, Close, Errno, Options, Wait};

use super::world::{Client, Dice, Make, World, small};

pub fn many_connections_echo_every_byte_in_order<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::echoing(io);
    let (_listener, address, _) = world.listen();
    let mut dice = Dice::new(11);
    let mut talks: Vec<_> = (0..64)
        .map(|_| (Client::connect(address), dice.bytes(1 + 20_000 / 64), 0))
        .collect();
    world.until("all echoed", |_| {
        for (client, said, at) in &mut talks {
            // Single bytes and larger pieces, so that pieces meet every boundary.
            let piece = [1, 7, 100][dice.below(3)].min(said.len() - *at);
            // A new piece only after the last came back: the send queue is bounded.
            if client.listen().heard.len() == *at {
                *at += client.write(&said[*at..*at + piece]);
            }
        }
        talks
            .iter()
            .all(|(client, said, _)| client.heard.len() == said.len())
    });
    assert!(talks.iter().all(|(client, said, _)| client.heard == *said));
    assert_eq!(world.io.stats().stale, 0);
}

pub fn a_half_closed_peer_still_gets_its_answer<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    client.say(b"request");
    client.stream.shutdown(Shutdown::Write).unwrap();
    world.until("eof", |world| world.book.seen(conn).eof.is_some());
    assert_eq!(world.book.seen(conn).eof, Some(None));
    assert_eq!(world.book.seen(conn).data, b"request");
    world.send(conn, b"answer");
    world.io.close(conn, Close::Graceful);
    world.until_closed(conn);
    world.until("answer", |_| client.listen().end.is_some());
    assert_eq!(client.heard, b"answer");
}

pub fn a_broken_connection_is_reported_with_its_error<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (client, conn) = world.pair();
    sluice_kernel::sys::set_linger_reset(std::os::fd::AsFd::as_fd(&client.stream)).unwrap();
    drop(client);
    world.until("reported", |world| world.book.seen(conn).eof.is_some());
    assert_eq!(
        world.book.seen(conn).eof,
        Some(Some(Errno(libc::ECONNRESET)))
    );
    world.io.close(conn, Close::Graceful);
    world.until_closed(conn);
}

pub fn nothing_comes_while_receiving_is_off<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    let body = Dice::new(5).bytes(400_000);
    let mut written = client.write(&body[..100_000]);
    world.turn();
    world.recv(conn, false);
    // The sink panics on bytes that come now.
    for _ in 0..20 {
        written += client.write(&body[written..]);
        world.turn();
    }
    world.recv(conn, true);
    world.until("all written", |_| {
        written += client.write(&body[written..]);
        written == body.len()
    });
    world.until_data(conn, &body);
}

pub fn the_end_waits_until_receiving_is_on_again<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    for last in [&b"second"[..], b""] {
        let (mut client, conn) = world.pair();
        client.say(b"first");
        world.until_data(conn, b"first");
        client.say(last);
        client.stream.shutdown(Shutdown::Write).unwrap();
        // Paused when it is there already: the sink panics if it hears of it now.
        world.book.pause_on_awake = Some(conn);
        for _ in 0..20 {
            world.turn();
        }
        world.recv(conn, true);
        world.until("eof", |world| world.book.seen(conn).eof.is_some());
        assert_eq!(world.book.seen(conn).data, [b"first", last].concat());
    }
}

pub fn toggling_in_every_callback_loses_nothing<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    world.book.toggle = true;
    let (mut client, conn) = world.pair();
    let body = Dice::new(9).bytes(500_000);
    let mut written = 0;
    world.until("all written", |world| {
        written += client.write(&body[written..]);
        // From outside of callbacks, too, and ending in off for a turn now and then.
        world.recv(conn, false);
        if written % 3 == 0 {
            world.turn();
        }
        world.recv(conn, true);
        written == body.len()
    });
    world.until_data(conn, &body);
}

/// In one turn: a piece of one connection, paused, is kept aside; the callback of another one
/// resumes it; then its next piece arrives, which must not overtake the first.
pub fn a_piece_after_the_resume_does_not_overtake_the_one_before<B: Backend>(make: &Make<B>) {
    let options = Options {
        buffers: 256,
        ..small()
    };
    let Some(io) = make(&options) else { return };
    let mut world = World::new(io);
    let (listener, address, _) = world.listen();
    large_window(&listener);
    let (mut paused, paused_conn) = world.connect(address);
    let (mut other, other_conn) = world.connect(address);
    let mut dice = Dice::new(13);
    let (mut said, mut chat) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        // So much that the kernel takes a break in it and serves others.
        let piece = dice.bytes(400_000);
        let written = paused.write(&piece);
        other.say(b"resume it");
        said.extend_from_slice(&piece[..written]);
        chat.extend_from_slice(b"resume it");
        world.book.pause_on_awake = Some(paused_conn);
        world.book.resume_from = Some((other_conn, paused_conn));
        // All of it in one turn, if the backend can.
        world.turn_for(Wait::at_most(Duration::from_secs(1)).gather(250, Duration::from_millis(3)));
        world.until_data(other_conn, &chat);
        world.recv(paused_conn, true);
        world.until_data(paused_conn, &said);
    }
}

/// A receive buffer that takes a whole burst; accepted sockets inherit it.
fn large_window(listener: &TcpListener) {
    let size = 1i32 << 20;
    let (fd, value) = (listener.as_raw_fd(), (&raw const size).cast());
    // SAFETY: the option takes an int.
    let result = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, value, 4) };
    assert_eq!(result, 0);
}
