//! Senders: who sends when, and what they do with an answer.

use super::{Attempt, CONNECT_MAX_NS, Event, ORIGIN_NS, REPLY_NS, Stage, World};
use crate::ledger::Kind;
use crate::random::Random;
use crate::scenario::{Nature, Phase, Retries, Scenario, Source};
use sluice_core::admission::{Class, Priority};

const SECOND_NS: u64 = 1_000_000_000;

/// What a sender that waits for `Retry-After` does without one.
const UNTOLD_NS: u64 = 10 * SECOND_NS;

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What its sender hopes for: a 2xx, or the 401 that a probe looks for.
    Good,
    /// 401.
    Unauthorized,
    /// 503 or 429.
    Refused {
        /// `Retry-After`.
        after_s: u32,
    },
}

/// One event of a sender.
#[derive(Clone, Copy, Debug)]
struct Sent {
    source: u16,
    tries: u16,
    /// In which it came first.
    phase: u8,
}

/// All senders.
pub struct Senders {
    phase: usize,
    is_on: bool,
    /// An arrival that was drawn for another load no longer counts.
    round: u64,
    arrivals: Random,
    choice: Random,
    /// Sums of the weights in force, by source slot.
    sums: Vec<f64>,
    /// The workers that a source's connections are with.
    connections: Vec<Vec<u8>>,
    deleted: Vec<bool>,
    sent: Vec<Sent>,
}

impl Senders {
    /// Their connections are dealt out to workers by weight.
    pub fn new(scenario: &Scenario, seed: u64) -> Senders {
        let mut deal = Random::new(seed, 3);
        let connections = scenario.sources.iter().map(|source| {
            let mut place = || source.worker.unwrap_or_else(|| deal.pick(&scenario.spread)) as u8;
            (0..source.connections).map(|_| place()).collect()
        });
        let connections = connections.collect();
        Senders {
            phase: 0,
            is_on: true,
            round: 0,
            arrivals: Random::new(seed, 4),
            choice: Random::new(seed, 5),
            sums: Vec::new(),
            connections,
            deleted: vec![false; scenario.sources.len()],
            sent: Vec::new(),
        }
    }

    /// The phase in force.
    pub fn phase(&self) -> usize {
        self.phase
    }

    /// Takes up the weights of a phase.
    pub fn begin_phase(&mut self, scenario: &Scenario, index: usize) {
        self.phase = index;
        self.is_on = true;
        self.sums.clear();
        let phase = &scenario.phases[index];
        let mut sum = 0.0;
        for source in &scenario.sources {
            sum += weight(scenario, phase, source);
            self.sums.push(sum);
        }
    }

    /// A burst begins or ends.
    pub fn set_on(&mut self, on: bool) {
        self.is_on = on;
    }

    /// How often an event was sent.
    pub fn tries(&self, event: u32) -> u16 {
        self.sent[event as usize].tries
    }

    fn choose(&mut self) -> u16 {
        let at = self.choice.unit() * self.sums.last().unwrap_or(&0.0);
        self.sums.partition_point(|&sum| sum <= at) as u16
    }
}

/// Its group's weight in the phase is dealt out evenly, or it has its own.
fn weight(scenario: &Scenario, phase: &Phase, source: &Source) -> f64 {
    let own = phase
        .weights
        .iter()
        .find(|(group, _)| *group == source.group);
    own.map_or(source.weight, |&(_, weight)| {
        let same = scenario
            .sources
            .iter()
            .filter(|other| other.group == source.group);
        weight / same.count() as f64
    })
}

impl World<'_> {
    /// Draws the next arrival of the load in force.
    pub(super) fn next_arrival(&mut self) {
        self.senders.round += 1;
        let (from, to) = self.scenario.phases[self.senders.phase].load;
        let most = from.max(to);
        if most > 0.0 && self.senders.is_on {
            let gap_ns = self.senders.arrivals.exponential() / most * 1e9;
            let at_ns = self.now_ns.saturating_add((gap_ns as u64).max(1));
            self.at(at_ns, Event::Arrive(self.senders.round));
        }
    }

    /// A request of the load comes; a load that ramps is thinned out of the most that it becomes.
    pub(super) fn arrive(&mut self, round: u64) {
        if round != self.senders.round {
            return;
        }
        let phase = &self.scenario.phases[self.senders.phase];
        let (from, to) = phase.load;
        let done = (self.now_ns - ORIGIN_NS - phase.from_ns) as f64;
        let load = from + (to - from) * done / (phase.to_ns - phase.from_ns) as f64;
        if self.senders.arrivals.unit() * from.max(to) <= load {
            let source = self.senders.choose();
            let slot = usize::from(source);
            if !self.senders.deleted[slot] {
                let phase = self.senders.phase as u8;
                let event = self.senders.sent.len() as u32;
                self.senders.sent.push(Sent {
                    source,
                    tries: 0,
                    phase,
                });
                self.come(event);
            }
        }
        self.next_arrival();
    }

    /// An event is sent, for the first time or again.
    pub(super) fn come(&mut self, event: u32) {
        let sent = &mut self.senders.sent[event as usize];
        let source = sent.source;
        let slot = usize::from(source);
        if self.senders.deleted[slot] {
            return;
        }
        sent.tries += 1;
        let is_repeat = sent.tries > 1;
        let of = &self.scenario.sources[slot];
        let connections = &self.senders.connections[slot];
        let worker = connections[self.senders.choice.below(connections.len())];
        let is_unauthorized = of.unauthorized > 0.0 && self.senders.choice.unit() < of.unauthorized;
        let connect_ns = (of.deadline_ns / 10).min(CONNECT_MAX_NS);
        let budget_ns = of
            .deadline_ns
            .saturating_sub(connect_ns + REPLY_NS)
            .max(REPLY_NS);
        let attempt = Attempt {
            event,
            source,
            worker,
            phase: self.senders.phase as u8,
            kind: kind(of, is_repeat),
            class: Class::Default,
            stage: Stage::Came,
            is_answered: false,
            is_unauthorized,
            is_ring: of.nature == Nature::Ring,
            came_ns: self.now_ns,
            taken_ns: 0,
            until_ns: self.now_ns + budget_ns,
        };
        let token = self.attempts.len() as u32;
        self.attempts.push(attempt);
        self.part(&attempt).offered[attempt.kind as usize] += 1;
        self.ledger.sources[usize::from(attempt.phase)][slot].offered += 1;
        if is_stored(of.nature, &attempt) {
            self.window.offered += 1;
        }
        if of.leaves_ns < u64::MAX {
            self.at(self.now_ns + of.leaves_ns, Event::Leave(token));
        }
        self.plane.come(usize::from(worker), token);
    }

    /// A sender has its answer.
    pub(super) fn answer(&mut self, token: u32, answer: Answer) {
        let attempt = &mut self.attempts[token as usize];
        if attempt.is_answered {
            return;
        }
        attempt.is_answered = true;
        let attempt = *attempt;
        let slot = usize::from(attempt.source);
        if self.trace == Some(slot) {
            self.write_trace(&attempt, answer);
        }
        self.plane
            .note_standing(attempt.source, self.now_ns, answer);
        if let Answer::Refused { after_s } = answer {
            self.part(&attempt).retry_after.push(after_s);
            return self.failed(&attempt, Some(u64::from(after_s) * SECOND_NS));
        }
        let is_in_time = self.now_ns - attempt.came_ns <= self.scenario.good_ns;
        let part = self.part(&attempt);
        part.good += u64::from(is_in_time);
        part.late += u64::from(!is_in_time);
        if is_in_time {
            self.ledger.sources[usize::from(attempt.phase)][slot].good += 1;
        }
        if is_in_time && is_stored(self.nature(&attempt), &attempt) {
            self.window.good += 1;
            self.window_of(attempt.came_ns).came_good += 1;
        }
        self.ledger.in_row[slot].0 = 0;
        self.settled(&attempt, true);
    }

    fn write_trace(&self, attempt: &Attempt, answer: Answer) {
        let seconds = |at_ns: u64| (at_ns - ORIGIN_NS) as f64 / 1e9;
        eprintln!(
            "{:.4} {answer:?} to try {} of event {}, come at {:.4} as {:?}; {} refused before",
            seconds(self.now_ns),
            self.senders.tries(attempt.event),
            attempt.event,
            seconds(attempt.came_ns),
            attempt.class,
            self.ledger.in_row[usize::from(attempt.source)].0,
        );
    }

    /// A sender left without an answer.
    pub(super) fn lost(&mut self, token: u32) {
        self.attempts[token as usize].is_answered = true;
        let attempt = self.attempts[token as usize];
        self.failed(&attempt, None);
    }

    /// Counts a failure as the provider does, and tries again as it does.
    fn failed(&mut self, attempt: &Attempt, told_ns: Option<u64>) {
        let slot = usize::from(attempt.source);
        let source = &self.scenario.sources[slot];
        let (in_row, most) = &mut self.ledger.in_row[slot];
        *in_row += 1;
        *most = (*most).max(*in_row);
        let is_given_up = source.delete_after > 0 && *in_row >= source.delete_after;
        if is_given_up && !self.senders.deleted[slot] {
            self.senders.deleted[slot] = true;
            self.ledger.deleted += 1;
        }
        let tries = usize::from(self.senders.tries(attempt.event));
        let wait_ns = match &source.retries {
            Retries::Never => None,
            Retries::After(most) => (tries < *most).then(|| told_ns.unwrap_or(UNTOLD_NS)),
            Retries::At(waits) => waits.get(tries - 1).copied(),
        };
        match wait_ns {
            Some(wait_ns) => self.at(self.now_ns + wait_ns, Event::Retry(attempt.event)),
            None => self.settled(attempt, false),
        }
    }

    /// Nothing more is sent of an event.
    fn settled(&mut self, attempt: &Attempt, delivered: bool) {
        let sent = self.senders.sent[attempt.event as usize];
        let group = self.group[usize::from(sent.source)];
        let part = &mut self.ledger.parts[usize::from(sent.phase)][group];
        part.settled += 1;
        part.delivered += u64::from(delivered);
        part.tries += u64::from(sent.tries);
    }
}

/// Whether it is of what the store is there for.
fn is_stored(nature: Nature, attempt: &Attempt) -> bool {
    matches!(nature, Nature::Event | Nature::Ring) && !attempt.is_unauthorized
}

fn kind(source: &Source, is_repeat: bool) -> Kind {
    match (source.nature, source.priority) {
        (Nature::Handshake | Nature::Probe, _) => Kind::Other,
        (_, Priority::High) => Kind::High,
        (_, Priority::Low) => Kind::Low,
        (_, Priority::Default) if is_repeat => Kind::Repeat,
        (_, Priority::Default) if source.retries == Retries::Never => Kind::NeverRetries,
        (_, Priority::Default) => Kind::Default,
    }
}
