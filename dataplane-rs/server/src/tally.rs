//! One worker's counts.

use shm_abi::{
    HOLD_BUCKETS, LATENCY_BUCKETS, SHED_BUDGET, SHED_CLASS, SHED_HELD_FULL, SHED_HOLD,
    SHED_JOURNAL, SHED_LANE, SHED_RATE, SHED_STOPPING, SourceCounters, WorkerCounters,
};
use sluice_core::admission::Class;
use sluice_lane::Counters;

/// Why a request was turned away that its sender may send again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShedReason {
    Budget,
    Class,
    HeldFull,
    Hold,
    Journal,
    Lane,
    /// So long until one is let through.
    Rate {
        wait_ns: u64,
    },
    Stopping,
}

impl ShedReason {
    /// Its number in the shared layout.
    pub fn code(self) -> u16 {
        match self {
            ShedReason::Budget => SHED_BUDGET,
            ShedReason::Class => SHED_CLASS,
            ShedReason::HeldFull => SHED_HELD_FULL,
            ShedReason::Hold => SHED_HOLD,
            ShedReason::Journal => SHED_JOURNAL,
            ShedReason::Lane => SHED_LANE,
            ShedReason::Rate { .. } => SHED_RATE,
            ShedReason::Stopping => SHED_STOPPING,
        }
    }
}

/// The counters of one worker.
pub struct Tally {
    counters: Counters,
    worker: usize,
}

impl Tally {
    pub fn new(counters: Counters, worker: usize) -> Tally {
        Tally { counters, worker }
    }

    /// The worker's own words.
    pub fn worker(&self) -> &WorkerCounters {
        self.counters.worker(self.worker)
    }

    fn source(&self, slot: u16) -> &SourceCounters {
        self.counters.source(self.worker, usize::from(slot))
    }

    /// An answer went out for a source.
    pub fn answered(&self, slot: u16, code: u16) {
        let source = self.source(slot);
        match code {
            200..=299 => source.add_code_2xx(1),
            400 => source.add_code_400(1),
            401 => source.add_code_401(1),
            403 => source.add_code_403(1),
            404 => source.add_code_404(1),
            405 => source.add_code_405(1),
            408 => source.add_code_408(1),
            413 => source.add_code_413(1),
            429 => source.add_code_429(1),
            431 => source.add_code_431(1),
            503 => source.add_code_503(1),
            _ => source.add_code_other(1),
        }
    }

    /// A request of a source was shed.
    pub fn shed(&self, slot: u16, reason: ShedReason) {
        let source = self.source(slot);
        match reason {
            ShedReason::Budget => source.add_shed_budget(1),
            ShedReason::Class => source.add_shed_class(1),
            ShedReason::HeldFull => source.add_shed_held_full(1),
            ShedReason::Hold => source.add_shed_hold(1),
            ShedReason::Journal => source.add_shed_journal(1),
            ShedReason::Lane => source.add_shed_lane(1),
            ShedReason::Rate { .. } => source.add_shed_rate(1),
            ShedReason::Stopping => source.add_shed_stopping(1),
        }
    }

    /// A request of a source asked for a slot.
    pub fn offered(&self, slot: u16, class: Class, repeat: bool) {
        self.worker().add_class_offered(class as usize, 1);
        let source = self.source(slot);
        source.add_offered(1);
        let over_share = matches!(
            class,
            Class::NeverRetriesOverShare | Class::DefaultOverShare | Class::LowOverShare
        );
        source.add_over_share(u64::from(over_share));
        source.add_repeats(u64::from(repeat));
    }

    /// One of a class was admitted.
    pub fn admitted(&self, class: Class) {
        self.worker().add_class_admitted(class as usize, 1);
    }

    /// It was admitted by the floor.
    pub fn floored(&self, slot: u16) {
        self.worker().add_floored(1);
        self.source(slot).add_floored(1);
    }

    /// One of a class has to wait.
    pub fn waits(&self, class: Class) {
        self.worker().add_class_held(class as usize, 1);
    }

    /// One of a class was turned away.
    pub fn turned_away(&self, class: Class) {
        self.worker().add_class_shed(class as usize, 1);
    }

    /// A slot was given back that was taken for so long; a sample of how long the journal takes,
    /// or none.
    pub fn slot_given_back(&self, took_ns: u64, is_sample: bool) {
        let worker = self.worker();
        if is_sample {
            worker.add_samples(1);
            worker.add_sample_sum_ns(took_ns);
        } else {
            worker.add_void_ns(took_ns);
        }
    }

    /// From whole request to answer.
    pub fn acknowledged(&self, slot: u16, took_ns: u64) {
        let source = self.source(slot);
        source.add_ack_count(1);
        source.add_ack_sum_ns(took_ns);
        source.add_ack_bucket(bucket(took_ns, 64_000, LATENCY_BUCKETS), 1);
    }

    /// How long a request was held.
    pub fn held(&self, slot: u16, took_ns: u64) {
        let source = self.source(slot);
        source.add_hold_count(1);
        source.add_hold_sum_ns(took_ns);
        source.add_hold_bucket(bucket(took_ns, 1_000_000, HOLD_BUCKETS), 1);
    }
}

/// The first bucket whose bound, `unit_ns` × 2^i, is not below `took_ns`; the last takes the rest.
fn bucket(took_ns: u64, unit_ns: u64, count: u64) -> usize {
    let units = took_ns.div_ceil(unit_ns).max(1);
    let index = units.next_power_of_two().trailing_zeros() as usize;
    index.min(count as usize - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_not_above_its_bound() {
        for (took_ns, index) in [(0, 0), (64_000, 0), (64_001, 1), (128_000, 1), (128_001, 2)] {
            assert_eq!(bucket(took_ns, 64_000, LATENCY_BUCKETS), index, "{took_ns}");
        }
        assert_eq!(bucket(u64::MAX / 2, 64_000, LATENCY_BUCKETS), 23);
    }
}
