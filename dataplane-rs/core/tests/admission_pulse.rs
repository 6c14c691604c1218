//! The meter and the overload of classes, against what was written down of each instant.

mod offers;
mod seed;

use offers::{MS, NUMBERS, SECOND, Sole, offer, rounds};
use seed::Seed;
use sluice_core::admission::{Class, Grant, Numbers, Offer, Priority, Verdict};

/// Longer than from one pulse to the next.
const GAP_NS: u64 = 150 * MS;

#[test]
fn the_meter_adds_up_to_what_was_taken_at_each_instant() {
    let mut seed = Seed::printed("the_meter_adds_up_to_what_was_taken_at_each_instant");
    for _ in 0..rounds(100) {
        let mut sole = Sole::new(Numbers {
            limit: seed.between(1, 8),
            ..NUMBERS
        });
        // Each change of the slots taken, and each limit, with its time.
        let mut history: Vec<(u64, u64)> = vec![(0, 0)];
        let mut now_ns = 5000 * SECOND;
        let counts = || Default::default();
        let first = sole.slots.pulse(now_ns, &sole.numbers, counts).unwrap();
        assert_eq!((first.area_ns, first.saturated_ns), (0, 0));
        let start_ns = now_ns;
        let (mut area_ns, mut saturated_ns) = (0u64, 0u64);
        let (mut expected_area_ns, mut expected_saturated_ns) = (0u64, 0u64);
        for _ in 0..300 {
            let before_ns = now_ns;
            let was = sole.slots.inflight();
            now_ns += seed.below(GAP_NS / MS) * MS / seed.between(1, 40);
            expected_area_ns += was * (now_ns - before_ns);
            if was >= sole.numbers.limit {
                expected_saturated_ns += now_ns - before_ns;
            }
            let pulse = sole.slots.pulse(now_ns, &sole.numbers, counts).unwrap();
            assert_eq!((pulse.metered_ns, pulse.inflight), (now_ns, was));
            assert!(pulse.saturated_ns <= now_ns - before_ns);
            area_ns += pulse.area_ns;
            saturated_ns += pulse.saturated_ns;
            // The peak of the last 100 ms is in it, and nothing that a pulse has met 200 ms ago.
            let peak = |since_ns: u64| {
                let end = history.iter().map(|&(at_ns, _)| at_ns).skip(1);
                let spans = history.iter().zip(end.chain([u64::MAX]));
                let met = spans.filter(|&(_, until_ns)| until_ns >= since_ns);
                met.map(|(&(_, count), _)| count).max().unwrap_or(0)
            };
            assert!(pulse.peak >= peak(now_ns.saturating_sub(100 * MS)));
            assert!(pulse.peak <= peak(now_ns.saturating_sub(200 * MS + GAP_NS)));
            for token in 0..seed.below(4) {
                let request = offer(token, Priority::Default, 0);
                if sole.offer(now_ns, &request).1 == Verdict::Admit {
                    history.push((now_ns, sole.slots.inflight()));
                }
            }
            for _ in 0..seed.below(4).min(sole.slots.inflight()) {
                sole.release();
                history.push((now_ns, sole.slots.inflight()));
            }
            while let Grant::Admit(_) = sole.grant(now_ns) {
                history.push((now_ns, sole.slots.inflight()));
            }
        }
        assert_eq!(area_ns, expected_area_ns);
        assert_eq!(saturated_ns, expected_saturated_ns);
        assert!(saturated_ns <= now_ns - start_ns);
        // A clock that is behind adds nothing and takes nothing back.
        let pulse = sole.slots.pulse(start_ns, &sole.numbers, counts).unwrap();
        assert_eq!((pulse.area_ns, pulse.saturated_ns), (0, 0));
        assert_eq!(pulse.metered_ns, now_ns);
    }
}

#[test]
fn a_peak_is_forgotten_after_two_tenths_of_a_second() {
    for gap_ns in [MS, 50 * MS, 10 * SECOND] {
        let mut sole = Sole::new(Numbers {
            limit: 9,
            ..NUMBERS
        });
        let counts = || Default::default();
        for token in 0..9 {
            sole.offer(SECOND, &offer(token, Priority::Default, 0));
        }
        for _ in 0..8 {
            sole.release();
        }
        let pulse = sole.slots.pulse(SECOND, &sole.numbers, counts).unwrap();
        assert_eq!((pulse.peak, pulse.inflight), (9, 1));
        let mut now_ns = SECOND;
        while now_ns < SECOND + 200 * MS {
            now_ns += gap_ns;
            let pulse = sole.slots.pulse(now_ns, &sole.numbers, counts).unwrap();
            let expected = if now_ns < SECOND + 200 * MS { 9 } else { 1 };
            assert_eq!(pulse.peak, expected, "{gap_ns} {now_ns}");
        }
    }
}

/// A class as the rule says it, from what was seen of its queue at each instant.
#[derive(Clone, Default)]
struct Judged {
    /// When it was empty last.
    empty_ns: u64,
    /// While overloaded: the interval's start, what was counted then, whether it was empty since.
    interval: Option<(u64, u64, u64, bool)>,
}

impl Judged {
    fn pulse(&mut self, now_ns: u64, i_ns: u64, last_ns: u64, held: u32, offered: u64, shed: u64) {
        if held == 0 {
            self.empty_ns = now_ns;
        }
        let Some((start_ns, offered_then, shed_then, was_empty)) = &mut self.interval else {
            if held > 0 && now_ns - self.empty_ns >= i_ns {
                self.interval = Some((now_ns, offered, shed, false));
            }
            return;
        };
        *was_empty |= held == 0;
        if held == 0 && now_ns - last_ns >= i_ns {
            self.interval = None;
        } else if now_ns - *start_ns >= i_ns {
            let (offered_in, shed_in) = (offered - *offered_then, shed - *shed_then);
            self.interval = if *was_empty && shed_in as f64 <= 0.02 * offered_in as f64 {
                None
            } else {
                Some((now_ns, offered, shed, false))
            };
        }
    }

    fn see(&mut self, now_ns: u64, held: u32) {
        if held == 0 {
            self.empty_ns = now_ns;
            if let Some((.., was_empty)) = &mut self.interval {
                *was_empty = true;
            }
        }
    }
}

#[test]
fn overload_of_each_class_follows_its_queue_and_sheds_alone_never_make_it() {
    let mut seed = Seed::printed("overload_of_each_class_follows_its_queue");
    let (mut began, mut ended) = (0, 0);
    for _ in 0..rounds(40) {
        let mut sole = Sole::new(Numbers {
            limit: 4,
            max_held: 30,
            hold_bound_ns: 10 * MS,
            service_time_ns: seed.below(200) * MS,
            ..NUMBERS
        });
        let i_ns = (3 * sole.numbers.service_time_ns).clamp(100 * MS, 500 * MS);
        let mut judged = vec![Judged::default(); Class::COUNT];
        let (mut now_ns, mut last_ns) = (SECOND, 0);
        let (mut bits, mut since_ns) = (0u64, 0);
        let mut load = 1;
        for _ in 0..4000 {
            if seed.chance(150) {
                load = seed.below(4);
            }
            now_ns += seed.between(1, 10) * MS;
            if seed.chance(400) {
                now_ns += seed.below(2000) * MS;
            }
            for (class, judged) in Class::ALL.into_iter().zip(&mut judged) {
                let c = class as usize;
                let held = sole.admission.held_of(class);
                judged.pulse(now_ns, i_ns, last_ns, held, sole.offered[c], sole.shed[c]);
            }
            last_ns = now_ns;
            let first = judged.iter().position(|judged| judged.interval.is_some());
            let expected = first.map_or(0, |first| (0xff << first) & 0xff);
            since_ns = match (expected, since_ns) {
                (0, _) => 0,
                (_, 0) => now_ns,
                (_, since_ns) => since_ns,
            };
            began += u64::from(bits == 0 && expected != 0);
            ended += u64::from(bits != 0 && expected == 0);
            bits = expected;
            assert_eq!(sole.pulse(now_ns), (expected, since_ns));
            let see = |sole: &Sole, judged: &mut [Judged]| {
                for (class, judged) in Class::ALL.into_iter().zip(judged) {
                    judged.see(now_ns, sole.admission.held_of(class));
                }
            };
            for _ in 0..seed.below(1 + load) {
                let priorities = [Priority::High, Priority::Default, Priority::Low];
                let request = Offer {
                    repeat: seed.chance(5),
                    until_ns: now_ns + SECOND * seed.between(1, 3) / 2,
                    ring: seed.chance(10),
                    ..offer(1, priorities[seed.index(3)], seed.below(3) as u16)
                };
                see(&sole, &mut judged);
                sole.offer(now_ns, &request);
                see(&sole, &mut judged);
            }
            if seed.chance(50) {
                sole.admission.pause_ring(seed.chance(2));
            }
            for _ in 0..seed.below(3).min(sole.slots.inflight()) {
                sole.release();
            }
            while matches!(sole.grant(now_ns), Grant::Admit(_) | Grant::Shed(..)) {
                see(&sole, &mut judged);
            }
            sole.expire(now_ns);
            see(&sole, &mut judged);
        }
    }
    assert!(began > 50 && ended > 50, "hardly reached: {began}, {ended}");
}

#[test]
fn sheds_without_a_queue_are_no_overload() {
    let mut sole = Sole::busy(Numbers {
        max_held: 0,
        ..NUMBERS
    });
    for now_ns in (SECOND..3 * SECOND).step_by(MS as usize) {
        assert_eq!(sole.pulse(now_ns), (0, 0));
        let verdict = sole.offer(now_ns, &offer(1, Priority::Default, 0)).1;
        assert!(matches!(verdict, Verdict::Shed(_)));
    }
}

#[test]
fn an_overload_ends_with_its_queue_once_hardly_anybody_is_shed() {
    let bit = |bits: u64, class: Class| bits & class.bit() != 0;
    for (shed_of_hundred, lasts) in [(0, false), (2, false), (3, true), (50, true)] {
        let mut sole = Sole::busy(NUMBERS);
        sole.hold(SECOND, &offer(1, Priority::Default, 0));
        sole.pulse(SECOND);
        let (bits, since_ns) = sole.pulse(SECOND + 100 * MS);
        assert!(bit(bits, Class::Default) && !bit(bits, Class::High));
        assert_eq!(since_ns, SECOND + 100 * MS);
        sole.release();
        assert!(matches!(sole.grant(since_ns), Grant::Admit(_)));
        for step in 1..100 {
            sole.offered[Class::Default as usize] += 1;
            sole.shed[Class::Default as usize] += u64::from(step <= shed_of_hundred);
            assert!(bit(sole.pulse(since_ns + step * MS).0, Class::Default));
        }
        sole.offered[Class::Default as usize] += 1;
        let (bits, later_ns) = sole.pulse(since_ns + 100 * MS);
        assert_eq!(bit(bits, Class::Default), lasts, "{shed_of_hundred}");
        assert_eq!(later_ns, if lasts { since_ns } else { 0 });
        for step in 101..=200 {
            sole.pulse(since_ns + step * MS);
        }
        assert_eq!(sole.pulse(since_ns + 201 * MS), (0, 0));
    }
}

#[test]
fn an_overload_that_nobody_looked_at_since_does_not_meet_the_next_request() {
    let mut sole = Sole::busy(NUMBERS);
    sole.hold(SECOND, &offer(1, Priority::Default, 0));
    sole.pulse(SECOND);
    sole.pulse(SECOND + 100 * MS);
    sole.shed[Class::Default as usize] = 1;
    sole.release();
    assert!(matches!(sole.grant(SECOND + 110 * MS), Grant::Admit(_)));
    assert_ne!(sole.pulse(SECOND + 110 * MS).0, 0);
    assert_eq!(sole.pulse(20 * SECOND), (0, 0));
}
