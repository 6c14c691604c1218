//! Workers that are threads: slots are never given twice, and nobody is forgotten although no
//! worker looks unless it was woken.

mod offers;
mod seed;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use offers::{MS, NUMBERS, offer, rounds};
use seed::Seed;
use sluice_core::admission::{Admission, Grant, Numbers, Priority, RepeatFilter, Slots, Verdict};

const WORKERS: usize = 4;
const LIMIT: u64 = 3;
/// When a test that hangs gives up.
const PATIENCE: Duration = Duration::from_secs(120);

const FLOOR_SLOTS: u64 = 2;

const HOST: Numbers = Numbers {
    limit: LIMIT,
    floor_slots: FLOOR_SLOTS,
    max_held: 1_000_000,
    hold_budget_ns: u64::MAX,
    ..NUMBERS
};

struct Host {
    slots: Slots,
    wakes: [AtomicBool; WORKERS],
    /// Requests that think they have a slot.
    users: AtomicU64,
    done: AtomicU64,
    numbers: Numbers,
    /// A clock that goes on with each turn.
    now_ns: AtomicU64,
}

impl Host {
    fn new(floor_rate_milli: u64) -> Host {
        Host {
            slots: Slots::new(WORKERS, 5),
            wakes: Default::default(),
            users: AtomicU64::new(0),
            done: AtomicU64::new(0),
            numbers: Numbers {
                floor_rate_milli,
                ..HOST
            },
            now_ns: AtomicU64::new(1),
        }
    }

    fn now(&self) -> u64 {
        self.now_ns.fetch_add(10 * MS, Ordering::SeqCst)
    }

    /// All workers, each of which offers so many.
    fn run(&self, seed: &mut Seed, offers: u64) {
        thread::scope(|scope| {
            for index in 0..WORKERS {
                let worker = Worker {
                    index,
                    host: self,
                    admission: Admission::new(index, 60_000),
                    has: 0,
                };
                let seed = Seed::of(seed.next());
                scope.spawn(move || worker.run(seed, offers));
            }
        });
        assert_eq!(self.slots.inflight(), 0);
        assert_eq!(self.slots.held(), 0);
    }
}

struct Worker<'a> {
    index: usize,
    host: &'a Host,
    admission: Admission,
    has: u64,
}

impl Worker<'_> {
    fn got_slot(&mut self) {
        let before = self.host.users.fetch_add(1, Ordering::SeqCst);
        let most = match self.host.numbers.floor_rate_milli {
            0 => LIMIT,
            _ => LIMIT + FLOOR_SLOTS,
        };
        assert!(before < most, "{before} had slots already");
        self.has += 1;
    }

    fn grant_all(&mut self) {
        loop {
            let (now_ns, numbers) = (self.host.now(), &self.host.numbers);
            match self.admission.grant(now_ns, numbers, &self.host.slots) {
                Grant::Admit(_) => self.got_slot(),
                Grant::Shed(waiter, why) => panic!("{waiter:?} shed: {why:?}"),
                Grant::Elsewhere(other) => {
                    assert_ne!(other, self.index);
                    self.host.wakes[other].store(true, Ordering::SeqCst);
                    return;
                }
                Grant::Idle => return,
            }
        }
    }

    /// Gives all its slots back as one batch.
    fn finish(&mut self) {
        for _ in 0..std::mem::take(&mut self.has) {
            self.host.users.fetch_sub(1, Ordering::SeqCst);
            self.admission.release(&self.host.slots);
            self.host.done.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn run(mut self, mut seed: Seed, offers: u64) {
        let priorities = [Priority::High, Priority::Default, Priority::Low];
        let start = Instant::now();
        let mut offered = 0;
        while self.host.done.load(Ordering::SeqCst) < offers * WORKERS as u64 {
            let mut turns = self.host.wakes[self.index].swap(false, Ordering::SeqCst);
            if offered < offers && seed.chance(2) {
                let request = offer(offered, priorities[seed.index(3)], seed.below(5) as u16);
                let host = self.host;
                let verdict = self
                    .admission
                    .offer(host.now(), &request, &host.numbers, &host.slots)
                    .1;
                match verdict {
                    Verdict::Admit | Verdict::Floor => self.got_slot(),
                    Verdict::Hold { .. } => {}
                    other => panic!("{other:?}"),
                }
                offered += 1;
                turns = true;
            }
            if self.has > 0 && seed.chance(3) {
                self.finish();
                turns = true;
            }
            if turns {
                // Whoever is not at it now finds it done.
                let host = self.host;
                host.slots
                    .pulse(host.now(), &host.numbers, Default::default);
                self.grant_all();
            } else {
                thread::yield_now();
                assert!(start.elapsed() < PATIENCE, "somebody was forgotten");
            }
        }
        assert_eq!(self.admission.held(), 0);
    }
}

#[test]
fn a_slot_is_never_given_twice_and_no_waiter_is_forgotten() {
    let mut seed = Seed::printed("a_slot_is_never_given_twice_and_no_waiter_is_forgotten");
    Host::new(0).run(&mut seed, rounds(20_000).min(60_000));
}

#[test]
fn nor_when_some_come_by_the_floor() {
    let mut seed = Seed::printed("nor_when_some_come_by_the_floor");
    // About one in ten turns.
    Host::new(10_000).run(&mut seed, rounds(20_000).min(60_000));
}

#[test]
fn an_id_is_new_to_one_worker_at_least_and_known_to_all_afterwards() {
    let mut seed = Seed::printed("an_id_is_new_to_one_worker_at_least_and_known_to_all_afterwards");
    let filter = RepeatFilter::new(1 << 18, seed.next());
    let first = AtomicU64::new(0);
    let ids = 5000u32;
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                for id in 0..ids {
                    if !filter.seen_before(1, &id.to_le_bytes(), 1) {
                        first.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let first = first.into_inner();
    // Workers that look at once may all find it new.
    let looks = u64::from(ids) * WORKERS as u64;
    assert!((u64::from(ids)..=looks).contains(&first), "{first}");
    // One that another's store went over is forgotten; that takes the same place at the same time.
    let known = (0..ids).filter(|id| filter.seen_before(1, &id.to_le_bytes(), 1));
    let forgotten = ids as usize - known.count();
    assert!(forgotten <= 50, "{forgotten} of {ids}");
}
