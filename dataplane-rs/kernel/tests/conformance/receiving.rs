//! Bytes in: all of them, in order, and only when they are wanted.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use sluice_kernel::{Backend, Close, Errno, Options, Share, Wait};

use super::world::{Client, Dice, End, Make, World, small};

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

pub fn a_peer_that_half_closed_gets_even_a_late_answer<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    client.say(b"request");
    client.stream.shutdown(Shutdown::Write).unwrap();
    world.until("eof", |world| world.book.seen(conn).eof.is_some());
    world.until_quiet();
    world.send(conn, b"first ");
    world.until_quiet();
    world.send(conn, b"second");
    world.io.close(conn, Close::Graceful);
    world.until_closed(conn);
    world.until("answer", |_| client.listen().end.is_some());
    assert_eq!(
        (client.end, &client.heard[..]),
        (Some(End::Fin), &b"first second"[..])
    );
    assert_eq!(world.book.seen(conn).eof, Some(None));
}

/// Everything is there before the first look at it, of lengths around that of a buffer.
pub fn bytes_and_their_end_in_one_go_are_both_heard<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (_listener, address, _) = world.listen();
    let mut dice = Dice::new(17);
    for length in [1, 4095, 4096, 4097, 8192, 50_000] {
        let said = dice.bytes(length);
        let mut client = Client::connect(address);
        client.say(&said);
        client.stream.shutdown(Shutdown::Write).unwrap();
        let own = client.address();
        world.book.by_peer.remove(&own);
        world.until("eof", |world| {
            let conn = world.book.by_peer.get(&own);
            conn.is_some_and(|conn| world.book.seen(*conn).eof.is_some())
        });
        let conn = world.book.by_peer[&own];
        world.until_data(conn, &said);
        assert_eq!(world.book.seen(conn).eof, Some(None));
        world.io.close(conn, Close::Now);
        world.until_closed(conn);
    }
}

/// A connection that needs nothing from us must not wake us, whatever its peer does: while it is
/// paused with bytes waiting, then with FIN, then with a reset.
pub fn what_is_not_wanted_keeps_nobody_awake<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    world.recv(conn, false);
    let body = Dice::new(19).bytes(200_000);
    let mut said = 0;
    for _ in 0..5 {
        said += client.write(&body[said..]);
        world.until_quiet();
    }
    client.stream.shutdown(Shutdown::Write).unwrap();
    world.until_quiet();
    assert_eq!(world.book.seen(conn).eof, None);
    world.recv(conn, true);
    world.until("eof", |world| world.book.seen(conn).eof.is_some());
    assert!(world.book.seen(conn).data == body[..said]);
    world.until_quiet();
    sluice_kernel::sys::set_linger_reset(client.stream.as_fd()).unwrap();
    drop(client);
    world.until_quiet();
    world.io.close(conn, Close::Now);
    world.until_closed(conn);
}

/// Urgent data cuts a receive short although more is there.
pub fn urgent_data_does_not_hold_up_what_follows<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    let mut all = Vec::new();
    for _ in 0..5 {
        client.say(b"before");
        // SAFETY: one readable byte.
        let sent = unsafe {
            let (fd, urgent) = (client.stream.as_raw_fd(), b"!".as_ptr().cast());
            libc::send(fd, urgent, 1, libc::MSG_OOB)
        };
        assert_eq!(sent, 1);
        client.say(b"after");
        all.extend_from_slice(b"beforeafter");
        world.until_data(conn, &all);
    }
    world.until_quiet();
}

pub fn one_that_always_talks_does_not_keep_another_waiting<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (_listener, address, _) = world.listen();
    let (loud, loud_conn) = world.connect(address);
    let (mut quiet, quiet_conn) = world.connect(address);
    loud.stream.set_nonblocking(false).unwrap();
    let mut mouth = loud.stream.try_clone().unwrap();
    let talk = std::thread::spawn(move || while mouth.write_all(&[7; 100_000]).is_ok() {});
    world.until("loud", |world| {
        world.book.seen(loud_conn).data.len() > 1 << 20
    });
    for round in 1..=50 {
        quiet.say(b"x");
        let turns = world.io.stats().turns;
        let heard = |world: &mut World<B>| world.book.seen(quiet_conn).data.len() == round;
        world.until("heard", heard);
        let turns = world.io.stats().turns - turns;
        assert!(turns <= 10, "heard after {turns} turns");
        world.book.conns.get_mut(&loud_conn).unwrap().data.clear();
    }
    world.io.close(loud_conn, Close::Abort);
    world.until_closed(loud_conn);
    talk.join().unwrap();
}

pub fn a_unix_socket_serves_like_any_other<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::echoing(io);
    let path = std::env::temp_dir().join(format!("sluice-kernel-{}", std::process::id()));
    let path = path.with_extension(format!("{:?}", std::thread::current().id()));
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    world.io.listen(listener.as_fd(), Share::Exclusive).unwrap();
    let mut client = std::os::unix::net::UnixStream::connect(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // A descriptor passed along is dropped, and what follows it is heard all the same.
    sluice_kernel::sys::send_fds(client.as_fd(), b"one ", &[listener.as_fd()]).unwrap();
    client.write_all(b"two").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    world.until("eof", |world| {
        world.book.conns.values().any(|seen| seen.eof.is_some())
    });
    let (&conn, seen) = world.book.conns.iter().next().unwrap();
    assert_eq!(seen.data, b"one two");
    world.io.close(conn, Close::Graceful);
    world.until_closed(conn);
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"one two");
}

pub fn a_broken_connection_is_reported_with_its_error<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (client, conn) = world.pair();
    sluice_kernel::sys::set_linger_reset(client.stream.as_fd()).unwrap();
    drop(client);
    world.until("reported", |world| world.book.seen(conn).eof.is_some());
    assert_eq!(
        world.book.seen(conn).eof,
        Some(Some(Errno(libc::ECONNRESET)))
    );
    world.io.close(conn, Close::Graceful);
    world.until_closed(conn);
}

/// The kernel tells of a reset once; here it is the send that hears of it.
pub fn a_reset_that_a_send_met_is_told_as_one<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (client, conn) = world.pair();
    world.recv(conn, false);
    world.until_quiet();
    sluice_kernel::sys::set_linger_reset(client.stream.as_fd()).unwrap();
    drop(client);
    world.send(conn, b"answer");
    world.until("sent", |world| !world.book.seen(conn).sent.is_empty());
    let reset = Errno(libc::ECONNRESET);
    assert_eq!(world.book.seen(conn).sent, [(6, Err(reset))]);
    world.recv(conn, true);
    world.until("told", |world| world.book.seen(conn).eof.is_some());
    assert_eq!(world.book.seen(conn).eof, Some(Some(reset)));
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
