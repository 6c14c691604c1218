//! What an operator may choose instead: `pacing: little` and `overload: codel`.

mod offers;

use offers::{MS, NUMBERS, SECOND, Sole, of_class, offer};
use sluice_core::admission::{Class, Grant, Numbers, Priority, Verdict};

#[test]
fn little_paces_slots_and_keeps_the_rest_for_later() {
    let (pace_interval_ns, pace_depth_ns) = (2 * MS, 10 * MS);
    let mut sole = Sole::new(Numbers {
        limit: 1000,
        max_held: 10_000,
        pace_interval_ns,
        pace_depth_ns,
        ..NUMBERS
    });
    let start_ns = SECOND;
    for token in 0..5 {
        let verdict = sole.offer(start_ns, &offer(token, Priority::Default, 0)).1;
        assert_eq!(verdict, Verdict::Admit);
    }
    for token in 5..500 {
        sole.hold(start_ns, &offer(token, Priority::Default, 0));
    }
    assert_eq!(sole.grant(start_ns + 2 * MS - 1), Grant::Idle);
    let mut granted = 0;
    for now_ns in (start_ns..start_ns + 200 * MS).step_by(500_000) {
        while let Grant::Admit(_) = sole.grant(now_ns) {
            granted += 1;
        }
    }
    assert_eq!(granted, 99);
    assert_eq!(sole.slots.inflight(), 104);
    // No slot, no token: the bucket is as full as time has made it.
    sole.numbers.limit = 104;
    assert_eq!(sole.grant(start_ns + 205 * MS), Grant::Idle);
    sole.numbers.limit = 1000;
    let mut granted = 0;
    while let Grant::Admit(_) = sole.grant(start_ns + 205 * MS) {
        granted += 1;
    }
    assert_eq!(granted, 3);
    // The floor has its own bounds.
    sole.numbers.floor_rate_milli = 1000;
    let verdict = sole
        .offer(start_ns + 205 * MS, &offer(1, Priority::High, 9))
        .1;
    assert_eq!(verdict, Verdict::Floor);
}

fn codel() -> Numbers {
    Numbers {
        codel_target_ns: 5 * MS,
        codel_interval_ns: 100 * MS,
        hold_bound_ns: 300 * MS,
        share_rate_milli: 1000,
        ..NUMBERS
    }
}

#[test]
fn codel_is_one_class_first_come_first_served() {
    let mut sole = Sole::busy(codel());
    for (token, class) in [0, 7, 6, 2, 0, 0, 3].into_iter().enumerate() {
        let class = Class::ALL[class];
        let held = sole.hold(token as u64, &of_class(class, token as u64));
        assert_eq!(held, Class::Default);
    }
    assert_eq!(sole.order(1000), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn codel_is_overloaded_when_even_the_shortest_hold_was_longer_than_the_target() {
    let mut sole = Sole::busy(codel());
    let mut now_ns = SECOND;
    sole.pulse(now_ns);
    // One interval: all are held for `hold_ns`, and one may not be held at all.
    let interval = |sole: &mut Sole, now_ns: &mut u64, hold_ns: u64, one_at_once: bool| {
        let (before, end_ns) = (sole.slots.overloaded(), *now_ns + 100 * MS);
        if one_at_once {
            sole.release();
            let verdict = sole.offer(*now_ns, &offer(1, Priority::Default, 0)).1;
            assert_eq!(verdict, Verdict::Admit);
        }
        while *now_ns + hold_ns <= end_ns {
            sole.hold(*now_ns, &offer(1, Priority::Default, 0));
            *now_ns += hold_ns;
            sole.release();
            assert!(matches!(sole.grant(*now_ns), Grant::Admit(_)));
            if *now_ns < end_ns {
                assert_eq!(sole.pulse(*now_ns).0, before, "only at the interval's end");
            }
        }
        *now_ns = end_ns;
        sole.pulse(*now_ns).0
    };
    let bit = Class::Default.bit();
    assert_eq!(interval(&mut sole, &mut now_ns, 6 * MS, false), bit);
    assert_eq!(interval(&mut sole, &mut now_ns, 6 * MS, true), 0);
    assert_eq!(interval(&mut sole, &mut now_ns, 5 * MS, false), 0);
    assert_eq!(interval(&mut sole, &mut now_ns, 9 * MS, false), bit);

    // Now who waits for twice the target leaves.
    sole.hold(now_ns, &offer(2, Priority::High, 0));
    assert_eq!(sole.expire(now_ns + 10 * MS - 1), []);
    assert_eq!(sole.expire(now_ns + 10 * MS), [2]);
    // A storm that ended long ago does not meet the next one.
    now_ns += 10 * SECOND;
    assert_eq!(sole.pulse(now_ns), (0, 0));

    // Nobody gets a slot: while they wait this is no rest.
    assert_eq!(interval(&mut sole, &mut now_ns, 9 * MS, false), bit);
    for _ in 0..20 {
        sole.hold(now_ns, &offer(3, Priority::High, 0));
        now_ns += 20 * MS;
        assert_eq!(sole.pulse(now_ns).0, bit);
        assert_eq!(sole.expire(now_ns), [3]);
    }
    sole.hold(now_ns, &offer(3, Priority::High, 0));
    // The floor's do not wait, and say nothing about those that do.
    sole.numbers.floor_slots = 100;
    sole.numbers.floor_rate_milli = 100_000;
    let mut ends_ns = 0;
    for _ in 0..10 {
        let verdict = sole.offer(now_ns, &offer(4, Priority::High, 9)).1;
        ends_ns += u64::from(verdict == Verdict::Floor);
        if let Verdict::Hold { ticket, .. } = verdict {
            sole.admission.cancel(ticket, &sole.slots);
        }
        now_ns += 20 * MS;
        assert_eq!(sole.pulse(now_ns).0, bit);
    }
    assert_eq!(ends_ns, 2);
}
