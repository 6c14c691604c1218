//! Everything that happens, in virtual time and in one order.
//!
//! The world holds what stands around the decision: senders that come, wait, leave and come again,
//! the store, and the clock. An instant is worked off whole: first all its events, then one turn of
//! each worker that has something to do. Same scenario, same seed, same answers of the control
//! plane: the same world.
//!
//! States of an attempt:
//!
//! ```text
//! came ──▶ slot taken ──▶ in the store ──▶ settled
//!   │          ▲
//!   ├──▶ held ─┤
//!   │          └──▶ shed, or its sender left
//!   └──▶ shed
//! ```

mod plane;
mod senders;

use crate::backend::{Backend, Effects};
use crate::ledger::{Kind, Ledger, Part, SourcePart, WINDOW_NS, Window};
use crate::link::Link;
use crate::metrics::groups;
use crate::random::Random;
use crate::scenario::{Nature, Scenario};
use plane::End;
pub use plane::Plane;
use senders::Senders;
use sluice_core::admission::{Class, Ticket};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The boot clock at the beginning of a scenario: anything but 0, which means never.
pub const ORIGIN_NS: u64 = 1_000_000_000_000;

/// The control plane's tick.
const TICK_NS: u64 = 20_000_000;

/// From a frame in the lane to the reply of the control plane, when nothing is stored.
const JUDGED_NS: u64 = 1_000_000;

/// What a data plane keeps of a sender's deadline: a tenth for the connection, this at most, and
/// some for the way back.
const CONNECT_MAX_NS: u64 = 1_000_000_000;
const REPLY_NS: u64 = 50_000_000;

/// How long after the last phase everything has to be settled.
const DRAIN_NS: u64 = 120_000_000_000;

/// Something that happens at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Tick,
    Window,
    Phase(usize),
    /// A burst begins or ends, in that phase.
    Burst(usize, bool),
    /// The store's time is drawn again, in that phase.
    Wobble(usize),
    /// The next request of the load, unless the load changed meanwhile.
    Arrive(u64),
    /// The sender of that event tries again.
    Retry(u32),
    Store(u64),
    /// The control plane's reply to a frame that is not stored.
    Judged(u32),
    /// The end of a budget.
    Budget(u32),
    Leave(u32),
    Wake(usize),
    Expire(usize),
}

/// Where an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Came,
    Held(Ticket),
    /// In the store or with the control plane.
    Taken,
    Settled,
}

/// One request.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    event: u32,
    source: u16,
    worker: u8,
    phase: u8,
    kind: Kind,
    class: Class,
    stage: Stage,
    /// Its sender has its answer, or has left.
    is_answered: bool,
    is_unauthorized: bool,
    /// Answered at once, without a slot.
    is_ring: bool,
    came_ns: u64,
    taken_ns: u64,
    until_ns: u64,
}

/// A scenario in progress.
pub struct World<'a> {
    scenario: &'a Scenario,
    link: Link,
    now_ns: u64,
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    backend: Backend,
    effects: Effects,
    attempts: Vec<Attempt>,
    senders: Senders,
    plane: Plane,
    ledger: Ledger,
    window: Window,
    /// Group of each source slot.
    group: Vec<usize>,
    wobble: Random,
    /// Factor on the store's time beside the phase's own.
    wobbling: f64,
    /// What the store can take since then, frames a second.
    capacity: f64,
    capacity_at_ns: u64,
    /// The source slot whose answers are written out.
    trace: Option<usize>,
}

impl<'a> World<'a> {
    /// A world at its beginning.
    pub fn new(scenario: &'a Scenario, seed: u64, link: Link, plane: Plane) -> World<'a> {
        let names = groups(scenario);
        let phases = scenario.phases.len();
        let slots = scenario.sources.len();
        let at = |name: &String| names.iter().position(|group| group == name);
        let group = scenario
            .sources
            .iter()
            .filter_map(|s| at(&s.group))
            .collect();
        World {
            scenario,
            link,
            now_ns: ORIGIN_NS,
            heap: BinaryHeap::new(),
            order: 0,
            backend: Backend::new(scenario.store, Random::new(seed, 1)),
            effects: Effects::default(),
            attempts: Vec::new(),
            senders: Senders::new(scenario, seed),
            plane,
            ledger: Ledger {
                parts: vec![vec![Part::default(); names.len()]; phases],
                sources: vec![vec![SourcePart::default(); slots]; phases],
                windows: Vec::new(),
                class_offered: [0; Class::COUNT],
                class_shed: [0; Class::COUNT],
                floored: 0,
                in_row: vec![(0, 0); slots],
                deleted: 0,
                broken: Vec::new(),
            },
            window: Window::default(),
            group,
            wobble: Random::new(seed, 2),
            wobbling: 1.0,
            capacity: 0.0,
            capacity_at_ns: ORIGIN_NS,
            trace: None,
        }
    }

    /// Writes each answer to that source to standard error.
    pub fn trace(&mut self, slot: Option<usize>) {
        self.trace = slot;
    }

    /// Runs the scenario to its end, and until all that came is settled.
    pub fn run(mut self) -> std::io::Result<Ledger> {
        let end_ns = ORIGIN_NS + self.scenario.phases.last().map_or(0, |last| last.to_ns);
        for (index, phase) in self.scenario.phases.iter().enumerate() {
            self.at(ORIGIN_NS + phase.from_ns, Event::Phase(index));
        }
        self.at(ORIGIN_NS, Event::Tick);
        self.at(ORIGIN_NS + WINDOW_NS, Event::Window);
        while let Some(Reverse((at_ns, _, event))) = self.heap.pop() {
            let settled = self.plane.in_lanes() == 0 && self.plane.held() == 0;
            if at_ns > end_ns && (settled || at_ns > end_ns + DRAIN_NS) {
                break;
            }
            self.now_ns = at_ns;
            self.happen(event, end_ns)?;
            while let Some(&Reverse((next_ns, _, event))) = self.heap.peek()
                && next_ns == at_ns
            {
                self.heap.pop();
                self.happen(event, end_ns)?;
            }
            self.turns();
        }
        self.check_end();
        Ok(self.ledger)
    }

    fn at(&mut self, at_ns: u64, event: Event) {
        self.order += 1;
        self.heap.push(Reverse((at_ns, self.order, event)));
    }

    fn happen(&mut self, event: Event, end_ns: u64) -> std::io::Result<()> {
        match event {
            Event::Tick => {
                self.tick()?;
                self.at(self.now_ns + TICK_NS, Event::Tick);
            }
            Event::Window => {
                if self.now_ns <= end_ns {
                    self.close_window();
                }
                // An idle worker turns now and then too.
                (0..self.scenario.spread.len()).for_each(|worker| self.plane.touch(worker));
                self.at(self.now_ns + WINDOW_NS, Event::Window);
            }
            Event::Phase(index) => self.begin_phase(index),
            Event::Burst(phase, on) => self.burst(phase, on),
            Event::Wobble(phase) => self.wobble(phase),
            Event::Arrive(round) if self.now_ns < end_ns => self.arrive(round),
            Event::Retry(event) if self.now_ns < end_ns => self.come(event),
            Event::Arrive(_) | Event::Retry(_) => {}
            Event::Store(operation) => {
                self.backend.fire(self.now_ns, operation, &mut self.effects);
                self.take_effects();
            }
            Event::Judged(attempt) => self.plane.finish(&self.attempts, attempt, End::Void),
            Event::Budget(attempt) => self.budget_ends(attempt),
            Event::Leave(attempt) => self.leave(attempt),
            Event::Wake(worker) => self.plane.touch(worker),
            Event::Expire(worker) => self.plane.touch(worker),
        }
        Ok(())
    }

    /// The control plane looks, unless it is away.
    fn tick(&mut self) -> std::io::Result<()> {
        let since_ns = self.now_ns - ORIGIN_NS;
        let away = &self.scenario.away;
        if away
            .iter()
            .any(|&(from, to)| (from..to).contains(&since_ns))
        {
            return Ok(());
        }
        let before = since_ns.saturating_sub(TICK_NS);
        let mut restarts = self.scenario.restarts.iter();
        if restarts.any(|&at_ns| (before..since_ns).contains(&at_ns)) {
            self.link.say(format_args!("restart {}", self.now_ns))?;
        }
        self.link.say(format_args!("tick {}", self.now_ns))?;
        Ok(())
    }

    fn begin_phase(&mut self, index: usize) {
        let scenario = self.scenario;
        let phase = &scenario.phases[index];
        self.senders.begin_phase(scenario, index);
        self.wobbling = 1.0;
        if phase.wobble.is_some() {
            self.wobble(index);
        } else {
            self.set_speed();
        }
        match phase.burst_ns {
            Some(_) => self.burst(index, true),
            None => self.next_arrival(),
        }
    }

    fn burst(&mut self, phase: usize, on: bool) {
        if self.senders.phase() != phase {
            return;
        }
        if let Some((on_ns, off_ns)) = self.scenario.phases[phase].burst_ns {
            let length = if on { on_ns } else { off_ns };
            self.at(self.now_ns + length, Event::Burst(phase, !on));
            self.senders.set_on(on);
            self.next_arrival();
        }
    }

    fn wobble(&mut self, phase: usize) {
        if self.senders.phase() != phase {
            return;
        }
        if let Some((sigma, every_ns)) = self.scenario.phases[phase].wobble {
            self.wobbling = self.wobble.lognormal(sigma);
            self.set_speed();
            self.at(self.now_ns + every_ns, Event::Wobble(phase));
        }
    }

    /// Factor on the store's time now.
    fn slow(&self) -> f64 {
        let phase = &self.scenario.phases[self.senders.phase()];
        let (from, to) = phase.slow;
        let done = (self.now_ns - ORIGIN_NS - phase.from_ns) as f64;
        let whole = (phase.to_ns - phase.from_ns) as f64;
        (from + (to - from) * (done / whole).min(1.0)) * self.wobbling
    }

    fn set_speed(&mut self) {
        self.count_capacity();
        let stopped = self.scenario.phases[self.senders.phase()].stopped;
        let slow = self.slow();
        self.backend
            .set_speed(self.now_ns, slow, stopped, &mut self.effects);
        self.take_effects();
    }

    /// Adds what the store could have taken since the last time. A factor that ramps is taken as it
    /// is at the end of the interval, a window at most.
    fn count_capacity(&mut self) {
        let took = (self.now_ns - self.capacity_at_ns) as f64 / 1e9;
        self.capacity_at_ns = self.now_ns;
        self.window.capacity += self.capacity * took;
        let stopped = self.scenario.phases[self.senders.phase()].stopped;
        let rate = self.scenario.store.capacity() / self.slow();
        self.capacity = if stopped { 0.0 } else { rate };
    }

    fn take_effects(&mut self) {
        let mut effects = std::mem::take(&mut self.effects);
        for (at_ns, operation) in effects.timers.drain(..) {
            self.at(at_ns, Event::Store(operation));
        }
        for attempt in effects.done.drain(..) {
            self.plane.finish(&self.attempts, attempt, End::Durable);
        }
        for attempt in effects.dropped.drain(..) {
            self.plane.finish(&self.attempts, attempt, End::Dropped);
        }
        self.effects = effects;
    }

    fn close_window(&mut self) {
        let phase = &self.scenario.phases[self.senders.phase()];
        if phase.slow.0 != phase.slow.1 {
            self.set_speed();
        } else {
            self.count_capacity();
        }
        let mut window = std::mem::take(&mut self.window);
        self.plane.look(&mut window);
        window.slot.sort_unstable();
        window.total.sort_unstable();
        self.ledger.windows.push(window);
    }

    /// The windows of the past are open for what came in them.
    fn window_of(&mut self, came_ns: u64) -> &mut Window {
        let index = ((came_ns - ORIGIN_NS) / WINDOW_NS) as usize;
        match self.ledger.windows.get_mut(index) {
            Some(window) => window,
            None => &mut self.window,
        }
    }

    fn part(&mut self, attempt: &Attempt) -> &mut Part {
        &mut self.ledger.parts[usize::from(attempt.phase)][self.group[usize::from(attempt.source)]]
    }

    fn nature(&self, attempt: &Attempt) -> Nature {
        self.scenario.sources[usize::from(attempt.source)].nature
    }

    fn broken(&mut self, why: String) {
        if self.ledger.broken.len() < 10 {
            self.ledger.broken.push((self.now_ns - ORIGIN_NS, why));
        }
    }

    /// Nothing may be left over.
    fn check_end(&mut self) {
        let (inflight, held) = (self.plane.inflight(), self.plane.held());
        if (inflight, held) != (0, 0) {
            self.broken(format!("{inflight} slots taken and {held} held at the end"));
        }
        let open = |attempt: &&Attempt| attempt.stage != Stage::Settled;
        let count = self.attempts.iter().filter(open).count();
        if count > 0 {
            self.broken(format!("{count} requests were never settled"));
        }
    }
}
