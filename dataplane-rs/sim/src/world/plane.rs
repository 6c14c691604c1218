//! The data plane: workers that turn, and what they count.
//!
//! It follows the turn of the real server: the meter is read before anything changes, then replies
//! give slots back, then new requests are offered, then whoever waits gets what is free, and every
//! few milliseconds those that have waited too long are shed. All deciding is done by
//! `sluice_core::admission`; here is only what surrounds it.

use super::senders::Answer;
use super::{Attempt, Event, JUDGED_NS, Stage, World};
use crate::ledger::Window;
use crate::scenario::{Ids, Nature, Retries, Scenario};
use sluice_core::admission::{
    Admission, Class, Grant, Jitter, Numbers, Offer, Rate, RepeatFilter, Slots, Verdict, Waiter,
};
use sluice_core::limits::{EXPIRE_INTERVAL_NS, HELD_MAX};
use sluice_lane::{Control, Counters};
use std::sync::atomic::AtomicU64;

/// Ids that the repeat filter knows.
const IDS_MAX: usize = 1 << 16;

/// What a lane is filled to when ring requests wait, and when all are shed, in thousandths.
const LANE_PAUSE_MILLI: u64 = 500;
const LANE_SHED_MILLI: u64 = 900;

/// How a frame ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Durable: a sample.
    Durable,
    /// Refused by the store.
    Dropped,
    /// Judged and not stored.
    Void,
}

struct Worker {
    admission: Admission,
    jitter: Jitter,
    came: Vec<u32>,
    ended: Vec<(u32, End)>,
    expire_at_ns: u64,
    lane_used: u64,
    is_touched: bool,
}

/// All workers and their shared words.
pub struct Plane {
    control: Control,
    counters: Counters,
    slots: Slots,
    filter: RepeatFilter,
    rates: Vec<Option<(Rate, AtomicU64)>>,
    workers: Vec<Worker>,
    touched: Vec<usize>,
    offered: [u64; Class::COUNT],
    shed: [u64; Class::COUNT],
    /// Who waits for a slot, counted apart from the code under test.
    waiting: [u64; Class::COUNT],
    lane_frames: u64,
}

impl Plane {
    /// Idle workers, with the pages that they share with the control plane.
    pub fn new(scenario: &Scenario, seed: u64, control: Control, counters: Counters) -> Plane {
        let workers = scenario.spread.len();
        let rate = |rate| Some((Rate::per_second(rate)?, AtomicU64::new(0)));
        let worker = |index| Worker {
            admission: Admission::new(index, HELD_MAX),
            jitter: Jitter::new(seed ^ (index as u64) << 32),
            came: Vec::new(),
            ended: Vec::new(),
            expire_at_ns: u64::MAX,
            lane_used: 0,
            is_touched: false,
        };
        Plane {
            control,
            counters,
            slots: Slots::new(workers, scenario.sources.len()),
            filter: RepeatFilter::new(IDS_MAX, seed),
            rates: scenario
                .sources
                .iter()
                .map(|source| source.rate.and_then(rate))
                .collect(),
            workers: (0..workers).map(worker).collect(),
            touched: Vec::new(),
            offered: [0; Class::COUNT],
            shed: [0; Class::COUNT],
            waiting: [0; Class::COUNT],
            lane_frames: scenario.lane_frames,
        }
    }

    /// Slots that are taken.
    pub fn inflight(&self) -> u64 {
        self.slots.inflight()
    }

    /// Requests that wait.
    pub fn held(&self) -> u64 {
        self.slots.held()
    }

    /// Frames in the lanes.
    pub fn in_lanes(&self) -> u64 {
        self.workers.iter().map(|worker| worker.lane_used).sum()
    }

    /// The worker has something to do in this instant.
    pub fn touch(&mut self, worker: usize) {
        if !self.workers[worker].is_touched {
            self.workers[worker].is_touched = true;
            self.touched.push(worker);
        }
    }

    /// A request is whole.
    pub fn come(&mut self, worker: usize, attempt: u32) {
        self.workers[worker].came.push(attempt);
        self.touch(worker);
    }

    /// The reply to a frame lies in the ring.
    pub(super) fn finish(&mut self, attempts: &[Attempt], attempt: u32, end: End) {
        let worker = usize::from(attempts[attempt as usize].worker);
        self.workers[worker].ended.push((attempt, end));
        self.touch(worker);
    }

    /// What a window shows at its end.
    pub fn look(&self, window: &mut Window) {
        let page = self.control.page();
        window.limit = page.limit();
        window.base = page.base_limit_milli() as f64 / 1000.0;
        window.inflight = self.slots.inflight();
        window.held = self.slots.held();
        window.overloaded = self.slots.overloaded();
        window.hold_bound_ns = page.hold_bound_ns();
        window.share_rate = page.share_rate_milli() as f64 / 1000.0;
    }

    /// What the data plane remembers of a source.
    pub fn note_standing(&self, source: u16, now_ns: u64, answer: Answer) {
        match answer {
            Answer::Good => self.slots.succeeded(source, now_ns),
            Answer::Unauthorized => {}
            Answer::Refused { .. } => self.slots.refused(source),
        }
    }

    fn numbers(&self) -> Numbers {
        let page = self.control.page();
        Numbers {
            limit: page.limit(),
            floor_slots: page.floor_slots(),
            floor_rate_milli: page.floor_rate_milli(),
            max_held: page.max_held(),
            hold_budget_ns: page.hold_budget_ns(),
            hold_bound_ns: page.hold_bound_ns(),
            growing: page.growing() != 0,
            service_time_ns: page.service_time_ns(),
            repeat_share_milli: page.repeat_share_milli(),
            share_rate_milli: page.share_rate_milli(),
            codel_target_ns: page.codel_target_ns(),
            codel_interval_ns: page.codel_interval_ns(),
            pace_interval_ns: page.pace_interval_ns(),
            pace_depth_ns: page.pace_depth_ns(),
        }
    }

    fn pulse(&self, now_ns: u64, numbers: &Numbers) {
        let counts = || (self.offered, self.shed);
        let Some(pulse) = self.slots.pulse(now_ns, numbers, counts) else {
            return;
        };
        let header = self.counters.header();
        header.store_inflight(pulse.inflight);
        header.store_held(pulse.held);
        header.store_peak(pulse.peak);
        header.store_overloaded(pulse.overloaded);
        header.store_overload_since_ns(pulse.overload_since_ns);
        header.add_area_ns(pulse.area_ns);
        header.add_saturated_ns(pulse.saturated_ns);
        header.store_metered_ns(pulse.metered_ns);
    }

    /// Ids in bodies are looked for only while they make a difference.
    fn is_pressed(&self, numbers: &Numbers) -> bool {
        self.slots.overloaded() != 0
            || self.slots.held() > 0
            || self.slots.inflight() * 1000 >= numbers.repeat_share_milli * numbers.limit
    }

    fn pause_ring(&mut self, worker: usize) {
        let worker = &mut self.workers[worker];
        let is_half_full = worker.lane_used * 1000 >= self.lane_frames * LANE_PAUSE_MILLI;
        worker.admission.pause_ring(is_half_full);
    }
}

impl World<'_> {
    /// Workers turn until none has anything to do in this instant.
    pub(super) fn turns(&mut self) {
        while let Some(worker) = self.plane.touched.pop() {
            self.plane.workers[worker].is_touched = false;
            self.turn(worker);
        }
    }

    fn turn(&mut self, index: usize) {
        let numbers = self.plane.numbers();
        self.plane.pulse(self.now_ns, &numbers);
        for (attempt, end) in std::mem::take(&mut self.plane.workers[index].ended) {
            self.reply(index, attempt, end);
        }
        for attempt in std::mem::take(&mut self.plane.workers[index].came) {
            self.offer(index, attempt, &numbers);
        }
        self.grant(index, &numbers);
        let worker = &mut self.plane.workers[index];
        if worker.admission.held() == 0 {
            worker.expire_at_ns = u64::MAX;
            return;
        }
        let is_due = worker.expire_at_ns <= self.now_ns;
        if is_due || worker.expire_at_ns == u64::MAX {
            worker.expire_at_ns = self.now_ns + EXPIRE_INTERVAL_NS;
            self.at(self.now_ns + EXPIRE_INTERVAL_NS, Event::Expire(index));
        }
        if is_due {
            self.expire(index, &numbers);
        }
    }

    fn reply(&mut self, index: usize, token: u32, end: End) {
        let attempt = self.attempts[token as usize];
        let nature = self.nature(&attempt);
        self.attempts[token as usize].stage = Stage::Settled;
        let worker = &mut self.plane.workers[index];
        worker.lane_used -= 1;
        if attempt.is_ring {
            return; // it has its answer, and had no slot
        }
        worker.admission.release(&self.plane.slots);
        let counted = self.plane.counters.worker(index);
        let took_ns = self.now_ns - attempt.taken_ns;
        if end == End::Durable {
            counted.add_samples(1);
            counted.add_sample_sum_ns(took_ns);
            self.note_times(&attempt);
        } else {
            counted.add_void_ns(took_ns);
            counted.add_drops(u64::from(end == End::Dropped));
        }
        let answer = match (end, nature) {
            (End::Durable, _) | (End::Void, Nature::Handshake | Nature::Probe) => Answer::Good,
            (End::Void, _) => Answer::Unauthorized,
            (End::Dropped, _) => {
                self.part(&attempt).dropped += 1;
                Answer::Refused {
                    after_s: self.retry_after(index),
                }
            }
        };
        self.answer(token, answer);
    }

    fn note_times(&mut self, attempt: &Attempt) {
        let micros = |ns: u64| (ns / 1000).min(u64::from(u32::MAX)) as u32;
        let slot = micros(self.now_ns - attempt.taken_ns);
        let total = micros(self.now_ns - attempt.came_ns);
        self.window.slot.push(slot);
        self.window.total.push(total);
        let part = self.part(attempt);
        part.slot.push(slot);
        part.total.push(total);
        part.hold.push(micros(attempt.taken_ns - attempt.came_ns));
    }

    fn retry_after(&mut self, index: usize) -> u32 {
        let since_ns = self.plane.slots.overload_since_ns();
        self.plane.workers[index]
            .jitter
            .retry_after_s(self.now_ns, since_ns)
    }

    fn offer(&mut self, index: usize, token: u32, numbers: &Numbers) {
        let attempt = self.attempts[token as usize];
        let plane = &mut self.plane;
        let worker = &mut plane.workers[index];
        if let Some((rate, word)) = &plane.rates[usize::from(attempt.source)]
            && let Err(wait_ns) = rate.take(word, self.now_ns)
        {
            let after_s = worker.jitter.retry_after_rate_s(wait_ns);
            return self.shed(token, None, after_s);
        }
        if worker.lane_used * 1000 >= plane.lane_frames * LANE_SHED_MILLI {
            let after_s = self.retry_after(index);
            return self.shed(token, None, after_s);
        }
        plane.pause_ring(index);
        let repeat = self.is_repeat(&attempt, numbers);
        let source = &self.scenario.sources[usize::from(attempt.source)];
        let offer = Offer {
            token: u64::from(token),
            source: attempt.source,
            priority: source.priority,
            never_retries: source.retries == Retries::Never,
            repeat,
            handshake: source.nature == Nature::Handshake,
            probes: source.nature == Nature::Probe,
            guard_after: source.guard_after,
            weight: 0,
            until_ns: attempt.until_ns,
            ring: attempt.is_ring,
        };
        let plane = &mut self.plane;
        let admission = &mut plane.workers[index].admission;
        let (class, verdict) = admission.offer(self.now_ns, &offer, numbers, &plane.slots);
        self.attempts[token as usize].class = class;
        plane
            .counters
            .worker(index)
            .add_class_offered(class as usize, 1);
        let words = plane.counters.source(index, usize::from(attempt.source));
        words.add_offered(1);
        words.add_repeats(u64::from(repeat));
        plane.offered[class as usize] += 1;
        self.ledger.class_offered[class as usize] += 1;
        match verdict {
            Verdict::Admit => {
                self.check_admitted(class, numbers.limit, attempt.is_ring);
                self.admitted(index, token);
            }
            Verdict::Floor => self.floored(index, token, numbers),
            Verdict::Hold { ticket, pushed_out } => {
                plane
                    .counters
                    .worker(index)
                    .add_class_held(class as usize, 1);
                self.attempts[token as usize].stage = Stage::Held(ticket);
                plane.waiting[class as usize] += u64::from(!attempt.is_ring);
                if let Some(waiter) = pushed_out {
                    if waiter.class <= class {
                        self.broken(format!("{class:?} pushed {:?} out", waiter.class));
                    }
                    self.shed_waiter(index, &waiter);
                }
            }
            Verdict::Shed(_) => {
                let after_s = self.retry_after(index);
                self.shed(token, Some(index), after_s);
            }
        }
    }

    fn is_repeat(&self, attempt: &Attempt, numbers: &Numbers) -> bool {
        let source = &self.scenario.sources[usize::from(attempt.source)];
        if source.retries == Retries::Never
            || !matches!(source.nature, Nature::Event | Nature::Ring)
        {
            return false;
        }
        match source.ids {
            Ids::RetryHeader => self.senders.tries(attempt.event) > 1,
            Ids::Body if !self.plane.is_pressed(numbers) => false,
            Ids::Header | Ids::Body => {
                let id = attempt.event.to_le_bytes();
                self.plane
                    .filter
                    .seen_before(attempt.source, &id, self.now_ns)
            }
            Ids::None => false,
        }
    }

    fn grant(&mut self, index: usize, numbers: &Numbers) {
        loop {
            self.plane.pause_ring(index);
            let plane = &mut self.plane;
            let admission = &mut plane.workers[index].admission;
            match admission.grant(self.now_ns, numbers, &plane.slots) {
                Grant::Admit(waiter) => {
                    self.has_left(&waiter);
                    self.check_admitted(waiter.class, numbers.limit, waiter.ring);
                    self.admitted(index, waiter.token as u32);
                }
                Grant::Shed(waiter, _) => self.shed_waiter(index, &waiter),
                Grant::Elsewhere(other) => {
                    return self.at(self.now_ns + self.scenario.wake_ns, Event::Wake(other));
                }
                Grant::Idle => return,
            }
        }
    }

    fn expire(&mut self, index: usize, numbers: &Numbers) {
        let mut spent = Vec::new();
        let plane = &mut self.plane;
        let admission = &mut plane.workers[index].admission;
        admission.expire(self.now_ns, numbers, &plane.slots, |waiter| {
            spent.push(waiter)
        });
        for waiter in &spent {
            self.shed_waiter(index, waiter);
        }
    }

    /// Nobody above waits for a slot, and there was one.
    fn check_admitted(&mut self, class: Class, limit: u64, is_ring: bool) {
        if is_ring {
            return;
        }
        let above = &self.plane.waiting[..class as usize];
        if let Some(first) = above.iter().position(|&count| count > 0) {
            self.broken(format!(
                "{class:?} was admitted while {:?} waited",
                Class::ALL[first]
            ));
        }
        let inflight = self.plane.slots.inflight();
        if inflight > limit {
            self.broken(format!("slot {inflight} of {limit} was taken"));
        }
    }

    fn floored(&mut self, index: usize, token: u32, numbers: &Numbers) {
        let source = usize::from(self.attempts[token as usize].source);
        self.plane.counters.worker(index).add_floored(1);
        self.plane.counters.source(index, source).add_floored(1);
        self.ledger.floored += 1;
        let inflight = self.plane.slots.inflight();
        if inflight > numbers.limit + numbers.floor_slots {
            self.broken(format!(
                "the floor took slot {inflight} of {}",
                numbers.limit
            ));
        }
        self.admitted(index, token);
    }

    fn admitted(&mut self, index: usize, token: u32) {
        let attempt = &mut self.attempts[token as usize];
        attempt.stage = Stage::Taken;
        attempt.taken_ns = self.now_ns;
        let attempt = *attempt;
        self.plane
            .counters
            .worker(index)
            .add_class_admitted(attempt.class as usize, 1);
        self.plane.workers[index].lane_used += 1;
        self.part(&attempt).admitted += 1;
        let nature = self.nature(&attempt);
        if attempt.is_unauthorized || matches!(nature, Nature::Handshake | Nature::Probe) {
            return self.at(self.now_ns + JUDGED_NS, Event::Judged(token));
        }
        self.backend.submit(self.now_ns, token, &mut self.effects);
        self.take_effects();
        if attempt.is_ring {
            self.answer(token, Answer::Good);
        } else {
            self.at(attempt.until_ns, Event::Budget(token));
        }
    }

    /// No reply inside the sender's budget; the frame stays where it is.
    pub(super) fn budget_ends(&mut self, token: u32) {
        let attempt = self.attempts[token as usize];
        if attempt.stage != Stage::Taken {
            return;
        }
        let index = usize::from(attempt.worker);
        self.plane.counters.worker(index).add_drops(1);
        self.part(&attempt).missed += 1;
        let after_s = self.retry_after(index);
        self.answer(token, Answer::Refused { after_s });
    }

    /// The sender of a request has left.
    pub(super) fn leave(&mut self, token: u32) {
        let attempt = self.attempts[token as usize];
        if attempt.is_answered {
            return;
        }
        if let Stage::Held(ticket) = attempt.stage {
            let plane = &mut self.plane;
            let admission = &mut plane.workers[usize::from(attempt.worker)].admission;
            let was_there = admission.cancel(ticket, &plane.slots);
            plane.waiting[attempt.class as usize] -= u64::from(!attempt.is_ring);
            self.attempts[token as usize].stage = Stage::Settled;
            if !was_there {
                self.broken("one that left was not in the queue".into());
            }
        }
        self.lost(token);
    }

    /// A waiter has left the queue, maybe as one of a higher class than it came in.
    fn has_left(&mut self, waiter: &Waiter) {
        let attempt = &mut self.attempts[waiter.token as usize];
        let came_as = std::mem::replace(&mut attempt.class, waiter.class);
        self.plane.waiting[came_as as usize] -= u64::from(!waiter.ring);
    }

    fn shed_waiter(&mut self, index: usize, waiter: &Waiter) {
        self.has_left(waiter);
        let after_s = self.retry_after(index);
        self.shed(waiter.token as u32, Some(index), after_s);
    }

    /// Refuses a request that has no slot; `judge` is the worker that knew its class.
    fn shed(&mut self, token: u32, judge: Option<usize>, after_s: u32) {
        let attempt = &mut self.attempts[token as usize];
        if attempt.stage == Stage::Settled {
            return self.broken("one that had left was shed".into());
        }
        attempt.stage = Stage::Settled;
        let attempt = *attempt;
        if let Some(index) = judge {
            let class = attempt.class as usize;
            self.plane.counters.worker(index).add_class_shed(class, 1);
            self.plane.shed[class] += 1;
            self.ledger.class_shed[class] += 1;
            self.window.shed[class] += 1;
        }
        self.part(&attempt).shed[attempt.kind as usize] += 1;
        self.answer(token, Answer::Refused { after_s });
    }
}
