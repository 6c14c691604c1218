//! Numbers that gates ask for, computed from a ledger.

use crate::ledger::{Kind, Ledger, Part, Times, WINDOW_NS, Window};
use crate::scenario::Scenario;

/// What the number of a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Of something, 0 to 1.
    Share,
    /// How many.
    Count,
    /// Nanoseconds.
    Time,
}

/// What a metric is computed of.
pub struct Scope<'a> {
    scenario: &'a Scenario,
    ledger: &'a Ledger,
    /// None: the whole.
    phase: Option<usize>,
    group: Option<usize>,
    part: Part,
}

type Compute = fn(&Scope) -> f64;

/// Every metric. One that has nothing to be computed of is not a number, and its gate is not met.
const METRICS: &[(&str, Unit, Compute)] = &[
    // Good answers in what the store could take of the offered.
    ("goodput", Unit::Share, goodput),
    // Good answers in the offered: of all attempts, and of the source that fared worst.
    ("kept", Unit::Share, |s| share(s.part.good, s.offered())),
    ("kept_worst", Unit::Share, kept_worst),
    ("offered", Unit::Count, |s| s.offered() as f64),
    ("good", Unit::Count, |s| s.part.good as f64),
    ("shed", Unit::Share, |s| {
        share(s.part.shed.iter().sum(), s.offered())
    }),
    ("shed_high", Unit::Share, |s| s.shed_of(Kind::High)),
    ("shed_never_retries", Unit::Share, |s| {
        s.shed_of(Kind::NeverRetries)
    }),
    ("shed_default", Unit::Share, |s| s.shed_of(Kind::Default)),
    ("shed_repeat", Unit::Share, |s| s.shed_of(Kind::Repeat)),
    ("shed_low", Unit::Share, |s| s.shed_of(Kind::Low)),
    ("shed_order", Unit::Share, shed_order),
    ("hold_p50", Unit::Time, |s| percentile(&s.part.hold, 0.5)),
    ("hold_p99", Unit::Time, |s| percentile(&s.part.hold, 0.99)),
    ("slot_mean", Unit::Time, |s| mean(&s.part.slot)),
    ("slot_p50", Unit::Time, |s| percentile(&s.part.slot, 0.5)),
    ("slot_p99", Unit::Time, |s| percentile(&s.part.slot, 0.99)),
    ("total_p50", Unit::Time, |s| percentile(&s.part.total, 0.5)),
    ("total_p99", Unit::Time, |s| percentile(&s.part.total, 0.99)),
    ("late", Unit::Count, |s| s.part.late as f64),
    ("missed", Unit::Count, |s| s.part.missed as f64),
    ("dropped", Unit::Count, |s| s.part.dropped as f64),
    ("recovery", Unit::Time, recovery),
    ("limit_mean", Unit::Count, |s| {
        let windows = s.windows();
        windows.iter().map(|w| w.limit as f64).sum::<f64>() / windows.len() as f64
    }),
    ("base_min", Unit::Count, |s| {
        s.fold_base(f64::INFINITY, f64::min)
    }),
    ("base_max", Unit::Count, |s| s.fold_base(0.0, f64::max)),
    ("base_swing", Unit::Count, |s| {
        s.fold_base(0.0, f64::max) / s.fold_base(f64::INFINITY, f64::min)
    }),
    ("overloaded", Unit::Share, |s| {
        let windows = s.windows();
        let count = windows.iter().filter(|w| w.overloaded != 0).count();
        share(count as u64, windows.len() as u64)
    }),
    ("peak", Unit::Count, |s| {
        let most = s.windows().iter().map(|w| w.offered).max().unwrap_or(0);
        most as f64 * 1e9 / WINDOW_NS as f64
    }),
    // Of the events that first came in the scope and are settled.
    ("delivered", Unit::Share, |s| {
        share(s.part.delivered, s.part.settled)
    }),
    ("tries", Unit::Count, |s| {
        share(s.part.tries, s.part.settled)
    }),
    ("retry_after_min", Unit::Time, |s| {
        s.retry_after().min().map_or(f64::NAN, |t| t as f64 * 1e9)
    }),
    ("retry_after_max", Unit::Time, |s| {
        s.retry_after().max().map_or(f64::NAN, |t| t as f64 * 1e9)
    }),
    ("retry_after_mean", Unit::Time, |s| {
        let count = s.retry_after().count() as f64;
        s.retry_after().sum::<u64>() as f64 / count * 1e9
    }),
    // Of the whole run, whatever the phase.
    ("in_row", Unit::Count, in_row),
    ("deleted", Unit::Count, |s| s.ledger.deleted as f64),
    ("floored", Unit::Count, |s| s.ledger.floored as f64),
];

/// The unit of a metric, none of a word that is none.
pub fn unit(name: &str) -> Option<Unit> {
    let found = METRICS.iter().find(|(of, _, _)| *of == name);
    found.map(|&(_, unit, _)| unit)
}

/// All of them.
pub fn names() -> impl Iterator<Item = &'static str> {
    METRICS.iter().map(|&(name, _, _)| name)
}

impl<'a> Scope<'a> {
    /// A phase or the whole, a group of sources or all.
    pub fn new(
        scenario: &'a Scenario,
        ledger: &'a Ledger,
        phase: Option<usize>,
        group: Option<usize>,
    ) -> Scope<'a> {
        let mut part = Part::default();
        for (index, groups) in ledger.parts.iter().enumerate() {
            for (of, each) in groups.iter().enumerate() {
                if phase.is_none_or(|phase| phase == index) && group.is_none_or(|g| g == of) {
                    part.add(each);
                }
            }
        }
        for times in [&mut part.hold, &mut part.slot, &mut part.total] {
            times.sort_unstable();
        }
        Scope {
            scenario,
            ledger,
            phase,
            group,
            part,
        }
    }

    /// The metric of that name.
    pub fn value(&self, name: &str) -> f64 {
        let found = METRICS.iter().find(|(of, _, _)| *of == name);
        found.map_or(f64::NAN, |(_, _, compute)| compute(self))
    }

    /// Mean service time of the store alone, nanoseconds.
    pub fn service_ns(&self) -> f64 {
        let phases = &self.scenario.phases;
        let (mut sum, mut weight) = (0.0, 0.0);
        for (index, phase) in phases.iter().enumerate() {
            if self.phase.is_none_or(|of| of == index) {
                let took = (phase.to_ns - phase.from_ns) as f64;
                sum += (phase.slow.0 + phase.slow.1) / 2.0 * took;
                weight += took;
            }
        }
        self.scenario.store.service_ns() * sum / weight
    }

    fn offered(&self) -> u64 {
        self.part.offered.iter().sum()
    }

    fn shed_of(&self, kind: Kind) -> f64 {
        share(
            self.part.shed[kind as usize],
            self.part.offered[kind as usize],
        )
    }

    fn windows(&self) -> &'a [Window] {
        let all = &self.ledger.windows;
        let Some(phase) = self.phase else {
            return all;
        };
        let phase = &self.scenario.phases[phase];
        let at = |ns: u64| ((ns / WINDOW_NS) as usize).min(all.len());
        &all[at(phase.from_ns)..at(phase.to_ns)]
    }

    fn fold_base(&self, start: f64, step: fn(f64, f64) -> f64) -> f64 {
        self.windows().iter().map(|w| w.base).fold(start, step)
    }

    fn retry_after(&self) -> impl Iterator<Item = u64> + '_ {
        self.part.retry_after.iter().map(|&s| u64::from(s))
    }
}

/// Second by second, so that a load or a store that changes is judged by what was possible.
fn goodput(scope: &Scope) -> f64 {
    let (mut good, mut possible) = (0.0, 0.0);
    for second in scope.windows().chunks(5) {
        let offered: u64 = second.iter().map(|w| w.offered).sum();
        let capacity: f64 = second.iter().map(|w| w.capacity).sum();
        good += second.iter().map(|w| w.good).sum::<u64>() as f64;
        possible += capacity.min(offered as f64);
    }
    good / possible
}

fn kept_worst(scope: &Scope) -> f64 {
    let mut worst = f64::NAN;
    for (slot, source) in scope.scenario.sources.iter().enumerate() {
        let group = scope.group.map(|group| groups(scope.scenario)[group]);
        if group.is_some_and(|group| group != source.group) {
            continue;
        }
        let (mut good, mut offered) = (0, 0);
        for (index, sources) in scope.ledger.sources.iter().enumerate() {
            if scope.phase.is_none_or(|phase| phase == index) {
                good += sources[slot].good;
                offered += sources[slot].offered;
            }
        }
        if offered > 0 {
            worst = worst.min(good as f64 / offered as f64);
        }
    }
    worst
}

/// How much more of a kind was shed than of the next lower one; at most 0 when the order holds.
fn shed_order(scope: &Scope) -> f64 {
    let order = [
        Kind::High,
        Kind::NeverRetries,
        Kind::Default,
        Kind::Repeat,
        Kind::Low,
    ];
    let shares: Vec<f64> = order.iter().map(|&kind| scope.shed_of(kind)).collect();
    let present: Vec<f64> = shares.into_iter().filter(|share| !share.is_nan()).collect();
    present
        .windows(2)
        .map(|pair| pair[0] - pair[1])
        .fold(f64::NEG_INFINITY, f64::max)
}

/// From the beginning of the scope to the first of five windows of which each got good answers for
/// 95 % of what came in it.
fn recovery(scope: &Scope) -> f64 {
    let is_good = |w: &Window| w.came_good as f64 >= 0.95 * w.offered as f64;
    let windows = scope.windows();
    let first = windows.windows(5).position(|five| five.iter().all(is_good));
    first.map_or(f64::INFINITY, |index| index as f64 * WINDOW_NS as f64)
}

fn in_row(scope: &Scope) -> f64 {
    let sources = scope.scenario.sources.iter().zip(&scope.ledger.in_row);
    let group = scope.group.map(|group| groups(scope.scenario)[group]);
    let of_group = sources.filter(|(source, _)| group.is_none_or(|group| group == source.group));
    of_group.map(|(_, &(_, most))| most).max().unwrap_or(0) as f64
}

/// The names of the groups of sources, in order.
pub fn groups(scenario: &Scenario) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for source in &scenario.sources {
        if names.last() != Some(&source.group.as_str()) {
            names.push(&source.group);
        }
    }
    names
}

/// Not a number of nothing.
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

fn mean(times: &Times) -> f64 {
    times.iter().map(|&us| f64::from(us)).sum::<f64>() / times.len() as f64 * 1e3
}

/// Of sorted times, in nanoseconds.
pub fn percentile(sorted: &Times, share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let index = (sorted.len() as f64 * share) as usize;
    sorted
        .get(index.min(last))
        .map_or(f64::NAN, |&us| f64::from(us) * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    fn scenario() -> Scenario {
        let text = "store slots 8 x 4ms\nsource a priority high\nsource b*2 priority low\n\
                    phase x 1s load 1/s\nphase y 2s load 1/s slow 3x\n";
        parse("test", text).unwrap()
    }

    fn ledger() -> Ledger {
        Ledger {
            parts: vec![vec![Part::default(); 2]; 2],
            sources: vec![vec![Default::default(); 3]; 2],
            windows: vec![Window::default(); 15],
            class_offered: [0; 8],
            class_shed: [0; 8],
            floored: 0,
            in_row: vec![(0, 0); 3],
            deleted: 0,
            broken: Vec::new(),
        }
    }

    #[test]
    fn goodput_is_of_what_was_possible_in_each_second() {
        let (scenario, mut ledger) = (scenario(), ledger());
        for (index, window) in ledger.windows.iter_mut().enumerate() {
            window.capacity = 20.0; // 100 a second
            window.offered = if index < 10 { 10 } else { 40 };
            window.good = if index < 10 { 10 } else { 18 };
        }
        let of = |phase| Scope::new(&scenario, &ledger, phase, None).value("goodput");
        assert_eq!(of(Some(0)), 1.0);
        assert_eq!(of(Some(1)), (50.0 + 90.0) / (50.0 + 100.0));
    }

    #[test]
    fn recovery_needs_five_good_windows_in_a_row() {
        let (scenario, mut ledger) = (scenario(), ledger());
        let good = [0, 1, 1, 1, 1, 0, 1, 1, 1, 1];
        for (window, good) in ledger.windows[5..].iter_mut().zip(good) {
            window.offered = 100;
            window.came_good = 95 * good;
        }
        let of = |l: &Ledger| Scope::new(&scenario, l, Some(1), None).value("recovery");
        assert_eq!(of(&ledger), f64::INFINITY);
        ledger.windows[10].came_good = 95;
        assert_eq!(of(&ledger), 200e6);
    }

    #[test]
    fn the_order_of_shedding_is_judged_between_neighbours_that_were_there() {
        let (scenario, mut ledger) = (scenario(), ledger());
        let order = |l: &Ledger| Scope::new(&scenario, l, Some(0), None).value("shed_order");
        let part = &mut ledger.parts[0][0];
        part.offered = [100, 0, 100, 0, 100, 7];
        part.shed = [0, 0, 40, 0, 90, 0];
        assert!((order(&ledger) - -0.4).abs() < 1e-9);
        ledger.parts[0][0].shed = [0, 0, 95, 0, 90, 0];
        assert!((order(&ledger) - 0.05).abs() < 1e-9);
    }

    #[test]
    fn a_phase_and_a_group_are_looked_at_alone() {
        let (scenario, mut ledger) = (scenario(), ledger());
        ledger.parts[1][1].offered[Kind::Low as usize] = 10;
        ledger.parts[1][1].good = 4;
        ledger.parts[1][0].offered[Kind::High as usize] = 10;
        ledger.parts[1][0].good = 10;
        ledger.sources[1][1] = crate::ledger::SourcePart {
            offered: 5,
            good: 1,
        };
        ledger.sources[1][2] = crate::ledger::SourcePart {
            offered: 5,
            good: 3,
        };
        ledger.parts[1][1].slot = vec![3000, 1000, 2000];
        let scope = |phase, group| Scope::new(&scenario, &ledger, phase, group);
        assert_eq!(scope(Some(1), Some(1)).value("kept"), 0.4);
        assert_eq!(scope(Some(1), Some(1)).value("kept_worst"), 0.2);
        assert_eq!(scope(None, None).value("kept"), 0.7);
        assert!(scope(Some(0), None).value("kept").is_nan());
        assert_eq!(scope(None, Some(1)).value("slot_p50"), 2e6);
        assert_eq!(scope(None, Some(1)).value("slot_p99"), 3e6);
        assert_eq!(scope(Some(1), None).service_ns(), 12e6);
    }
}
