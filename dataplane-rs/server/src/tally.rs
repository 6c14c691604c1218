//! One worker's counts.

use shm_abi::{HOLD_BUCKETS, LATENCY_BUCKETS, SourceCounters, WorkerCounters};
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
