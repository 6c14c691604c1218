//! Senders and a control plane that do anything in any order; in the end nothing may be left.

use crate::control::Frame;
use crate::sender::{Sender, post};
use crate::world::{
    FLOOR_RATE_MILLI, FLOOR_SLOTS, MILLISECOND, REPEAT_SHARE_MILLI, SHARE_RATE_MILLI, Setup, World,
    eventually, source,
};
use shm_abi::{REPLY_ACCEPTED, REPLY_INLINE};
use sluice_core::admission::Class;
use sluice_proto as proto;
use std::collections::VecDeque;

const STEPS: u32 = 6000;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

fn setup() -> Setup {
    let [mut high, mut ring, mut delivered, mut quick] =
        [("/high", 1), ("/ring", 2), ("/delivered", 3), ("/quick", 4)].map(|(p, s)| source(p, s));
    high.priority = proto::Priority::High.into();
    ring.acknowledge = proto::Acknowledge::Ring.into();
    delivered.acknowledge = proto::Acknowledge::Delivered.into();
    quick.budget_ns = 5 * MILLISECOND;
    quick.guard_after = 3;
    ring.probes = true;
    for source in [&mut high, &mut ring, &mut delivered, &mut quick] {
        source.id_places = vec![proto::IdPlace {
            place: Some(proto::id_place::Place::Json("/id".into())),
        }];
        source.handshakes = vec![proto::Handshake {
            max_body: 10,
            ..proto::Handshake::default()
        }];
    }
    let mut setup = Setup {
        workers: 2,
        limit: 10,
        max_held: 12,
        hold_budget_ns: 30 * MILLISECOND,
        words: vec![
            (FLOOR_SLOTS, 2),
            (FLOOR_RATE_MILLI, 50_000),
            (REPEAT_SHARE_MILLI, 800),
            (SHARE_RATE_MILLI, 20_000),
        ],
        sources: vec![source("/a", 0), high, ring, delivered, quick],
        ..Setup::default()
    };
    setup.http.receive_memory = 3_000_000;
    setup
}

/// One or several requests, of any size, whole or cut off.
fn requests(random: &mut Random) -> Vec<u8> {
    let paths = ["/a", "/high", "/ring", "/delivered", "/quick", "/nowhere"];
    let mut bytes = Vec::new();
    for _ in 0..=random.below(4) {
        let size = [0, 10, 1000, 60_000, 128 * 1024][random.below(5)];
        let mut body = format!("{{\"id\":{}}}", random.below(5)).into_bytes();
        body.resize(size.max(body.len()), b' ');
        bytes.extend(post(paths[random.below(paths.len())], &body));
    }
    if random.below(5) == 0 {
        bytes.truncate(1 + random.below(bytes.len()));
    }
    bytes
}

/// What the control plane does with a frame: answers rightly, twice, for somebody else, or not now
/// (false).
fn judge(world: &mut World, worker: usize, frame: &Frame, random: &mut Random) -> bool {
    let control = &mut world.control[worker];
    match random.below(6) {
        0 => return false,
        1 => control.refuse(frame, 401),
        2 => {
            control.accept(frame);
            control.refuse(frame, 404);
        }
        3 => {
            let mut wrong = frame.answer(REPLY_ACCEPTED, 200);
            wrong.seq ^= 1;
            control.reply(&wrong);
            control.accept(frame);
        }
        4 => control.reply_with(&frame.answer(REPLY_INLINE, 200), b"", &[b'y'; 5000]),
        _ => control.accept(frame),
    }
    true
}

fn anything_in_any_order(seed: u64) {
    let Some(mut world) = World::start(setup()) else {
        return;
    };
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let mut senders: Vec<(Sender, bool)> = Vec::new();
    let mut open = [VecDeque::new(), VecDeque::new()];
    let mut owed = [Vec::new(), Vec::new()];
    for _ in 0..STEPS {
        let worker = random.below(2);
        match random.below(16) {
            0 if senders.len() < 40 => senders.push((world.connect(worker), false)),
            1..=4 if !senders.is_empty() => {
                let at = random.below(senders.len());
                let (sender, has_finished) = &mut senders[at];
                if !*has_finished {
                    // Whatever does not fit or comes too late is lost: the sender is a bad one.
                    sender.send_what_goes(&requests(&mut random));
                }
            }
            5 if !senders.is_empty() => {
                let at = random.below(senders.len());
                match random.below(3) {
                    0 => senders.swap_remove(at).0.reset(),
                    1 => drop(senders.swap_remove(at)),
                    _ => senders[at].1 = senders[at].1 || senders[at].0.try_finish(),
                }
            }
            6..=10 if world.control[worker].has_frame() => {
                let frame = world.control[worker].frame();
                if !judge(&mut world, worker, &frame, &mut random) {
                    owed[worker].push(frame.answer(REPLY_ACCEPTED, 200));
                }
                open[worker].push_back(frame);
            }
            11..=12 if !open[worker].is_empty() => {
                let count = 1 + random.below(open[worker].len());
                let last = open[worker]
                    .drain(..count)
                    .next_back()
                    .expect("at least one");
                world.control[worker].consume(&last);
            }
            _ => std::thread::yield_now(),
        }
    }
    for (sender, _) in senders {
        sender.reset();
    }
    // Who closed only its half waits for its answer, and may have more requests behind it.
    let counters = world.plane.counters.clone();
    eventually("nothing is left", || {
        for (worker, control) in world.control.iter_mut().enumerate() {
            for entry in owed[worker].drain(..) {
                control.reply(&entry);
            }
            while control.has_frame() {
                let frame = control.frame();
                control.accept(&frame);
                open[worker].push_back(frame);
            }
            if let Some(last) = open[worker].drain(..).next_back() {
                control.consume(&last);
            }
            // Nobody waits, so nobody would look for room before the next belt.
            world.plane.poke(worker).ring().unwrap();
        }
        let connections = counters.header().connections();
        (connections, world.held(), world.inflight()) == (0, 0, 0)
    });
    assert!(!world.plane.failed());
    let worker = |at: usize| world.plane.counters.worker(at);
    let sum = |count: fn(&shm_abi::WorkerCounters, usize) -> u64| -> u64 {
        let classes = 0..Class::COUNT;
        classes
            .map(|class| count(worker(0), class) + count(worker(1), class))
            .sum()
    };
    let offered = sum(shm_abi::WorkerCounters::class_offered);
    let admitted = sum(shm_abi::WorkerCounters::class_admitted);
    let shed = sum(shm_abi::WorkerCounters::class_shed);
    // The others went away while they waited.
    assert!(
        admitted + shed <= offered,
        "{admitted} and {shed} of {offered}"
    );
    let by_source: u64 = (0..5)
        .map(|slot| {
            let count = |at| world.plane.counters.source(at, slot).offered();
            count(0) + count(1)
        })
        .sum();
    assert_eq!(by_source, offered);
}

#[test]
fn no_slot_and_no_connection_is_lost_whatever_anybody_does() {
    for seed in [
        0x9e37_79b9_7f4a_7c15,
        0x2545_f491_4f6c_dd1d,
        0xd6e8_feb8_6659_fd93,
    ] {
        anything_in_any_order(seed);
    }
}
