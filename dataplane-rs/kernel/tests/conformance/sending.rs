//! Bytes out: whole, in order, bounded, and every buffer comes back.

use std::io::Read;
use std::os::fd::AsFd;
use std::time::Duration;

use sluice_kernel::sys::{EventFd, boot_ns};
use sluice_kernel::{Backend, Close, Errno, Options, SendBuf, Wait, WhyRefused};

use super::world::{Dice, End, Make, World, small};

pub fn answers_keep_their_order<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    world.io.send(conn, SendBuf::Static(b"one ")).unwrap();
    world.send(conn, b"two ");
    world.io.send(conn, SendBuf::Static(b"three")).unwrap();
    world.until("answers", |_| client.listen().heard.len() >= 13);
    assert_eq!(client.heard, b"one two three");
    world.until("all sent", |world| world.book.seen(conn).sent.len() == 3);
    assert_eq!(
        world.book.seen(conn).sent,
        [(4, Ok(())), (4, Ok(())), (5, Ok(()))]
    );
}

pub fn what_is_ordered_behind_an_answer_waits_for_no_other_event<B: Backend>(make: &Make<B>) {
    const LONG: Duration = Duration::from_secs(30);
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (client, conn) = world.pair();
    let bell = EventFd::new().unwrap();
    world.io.watch(bell.as_fd()).unwrap();
    world.until_quiet();
    // Nothing happens here but what the peer does once it has heard all.
    let mut stream = client.stream.try_clone().unwrap();
    stream.set_nonblocking(false).unwrap();
    let peer = std::thread::spawn(move || {
        let mut heard = vec![0; 7];
        stream.read_exact(&mut heard).unwrap();
        bell.ring().unwrap();
        stream.read_to_end(&mut heard).unwrap();
        bell.ring().unwrap();
        heard
    });
    let before = boot_ns();
    let turns_until_rung = |world: &mut World<B>, times: usize| {
        while world.book.wakes.len() < times {
            world.turn_for(Wait::at_most(LONG));
        }
    };
    world.send(conn, b"one ");
    world.send(conn, b"two");
    turns_until_rung(&mut world, 1);
    world.send(conn, b" three");
    world.io.close(conn, Close::Graceful);
    turns_until_rung(&mut world, 2);
    let waited_ns = boot_ns() - before;
    assert!(waited_ns < LONG.as_nanos() as u64, "it waited for an event");
    assert_eq!(peer.join().unwrap(), b"one two three");
}

pub fn a_large_answer_arrives_whole_at_a_slow_reader<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    let answer = Dice::new(2).bytes(16 << 20);
    world.send(conn, &answer);
    world.send(conn, b"the end");
    // The first turns pass without a reader, so that the socket's buffers fill.
    for _ in 0..10 {
        world.turn();
    }
    assert!(
        world.book.seen(conn).sent.is_empty(),
        "more than the buffers hold is not sent yet"
    );
    let whole = answer.len() + 7;
    world.until("answer", |_| {
        client.listen_up_to(1 << 20).heard.len() >= whole
    });
    assert!(client.heard[..answer.len()] == answer);
    assert_eq!(&client.heard[answer.len()..], b"the end");
    world.until("all sent", |world| world.book.seen(conn).sent.len() == 2);
    assert!(world.io.stats().sends_short > 0);
    assert_eq!(world.io.stats().bytes_out, whole as u64);
}

/// A sink that sends more in every `on_sent` gets its turns done all the same.
pub fn a_send_that_follows_a_send_is_for_another_turn<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    world.book.refill = (300, 10);
    world.send(conn, b"..........");
    let turns = world.io.stats().turns;
    world.until("all sent", |world| world.book.seen(conn).sent.len() == 301);
    assert!(world.io.stats().turns - turns > 100);
    world.until("answers", |_| client.listen().heard.len() == 3010);
}

pub fn the_send_queue_is_bounded<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&Options {
        sends_max: 3,
        ..small()
    }) else {
        return;
    };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    for _ in 0..3 {
        world.send(conn, &vec![7; 8 << 20]);
    }
    let refused = world
        .io
        .send(conn, SendBuf::Owned(vec![8; 10]))
        .unwrap_err();
    assert_eq!(refused.why, WhyRefused::QueueFull);
    assert_eq!(refused.buf, SendBuf::Owned(vec![8; 10]));
    world.until("room", |world| {
        client.listen();
        !world.book.seen(conn).sent.is_empty()
    });
    world.send(conn, b"fits");
}

pub fn nothing_to_send_is_refused<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (_client, conn) = world.pair();
    let refused = world.io.send(conn, SendBuf::Static(b"")).unwrap_err();
    assert_eq!(refused.why, WhyRefused::Empty);
}

pub fn a_send_to_a_peer_that_is_gone_fails_and_gives_the_buffer_back<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (client, conn) = world.pair();
    world.send(conn, &vec![7; 8 << 20]);
    world.send(conn, b"behind it");
    world.turn();
    sluice_kernel::sys::set_linger_reset(std::os::fd::AsFd::as_fd(&client.stream)).unwrap();
    drop(client);
    world.until("failed", |world| world.book.seen(conn).sent.len() == 2);
    for (_, result) in &world.book.seen(conn).sent {
        let errno = result.unwrap_err();
        assert!(matches!(errno.0, libc::ECONNRESET | libc::EPIPE), "{errno}");
    }
    let refused = world.io.send(conn, SendBuf::Static(b"x")).unwrap_err();
    assert_eq!(refused.why, WhyRefused::Closed);
    assert!(!world.book.seen(conn).closed, "only the sink closes");
    world.io.close(conn, Close::Graceful);
    world.until_closed(conn);
}

pub fn unsent_answers_come_back_before_the_end<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    for how in [Close::Now, Close::Abort] {
        let (mut client, conn) = world.pair();
        world.send(conn, &vec![7; 8 << 20]);
        world.send(conn, b"behind it");
        world.turn();
        world.io.close(conn, how);
        // The sink panics on anything that comes after `on_closed`.
        world.until_closed(conn);
        let canceled = Err(Errno(libc::ECANCELED));
        assert_eq!(
            world.book.seen(conn).sent,
            [(8 << 20, canceled), (9, canceled)]
        );
        world.until("end", |_| client.listen().end.is_some());
        let expected = if how == Close::Now {
            End::Fin
        } else {
            End::Reset
        };
        assert_eq!(client.end, Some(expected));
    }
}

pub fn pausing_the_receiver_does_not_disturb_a_send<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    let answer = Dice::new(4).bytes(8 << 20);
    world.send(conn, &answer);
    world.turn();
    // While the send waits for a reader, and then while it is being read.
    for on in [false, true, false, true] {
        world.recv(conn, on);
        for _ in 0..3 {
            world.turn();
        }
    }
    assert!(world.book.seen(conn).sent.is_empty());
    let mut on = true;
    world.until("answer", |world| {
        on = !on;
        world.recv(conn, on);
        client.say(b"!");
        client.listen_up_to(256 << 10).heard.len() >= answer.len()
    });
    assert!(client.heard == answer);
    world.until("sent", |world| !world.book.seen(conn).sent.is_empty());
    assert_eq!(world.book.seen(conn).sent, [(answer.len(), Ok(()))]);
}
