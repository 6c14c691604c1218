//! Models of what stores the frames.
//!
//! A job is a frame; it is submitted once and comes out once, done or dropped. A model never looks
//! at a clock: the world calls [`Backend::fire`] at the instants that the model asked for.

use crate::random::Random;
use crate::scenario::Store;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};

/// What a call to a model brought about.
#[derive(Debug, Default)]
pub struct Effects {
    /// Frames that are durable now.
    pub done: Vec<u32>,
    /// Frames that the store gave up.
    pub dropped: Vec<u32>,
    /// When to call [`Backend::fire`], and with which operation.
    pub timers: Vec<(u64, u64)>,
}

/// One store.
#[derive(Debug)]
pub struct Backend {
    store: Store,
    slow: f64,
    stopped: bool,
    random: Random,
    queue: VecDeque<u32>,
    /// Of `Store::Slots`: servers at work.
    busy: u64,
    /// What came to its end while the store stood still.
    frozen: Vec<u64>,
    /// Of `Store::Commit`: the group that is being written.
    group: Vec<u32>,
    shared: Sharing,
}

/// Of `Store::Collapse`: all jobs progress at one speed.
#[derive(Debug, Default)]
struct Sharing {
    /// Nanoseconds of work that each job present has got since the beginning.
    progress: f64,
    at_ns: u64,
    /// By the progress at which they end. Progress is positive, so its bits order as it does.
    ends: BinaryHeap<Reverse<(u64, u32)>>,
    present: HashSet<u32>,
    /// Only the timer of the newest round counts.
    round: u64,
}

impl Backend {
    /// An idle store.
    pub fn new(store: Store, random: Random) -> Backend {
        Backend {
            store,
            slow: 1.0,
            stopped: false,
            random,
            queue: VecDeque::new(),
            busy: 0,
            frozen: Vec::new(),
            group: Vec::new(),
            shared: Sharing::default(),
        }
    }

    /// Changes the speed: `slow` times the service time of the healthy store, or none at all.
    /// What is in service keeps its time.
    pub fn set_speed(&mut self, now_ns: u64, slow: f64, stopped: bool, effects: &mut Effects) {
        self.progress(now_ns);
        self.slow = slow;
        self.stopped = stopped;
        if !stopped {
            for operation in std::mem::take(&mut self.frozen) {
                self.fire(now_ns, operation, effects);
            }
            self.start(now_ns, effects);
        }
        if let Store::Collapse { .. } = self.store {
            self.next_end(effects);
        }
    }

    /// Takes a frame.
    pub fn submit(&mut self, now_ns: u64, job: u32, effects: &mut Effects) {
        let Store::Collapse {
            service_ns,
            timeout_ns,
            ..
        } = self.store
        else {
            self.queue.push_back(job);
            return self.start(now_ns, effects);
        };
        self.progress(now_ns);
        let work = service_ns as f64 * self.random.lognormal(0.3);
        let end = self.shared.progress + work;
        self.shared.ends.push(Reverse((end.to_bits(), job)));
        self.shared.present.insert(job);
        effects
            .timers
            .push((now_ns + timeout_ns, u64::from(job) << 1 | 1));
        self.next_end(effects);
    }

    /// The instant of an operation has come.
    pub fn fire(&mut self, now_ns: u64, operation: u64, effects: &mut Effects) {
        match self.store {
            _ if self.stopped && !matches!(self.store, Store::Collapse { .. }) => {
                self.frozen.push(operation);
            }
            Store::Slots { .. } => {
                self.busy -= 1;
                effects.done.push(operation as u32);
                self.start(now_ns, effects);
            }
            Store::Commit { .. } => {
                effects.done.append(&mut self.group);
                self.start(now_ns, effects);
            }
            Store::Collapse { .. } => self.fire_shared(now_ns, operation, effects),
        }
    }

    /// Begins what can begin.
    fn start(&mut self, now_ns: u64, effects: &mut Effects) {
        if self.stopped {
            return;
        }
        match self.store {
            Store::Slots {
                count,
                service_ns,
                sigma,
            } => {
                while self.busy < count {
                    let Some(job) = self.queue.pop_front() else {
                        return;
                    };
                    self.busy += 1;
                    let took = service_ns as f64 * self.slow * self.random.lognormal(sigma);
                    effects
                        .timers
                        .push((now_ns + (took as u64).max(1), u64::from(job)));
                }
            }
            Store::Commit {
                sync_ns,
                event_ns,
                tail,
                tail_ns: (low, high),
            } => {
                if !self.group.is_empty() || self.queue.is_empty() {
                    return;
                }
                self.group.extend(self.queue.drain(..));
                let sync = if self.random.unit() < tail {
                    low as f64 + self.random.unit() * (high - low) as f64
                } else {
                    sync_ns as f64
                };
                let took = (sync + event_ns as f64 * self.group.len() as f64) * self.slow;
                effects.timers.push((now_ns + (took as u64).max(1), 0));
            }
            Store::Collapse { .. } => {}
        }
    }

    fn fire_shared(&mut self, now_ns: u64, operation: u64, effects: &mut Effects) {
        self.progress(now_ns);
        let shared = &mut self.shared;
        if operation & 1 == 1 {
            let job = (operation >> 1) as u32;
            if !shared.present.remove(&job) {
                return; // it was in time
            }
            effects.dropped.push(job);
        } else if operation >> 1 != shared.round {
            return;
        }
        // The half nanosecond is what rounding the timer up to whole ones may miss.
        while let Some(&Reverse((end, job))) = shared.ends.peek() {
            if !shared.present.contains(&job) {
                shared.ends.pop();
            } else if f64::from_bits(end) <= shared.progress + 0.5 {
                shared.ends.pop();
                shared.present.remove(&job);
                effects.done.push(job);
            } else {
                break;
            }
        }
        self.next_end(effects);
    }

    /// Work that one job gets in a nanosecond.
    fn speed(&self) -> f64 {
        let Store::Collapse { count, beyond, .. } = self.store else {
            return 0.0;
        };
        let present = self.shared.present.len() as f64;
        if self.stopped || present == 0.0 {
            return 0.0;
        }
        let over = (present - count as f64).max(0.0) / beyond;
        present.min(count as f64) / (1.0 + over.powf(1.5)) / present / self.slow
    }

    fn progress(&mut self, now_ns: u64) {
        let gained = self.speed() * (now_ns - self.shared.at_ns) as f64;
        self.shared.progress += gained;
        self.shared.at_ns = now_ns;
    }

    fn next_end(&mut self, effects: &mut Effects) {
        self.shared.round += 1;
        let speed = self.speed();
        if let (Some(Reverse((end, _))), true) = (self.shared.ends.peek(), speed > 0.0) {
            let left = (f64::from_bits(*end) - self.shared.progress).max(0.0) / speed;
            let at_ns = self.shared.at_ns + left.ceil().max(1.0) as u64;
            effects.timers.push((at_ns, self.shared.round << 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Keeps `inflight` jobs in the store for ten seconds: done a second, and dropped in all.
    fn closed(store: Store, slow: f64, inflight: u32) -> (f64, usize) {
        let mut backend = Backend::new(store, Random::new(3, 0));
        let mut effects = Effects::default();
        let mut timers = BinaryHeap::new();
        let (mut jobs, mut done, mut dropped) = (inflight, 0, 0);
        backend.set_speed(0, slow, false, &mut effects);
        (0..inflight).for_each(|job| backend.submit(0, job, &mut effects));
        loop {
            timers.extend(effects.timers.drain(..).map(Reverse));
            let Some(Reverse((now_ns, operation))) = timers.pop() else {
                break;
            };
            if now_ns > 10 * SECOND {
                break;
            }
            backend.fire(now_ns, operation, &mut effects);
            let (out, lost) = (effects.done.len(), effects.dropped.len());
            effects.done.clear();
            effects.dropped.clear();
            (done, dropped) = (done + out, dropped + lost);
            for _ in 0..out + lost {
                backend.submit(now_ns, jobs, &mut effects);
                jobs += 1;
            }
        }
        (done as f64 / 10.0, dropped)
    }

    #[test]
    fn slots_take_their_count_over_their_time_however_many_wait() {
        let store = Store::Slots {
            count: 8,
            service_ns: 4_000_000,
            sigma: 0.3,
        };
        for (slow, inflight, rate) in [
            (1.0, 8, 2000.0),
            (1.0, 500, 2000.0),
            (10.0, 64, 200.0),
            (1.0, 4, 1000.0),
        ] {
            let (done, dropped) = closed(store, slow, inflight);
            assert!(
                (done / rate - 1.0).abs() < 0.03,
                "{slow} {inflight}: {done}"
            );
            assert_eq!(dropped, 0);
        }
    }

    #[test]
    fn a_group_commit_gets_faster_with_what_waits_up_to_its_bandwidth() {
        let store = Store::Commit {
            sync_ns: 300_000,
            event_ns: 200_000,
            tail: 0.0,
            tail_ns: (0, 0),
        };
        for inflight in [1u32, 2, 16, 256] {
            let half = f64::from(inflight.div_ceil(2));
            let (done, _) = closed(store, 1.0, inflight);
            // Everything in one group, or two groups that take turns.
            let rate = |n: f64| n / (0.000_3 + 0.000_2 * n);
            let (low, high) = (rate(half) * 0.97, rate(f64::from(inflight)) * 1.03);
            assert!(
                low <= done && done <= high,
                "{inflight}: {done} of {low}..{high}"
            );
        }
    }

    #[test]
    fn a_collapsing_store_loses_throughput_beyond_its_count_and_then_its_jobs() {
        let store = Store::Collapse {
            count: 16,
            service_ns: 4_000_000,
            beyond: 80.0,
            timeout_ns: SECOND,
        };
        let (at, dropped) = closed(store, 1.0, 16);
        assert!(
            (at / 4000.0 - 1.0).abs() < 0.03 && dropped == 0,
            "{at} {dropped}"
        );
        let (beyond, _) = closed(store, 1.0, 64);
        assert!((beyond / 4000.0 - 0.68).abs() < 0.04, "{beyond}");
        let (_, dropped) = closed(store, 10.0, 512);
        assert!(dropped > 0);
    }

    #[test]
    fn a_store_that_stood_still_loses_nothing() {
        for store in [
            Store::Slots {
                count: 2,
                service_ns: 1_000_000,
                sigma: 0.0,
            },
            Store::Commit {
                sync_ns: 1000,
                event_ns: 1000,
                tail: 0.0,
                tail_ns: (0, 0),
            },
            Store::Collapse {
                count: 2,
                service_ns: 1_000_000,
                beyond: 9.0,
                timeout_ns: 60 * SECOND,
            },
        ] {
            let mut backend = Backend::new(store, Random::new(3, 0));
            let mut effects = Effects::default();
            let mut timers = BinaryHeap::new();
            (0..10).for_each(|job| backend.submit(0, job, &mut effects));
            backend.set_speed(500_000, 1.0, true, &mut effects);
            let mut resumed = false;
            loop {
                timers.extend(effects.timers.drain(..).map(Reverse));
                match timers.pop() {
                    Some(Reverse((at_ns, operation))) if resumed || at_ns < 5 * SECOND => {
                        backend.fire(at_ns, operation, &mut effects);
                    }
                    left if !resumed => {
                        assert!(effects.done.len() <= 2, "{store:?}: {effects:?}");
                        timers.extend(left);
                        resumed = true;
                        backend.set_speed(5 * SECOND, 1.0, false, &mut effects);
                    }
                    _ => break,
                }
            }
            effects.done.sort_unstable();
            assert_eq!(effects.done, (0..10).collect::<Vec<_>>(), "{store:?}");
            assert!(effects.dropped.is_empty());
        }
    }
}
