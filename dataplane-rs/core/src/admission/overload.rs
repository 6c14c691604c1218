//! Which classes are overloaded: pure, from what the queues looked like and who was shed.
//!
//! A class is overloaded once its queue has not been empty for an interval, and no longer so at the
//! end of an interval in which it was empty and hardly anybody was shed. Sheds never make a class
//! overloaded: the flag shortens the holds and so causes sheds itself, and it would hold itself up.

use super::Numbers;
use super::class::Class;
use crate::limits;

/// By class.
pub(super) type ByClass = [u64; Class::COUNT];

/// What the queues of all workers are like.
pub(super) struct Queues {
    pub(super) held: ByClass,
    /// When one that was empty got somebody last.
    pub(super) begun_ns: ByClass,
    /// Of those that got a slot since the last time, if anybody did, the shortest hold. Only for
    /// [`Numbers::codel_target_ns`].
    pub(super) shortest_hold_ns: Option<u64>,
}

/// Since when a class is judged, and what had been counted then.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    start_ns: u64,
    offered: u64,
    shed: u64,
}

#[derive(Debug, Default)]
pub(super) struct Detector {
    /// The classes that are overloaded by their own queue, a bit each.
    own: u64,
    since_ns: u64,
    judged_ns: u64,
    intervals: [Interval; Class::COUNT],
    codel_start_ns: u64,
    codel_shortest_ns: Option<u64>,
}

impl Detector {
    /// The classes that are overloaded, a bit each, and since when the first of them is (0: none).
    /// `counts` is what was offered and shed so far, and only asked when it matters.
    pub(super) fn judge(
        &mut self,
        now_ns: u64,
        numbers: &Numbers,
        queues: &Queues,
        counts: impl FnOnce() -> (ByClass, ByClass),
    ) -> (u64, u64) {
        let overloaded = if numbers.codel_target_ns > 0 {
            self.judge_delay(now_ns, numbers, queues);
            self.own
        } else {
            self.judge_queues(now_ns, numbers, queues, counts);
            // All below the first as well: who goes before them leaves them nothing.
            match self.own {
                0 => 0,
                own => (u64::MAX << own.trailing_zeros()) & ((1 << Class::COUNT) - 1),
            }
        };
        self.judged_ns = self.judged_ns.max(now_ns);
        self.since_ns = match (overloaded, self.since_ns) {
            (0, _) => 0,
            (_, 0) => now_ns.max(1),
            (_, since_ns) => since_ns,
        };
        (overloaded, self.since_ns)
    }

    fn judge_queues(
        &mut self,
        now_ns: u64,
        numbers: &Numbers,
        queues: &Queues,
        counts: impl FnOnce() -> (ByClass, ByClass),
    ) {
        let interval_ns = interval(numbers);
        let was_away = now_ns.saturating_sub(self.judged_ns) >= interval_ns;
        let (mut ask, mut counted) = (Some(counts), Default::default());
        for class in Class::ALL {
            let (c, bit) = (class as usize, class.bit());
            let is_empty = queues.held[c] == 0;
            if self.own & bit == 0 {
                if is_empty || now_ns.saturating_sub(queues.begun_ns[c]) < interval_ns {
                    continue;
                }
            } else if is_empty && was_away {
                // No worker took a turn: this was an interval without a queue and without a shed.
                self.own &= !bit;
                continue;
            } else if now_ns.saturating_sub(self.intervals[c].start_ns) < interval_ns {
                continue;
            }
            if let Some(ask) = ask.take() {
                counted = ask();
            }
            let (offered, shed) = counted;
            let next = Interval {
                start_ns: now_ns,
                offered: offered[c],
                shed: shed[c],
            };
            let last = std::mem::replace(&mut self.intervals[c], next);
            if self.own & bit == 0 {
                self.own |= bit;
                continue;
            }
            let was_empty = is_empty || queues.begun_ns[c] >= last.start_ns;
            let offered = next.offered.wrapping_sub(last.offered);
            let shed = next.shed.wrapping_sub(last.shed);
            if was_empty && shed.saturating_mul(limits::OVERLOAD_SHED_ONE_IN) <= offered {
                self.own &= !bit;
            }
        }
    }

    /// The rule of Facebook's "Fail at Scale" (ACM Queue 13.8, 2015), as folly's `Codel` has it:
    /// overloaded when the shortest hold of an interval is above the target. It sees a standing
    /// queue only where requests go first come, first served, and all in one class.
    fn judge_delay(&mut self, now_ns: u64, numbers: &Numbers, queues: &Queues) {
        let bit = Class::Default.bit();
        let interval_ns = numbers.codel_interval_ns.max(1);
        let is_empty = queues.held.iter().all(|&held| held == 0);
        self.own &= bit;
        let both = self.codel_shortest_ns.into_iter();
        self.codel_shortest_ns = both.chain(queues.shortest_hold_ns).min();
        if is_empty && now_ns.saturating_sub(self.judged_ns) >= interval_ns {
            self.own = 0;
        }
        if now_ns.saturating_sub(self.codel_start_ns) < interval_ns {
            return;
        }
        self.codel_start_ns = now_ns;
        match self.codel_shortest_ns.take() {
            Some(shortest_ns) if shortest_ns > numbers.codel_target_ns => self.own = bit,
            Some(_) => self.own = 0,
            // Nobody got a slot. While somebody waits that is no sign of rest.
            None if is_empty => self.own = 0,
            None => {}
        }
    }
}

/// Long enough for a few slots to be given back, whatever the store.
fn interval(numbers: &Numbers) -> u64 {
    let services_ns = numbers
        .service_time_ns
        .saturating_mul(limits::OVERLOAD_SERVICES);
    services_ns.clamp(
        limits::OVERLOAD_INTERVAL_NS_MIN,
        limits::OVERLOAD_INTERVAL_NS_MAX,
    )
}
