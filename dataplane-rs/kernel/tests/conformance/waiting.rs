//! Turns: what ends a wait, and what is heard.

use std::os::fd::AsFd;
use std::time::Duration;

use sluice_kernel::sys::{EventFd, boot_ns};
use sluice_kernel::{Backend, Wait};

use super::world::{Make, World, small};

const LONG: Duration = Duration::from_secs(30);

pub fn a_turn_without_events_ends_at_its_limit<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let before = boot_ns();
    world.turn_for(Wait::none());
    world.turn_for(Wait::at_most(Duration::from_millis(20)));
    let after = world.io.boot_ns();
    assert!(after >= before + 20_000_000);
    assert_eq!(world.io.stats().turns, 2);
    assert_eq!(world.book.awake, 2);
}

pub fn awake_comes_before_everything_else_of_a_turn<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    // The sink asserts it in every callback.
    let mut world = World::echoing(io);
    let (mut client, _) = world.pair();
    client.say(b"x");
    world.until("echo", |_| client.listen().heard == b"x");
    assert_eq!(world.book.awake as u64, world.io.stats().turns);
}

pub fn every_ring_is_heard_without_emptying_the_bell<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (doorbell, poke) = (EventFd::new().unwrap(), EventFd::new().unwrap());
    let door_id = world.io.watch(doorbell.as_fd()).unwrap();
    let poke_id = world.io.watch(poke.as_fd()).unwrap();
    world.turn_for(Wait::none());
    for round in 0..200 {
        let (bell, id) = if round % 3 == 0 {
            (&poke, poke_id)
        } else {
            (&doorbell, door_id)
        };
        let heard = world.book.wakes.len();
        let twin = bell.duplicate().unwrap();
        let ringer = std::thread::spawn(move || twin.ring().unwrap());
        world.turn_for(Wait::at_most(LONG));
        ringer.join().unwrap();
        assert_eq!(world.book.wakes[heard..], [id], "round {round}");
    }
    // Several rings before one turn are at least one call for each bell.
    let heard = world.book.wakes.len();
    for bell in [&doorbell, &doorbell, &poke, &doorbell] {
        bell.ring().unwrap();
    }
    world.until("both", |world| {
        let new = &world.book.wakes[heard..];
        new.contains(&door_id) && new.contains(&poke_id)
    });
    assert_eq!(doorbell.take().unwrap() + poke.take().unwrap(), 204);
}

pub fn a_bell_rung_before_it_was_watched_is_heard<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let bell = EventFd::new().unwrap();
    bell.ring().unwrap();
    let id = world.io.watch(bell.as_fd()).unwrap();
    world.turn_for(Wait::at_most(LONG));
    assert_eq!(world.book.wakes, [id]);
}

pub fn a_bell_that_is_no_longer_watched_is_silent<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let bell = EventFd::new().unwrap();
    // More often than there are seats: they are freed.
    for _ in 0..3 * small().wakes_max {
        let id = world.io.watch(bell.as_fd()).unwrap();
        world.turn_for(Wait::none());
        world.book.wakes.clear();
        world.io.unwatch(id);
        bell.ring().unwrap();
        for _ in 0..3 {
            world.turn_for(Wait::none());
        }
        assert_eq!(world.book.wakes, []);
    }
}

pub fn a_signal_ends_the_wait_and_is_no_error<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    extern "C" fn ignore(_: libc::c_int) {}
    // SAFETY: the handler does nothing; SIGUSR1 has no other use in this process.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as extern "C" fn(_) as usize;
        assert_eq!(
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()),
            0
        );
    }
    let mut world = World::new(io);
    // SAFETY: no arguments.
    let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let ended = done.clone();
    let sender = std::thread::spawn(move || {
        // Until it is heard: a signal before the wait begins does not end it.
        while !ended.load(std::sync::atomic::Ordering::Acquire) {
            // SAFETY: plain numbers; the thread lives until it has joined this one.
            unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
            std::thread::yield_now();
        }
    });
    let before = boot_ns();
    world.turn_for(Wait::at_most(LONG));
    done.store(true, std::sync::atomic::Ordering::Release);
    sender.join().unwrap();
    assert!(world.io.boot_ns() - before < LONG.as_nanos() as u64);
}

pub fn gathering_waits_for_company_but_not_for_ever<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    if !world.io.caps().gather {
        println!("gathering is not in this kernel (Linux 6.12): it must be ignored");
    }
    let bell = EventFd::new().unwrap();
    let id = world.io.watch(bell.as_fd()).unwrap();
    world.turn_for(Wait::none());
    bell.ring().unwrap();
    world.turn_for(Wait::at_most(LONG).gather(64, Duration::from_millis(2)));
    assert_eq!(world.book.wakes, [id]);
    world.turn_for(Wait::at_most(Duration::from_millis(1)).gather(64, Duration::from_millis(5)));
}
