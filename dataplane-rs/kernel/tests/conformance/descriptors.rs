//! No descriptor left. The limit is the whole process's, so these cases need a test binary of
//! their own and run one after another.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluice_kernel::sys::EventFd;
use sluice_kernel::{Backend, Options, Wait};

use super::world::{Client, End, Make, World, small};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Takes the turn of this test and makes descriptors few: before the backend is made, because an
/// io_uring accept obeys the limit of the moment in which it was armed.
fn few_descriptors() -> MutexGuard<'static, ()> {
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let few = libc::rlimit {
        rlim_cur: 256,
        rlim_max: 256,
    };
    // SAFETY: a valid limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &few) }, 0);
    turn
}

/// All descriptors that were left.
fn exhaust() -> Vec<EventFd> {
    let mut all = Vec::new();
    while let Ok(one) = EventFd::new() {
        all.push(one);
    }
    assert!(!all.is_empty());
    all
}

pub fn connections_wait_out_a_shortage_of_descriptors<B: Backend>(make: &Make<B>) {
    let _turn = few_descriptors();
    let options = Options {
        fd_patience: Duration::from_secs(3600),
        fd_retry: Duration::from_millis(3),
        ..small()
    };
    let Some(io) = make(&options) else { return };
    let mut world = World::echoing(io);
    let (_listener, address, _) = world.listen();
    let (mut old, _) = world.connect(address);
    let mut clients: Vec<_> = (0..3).map(|_| Client::connect(address)).collect();
    let exhausted = exhaust();
    world.until("tried again by the clock", |world| {
        world.io.stats().accept_paused >= 3
    });
    assert_eq!(world.book.accepted.len(), 1);
    old.say(b"served");
    world.until("served", |_| old.listen().heard == b"served");
    drop(exhausted);
    world.until("all accepted", |world| world.book.accepted.len() == 4);
    for client in &mut clients {
        client.say(b"x");
        world.until("served", |_| client.listen().heard == b"x");
    }
    assert_eq!(world.io.stats().accept_refused, 0);
    // A turn that would wait for longer still wakes up to try again.
    clients.push(Client::connect(address));
    let _exhausted = exhaust();
    let paused = world.io.stats().accept_paused;
    while world.io.stats().accept_paused < paused + 3 {
        let turns = world.io.stats().turns;
        let hour = Wait::at_most(Duration::from_secs(3600));
        world.turn_for([Wait::for_event(), hour][(turns % 2) as usize]);
    }
}

pub fn a_shortage_of_descriptors_keeps_nobody_awake<B: Backend>(make: &Make<B>) {
    let _turn = few_descriptors();
    let options = Options {
        fd_patience: Duration::from_secs(3600),
        fd_retry: Duration::from_secs(3600),
        ..small()
    };
    let Some(io) = make(&options) else { return };
    let mut world = World::new(io);
    let (_listener, address, _) = world.listen();
    world.turn();
    let _client = Client::connect(address);
    let _exhausted = exhaust();
    world.until("met", |world| world.io.stats().accept_paused == 1);
    world.until_quiet();
    assert_eq!(world.io.stats().accept_paused, 1);
}

pub fn a_lasting_shortage_of_descriptors_refuses_instead_of_hanging<B: Backend>(make: &Make<B>) {
    let _turn = few_descriptors();
    let options = Options {
        fd_patience: Duration::ZERO,
        fd_retry: Duration::from_millis(3),
        ..small()
    };
    let Some(io) = make(&options) else { return };
    let mut world = World::new(io);
    let (_listener, address, _) = world.listen();
    world.turn();
    let mut clients: Vec<_> = (0..3).map(|_| Client::connect(address)).collect();
    let exhausted = exhaust();
    world.until("one refused", |world| world.io.stats().accept_refused >= 1);
    world.until("reset", |_| clients[0].listen().end == Some(End::Reset));
    drop(exhausted);
    world.until("the rest accepted", |world| {
        world.book.accepted.len() as u64 + world.io.stats().accept_refused == 3
    });
}
