//! No wake-up is lost while both processes live.

use crate::world::{End, Life, Ring, Side, Without, fails, holds};
use loom::sync::atomic::Ordering;
use loom::thread;
use sluice_lane::{Ringer, Sleeper};
use std::sync::Arc;

/// Publishes up to `frames`, one a turn, into a ring that holds `capacity`; waits for room.
fn produce(side: &Side<'_>, frames: u64, capacity: u64) {
    let ring = side.ring;
    let (mut ringer, mut sleeper) = (Ringer::default(), Sleeper::above(0));
    for frame in 1..=frames {
        loop {
            let mut consume = ring.consume.load(Ordering::Acquire);
            side.seen.set(consume);
            if frame - consume <= capacity {
                break;
            }
            if side.without == Without::RefusedRoom {
                consume = ring.consume.load(Ordering::Acquire);
            }
            if sleeper.sleep(side, 0, Some(consume)) {
                ring.producer_bell.wait();
                sleeper.wake(side);
            }
        }
        ring.commit.store(frame, Ordering::Release);
        if ringer.due(&side.ringing(), true, false) {
            ring.consumer_bell.ring();
        }
    }
}

/// Takes everything up to `frames` and gives the room back.
fn consume(side: &Side<'_>, frames: u64) {
    let ring = side.ring;
    let (mut ringer, mut sleeper) = (Ringer::default(), Sleeper::above(0));
    while side.seen.get() < frames {
        let commit = ring.commit.load(Ordering::Acquire);
        if commit != side.seen.get() {
            side.seen.set(commit);
            ring.consume.store(commit, Ordering::Release);
            if ringer.due(&side.ringing(), false, true) {
                ring.producer_bell.ring();
            }
        } else if sleeper.sleep(side, commit, None) {
            ring.consumer_bell.wait();
            sleeper.wake(side);
        }
    }
}

fn model(
    frames: u64,
    capacity: u64,
    producer: Without,
    consumer: Without,
) -> impl Fn() + Sync + Send + 'static {
    move || {
        let ring = Arc::new(Ring::new());
        let there = ring.clone();
        let peer = thread::spawn(move || {
            let life = Life::whole();
            produce(
                &Side::new(&there, End::Producer, producer, &life),
                frames,
                capacity,
            );
        });
        let life = Life::whole();
        consume(&Side::new(&ring, End::Consumer, consumer, &life), frames);
        peer.join().unwrap();
    }
}

#[test]
fn no_frame_is_slept_over() {
    holds(model(2, 9, Without::Nothing, Without::Nothing));
}

#[test]
fn no_room_is_slept_over() {
    holds(model(2, 1, Without::Nothing, Without::Nothing));
}

#[test]
fn a_frame_is_slept_over_without_any_of_the_rules() {
    for (producer, consumer) in [
        (Without::RingersFence, Without::Nothing),
        (Without::Nothing, Without::SleepersFence),
        (Without::RingersFence, Without::SleepersFence),
        (Without::Nothing, Without::Recheck),
        (Without::Nothing, Without::NewTicket),
    ] {
        println!("producer without {producer:?}, consumer without {consumer:?}");
        fails("deadlock", model(2, 9, producer, consumer));
    }
}

#[test]
fn room_is_slept_over_without_any_of_the_rules() {
    for (producer, consumer) in [
        (Without::SleepersFence, Without::Nothing),
        (Without::Nothing, Without::RingersFence),
        (Without::RefusedRoom, Without::Nothing),
        (Without::RoomRecheck, Without::Nothing),
        (Without::RoomBit, Without::Nothing),
    ] {
        println!("producer without {producer:?}, consumer without {consumer:?}");
        fails("deadlock", model(2, 1, producer, consumer));
    }
}
