//! What the control plane says, and the bounds on a hold that follow from it.

use super::class::Class;
use super::queue::Waiter;
use crate::limits;

/// Read from the control page once a turn. All zero, no slot is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Slots that may be taken at once, of all workers.
    pub limit: u64,
    /// Slots beyond the limit for the floor.
    pub floor_slots: u64,
    /// Admissions by the floor, of all sources, in thousandths of one a second; 0: none.
    pub floor_rate_milli: u64,
    /// Requests held, of all workers. Workers that hold in the same instant may exceed it by one
    /// each, and until those of the lowest class have left by as many as wait below the newcomers.
    pub max_held: u64,
    /// Upper bound of any hold.
    pub hold_budget_ns: u64,
    /// Bound of a hold while its class is overloaded, if longer than the least one; 0: none.
    pub hold_bound_ns: u64,
    /// The limit is on its way up: who waits may wait longer.
    pub growing: bool,
    /// The time that a slot is taken for, in the mean.
    pub service_time_ns: u64,
    /// Thousandths of the limit that [`Class::Repeat`] may fill; 0: all of it.
    pub repeat_share_milli: u64,
    /// Each source's share, in thousandths of an event a second; 0: no bound.
    pub share_rate_milli: u64,
    /// `overload: codel`: one class for all, first come, first served, and overloaded when the
    /// shortest hold of an interval is longer than this; 0: off.
    pub codel_target_ns: u64,
    /// The interval of the above.
    pub codel_interval_ns: u64,
    /// `pacing: little`: slots are given one each so long; 0: off.
    pub pace_interval_ns: u64,
    /// And after a rest as many at once as come in so long, at least one.
    pub pace_depth_ns: u64,
}

impl Numbers {
    /// The bound on slots taken that holds for a class.
    pub(super) fn limit_of(&self, class: Class) -> u64 {
        match (class, self.repeat_share_milli) {
            (Class::Repeat, 1..1000) => {
                let part = self.limit.saturating_mul(self.repeat_share_milli) / 1000;
                // Never more than the limit, and with a small one not nothing.
                part.max(self.limit.min(1))
            }
            _ => self.limit,
        }
    }

    /// Whether all are of one class, first come, first served.
    pub(super) fn is_codel(&self) -> bool {
        self.codel_target_ns > 0
    }

    /// How long a waiter may be held while its class is overloaded; `None`: no such bound.
    fn overload_bound(&self, class: Class) -> Option<u64> {
        if self.is_codel() {
            return Some(
                self.codel_target_ns
                    .saturating_mul(limits::CODEL_BOUND_TARGETS),
            );
        }
        if self.hold_bound_ns == 0 {
            return None;
        }
        let (least_ns, services) = match class {
            Class::High => (limits::HOLD_BOUND_NS_MIN, limits::HOLD_BOUND_HIGH_SERVICES),
            Class::NeverRetries | Class::Default | Class::Low => (limits::HOLD_BOUND_NS_MIN, 1),
            _ => (limits::HOLD_BOUND_OVER_SHARE_NS_MIN, 1),
        };
        let growing_ns = match self.growing {
            true => limits::HOLD_BOUND_GROWING_NS_MIN,
            false => 0,
        };
        let services_ns = self.service_time_ns.saturating_mul(services);
        Some(
            self.hold_bound_ns
                .max(services_ns)
                .max(least_ns)
                .max(growing_ns),
        )
    }

    /// When a sender's budget ends: an answer has to come before `until_ns`, so a slot given later
    /// than this comes too late. The numbers of now count, not those of when a hold began: a store
    /// that became slow meanwhile answers as late.
    pub(super) fn budget_end(&self, until_ns: u64) -> u64 {
        let reserve_ns = self.service_time_ns.saturating_mul(limits::BUDGET_SERVICES);
        until_ns.saturating_sub(reserve_ns)
    }

    /// How long a request may be held, its sender's budget apart.
    pub(super) fn age_bound(&self, class: Class, overloaded: u64) -> u64 {
        let bound_ns = match overloaded & class.bit() {
            0 => None,
            _ => self.overload_bound(class),
        };
        bound_ns.map_or(self.hold_budget_ns, |ns| ns.min(self.hold_budget_ns))
    }

    /// Whether a waiter has waited in vain.
    pub(super) fn is_spent(&self, waiter: &Waiter, now_ns: u64, overloaded: u64) -> bool {
        let waited_ns = now_ns.saturating_sub(waiter.since_ns);
        now_ns >= self.budget_end(waiter.until_ns)
            || waited_ns >= self.age_bound(waiter.class, overloaded)
    }
}
