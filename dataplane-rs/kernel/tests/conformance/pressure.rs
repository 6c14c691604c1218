//! Everything too small: nothing may be lost, it may only take longer.

use sluice_kernel::{Backend, Options, Stats};

use super::world::{Client, Dice, Make, World, small};

pub fn a_tiny_buffer_pool_delivers_everything<B: Backend>(make: &Make<B>) {
    starve(make);
}

/// Returns the counters, for a backend that can run out of buffers to show that it did.
pub fn starve<B: Backend>(make: &Make<B>) -> Option<Stats> {
    let io = make(&Options {
        buffers: 2,
        ..small()
    })?;
    Some(everyone_is_heard(io, 40, 30_000))
}

pub fn a_tiny_completion_queue_loses_nothing<B: Backend>(make: &Make<B>) {
    overflow(make);
}

/// Returns the counters, for a backend that can overflow to show that it did.
pub fn overflow<B: Backend>(make: &Make<B>) -> Option<Stats> {
    let io = make(&Options {
        cq_entries: 8,
        sq_entries: 4,
        ..small()
    })?;
    Some(everyone_is_heard(io, 100, 10_000))
}

pub fn a_tiny_submission_queue_sends_everything<B: Backend>(make: &Make<B>) {
    let Some(io) = make(&Options {
        sq_entries: 1,
        ..small()
    }) else {
        return;
    };
    everyone_is_heard(io, 60, 2_000);
}

/// Many clients say a lot without waiting for turns; every byte comes back to the right one.
fn everyone_is_heard<B: Backend>(io: B, count: usize, length: usize) -> Stats {
    let mut world = World::new(io);
    let (_listener, address, _) = world.listen();
    let mut clients: Vec<_> = (0..count).map(|_| Client::connect(address)).collect();
    world.until("all accepted", |world| world.book.by_peer.len() == count);
    let mut dice = Dice::new(3);
    let names: Vec<_> = (0..count).map(|_| dice.bytes(length)).collect();
    let mut written = vec![0; count];
    world.until("all written", |_| {
        for (at, client) in clients.iter_mut().enumerate() {
            written[at] += client.write(&names[at][written[at]..]);
        }
        written.iter().all(|&n| n == length)
    });
    for (client, name) in clients.iter().zip(&names) {
        let conn = world.book.by_peer[&client.address()];
        world.until_data(conn, name);
        world.send(conn, name);
    }
    for (client, name) in clients.iter_mut().zip(&names) {
        world.until("answer", |_| client.listen().heard.len() >= name.len());
        assert!(client.heard == *name);
    }
    assert_eq!(world.io.stats().stale, 0);
    *world.io.stats()
}
