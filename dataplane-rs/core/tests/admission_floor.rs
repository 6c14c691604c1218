//! The floor, and how a source has fared.

mod offers;

use offers::{MS, NUMBERS, SECOND, Sole, offer};
use sluice_core::admission::{Class, Grant, Numbers, Offer, Priority, Slots, Standing, Verdict};

#[test]
fn the_floor_takes_those_entitled_who_would_not_get_a_slot() {
    let numbers = Numbers {
        floor_slots: 10,
        floor_rate_milli: 100_000,
        ..NUMBERS
    };
    let fared = |sole: &Sole| sole.slots.succeeded(0, SECOND);
    let plain = offer(1, Priority::Low, 0);
    let entitled = [
        Offer {
            handshake: true,
            ..plain
        },
        Offer {
            probes: true,
            ..plain
        },
        Offer {
            guard_after: 3,
            ..plain
        },
    ];
    for offer in entitled {
        let mut sole = Sole::busy(numbers);
        fared(&sole);
        for _ in 0..3 {
            sole.slots.refused(0);
        }
        assert_eq!(sole.offer(SECOND, &offer).1, Verdict::Floor, "{offer:?}");
        assert_eq!(sole.slots.inflight(), 2);
        sole.hold(SECOND, &plain);
        // A slot that is free is nothing of the floor's.
        let mut sole = Sole::new(numbers);
        fared(&sole);
        for _ in 0..3 {
            sole.slots.refused(0);
        }
        for token in 0..20 {
            let expected = match token {
                0 => Verdict::Admit,
                _ => Verdict::Floor,
            };
            let verdict = sole.offer(SECOND, &offer).1;
            if token < 3 {
                assert_eq!(verdict, expected);
            } else {
                assert!(matches!(verdict, Verdict::Hold { .. }));
            }
        }
    }
    // No success for ten seconds, or none ever.
    let mut sole = Sole::busy(numbers);
    assert_eq!(sole.offer(SECOND, &plain).1, Verdict::Floor);
    fared(&sole);
    sole.hold(SECOND, &plain);
    sole.hold(11 * SECOND - 1, &plain);
    assert_eq!(sole.offer(11 * SECOND, &plain).1, Verdict::Floor);
}

#[test]
fn the_floor_is_bounded_for_each_source_for_all_and_in_slots() {
    let count_of = |sole: &mut Sole, probes: bool, sources: u16, from_ns: u64, to_ns: u64| {
        let mut floored = vec![0u32; usize::from(sources)];
        let mut now_ns = from_ns;
        while now_ns < to_ns {
            for source in 0..sources {
                let mut offer = offer(1, Priority::Low, source);
                offer.probes = probes;
                let (_, verdict) = sole.offer(now_ns, &offer);
                if let Verdict::Hold { ticket, .. } = verdict {
                    sole.admission.cancel(ticket, &sole.slots);
                } else {
                    assert_eq!(verdict, Verdict::Floor);
                    sole.release();
                    floored[usize::from(source)] += 1;
                }
            }
            now_ns += 10 * MS;
        }
        floored
    };
    let count = |sole: &mut Sole, sources: u16, from_ns: u64, to_ns: u64| {
        count_of(sole, true, sources, from_ns, to_ns)
    };
    let numbers = Numbers {
        floor_slots: 1,
        floor_rate_milli: 1_000_000,
        ..NUMBERS
    };
    // Two a second each, after a rest two at once.
    let mut sole = Sole::busy(numbers);
    assert_eq!(count(&mut sole, 5, SECOND, SECOND + 10 * MS), [1; 5]);
    assert_eq!(
        count(&mut sole, 5, SECOND + 10 * MS, SECOND + 20 * MS),
        [1; 5]
    );
    let later = count(&mut sole, 5, SECOND + 20 * MS, 11 * SECOND + 20 * MS);
    assert_eq!(later, [20; 5]);
    // All together.
    for (rate_milli, expected) in [(3000, 33), (1000, 11), (500, 6), (0, 0)] {
        let floor_rate_milli = rate_milli;
        let mut sole = Sole::busy(Numbers {
            floor_rate_milli,
            ..numbers
        });
        let all: u32 = count(&mut sole, 40, SECOND, 11 * SECOND + 10 * MS)
            .iter()
            .sum();
        assert_eq!(all, expected, "{rate_milli}");
    }
    // Those that only have had no success leave half of a rest's tokens to the others.
    let floor_rate_milli = 4000;
    let mut sole = Sole::busy(Numbers {
        floor_rate_milli,
        ..numbers
    });
    let start = count_of(&mut sole, false, 40, SECOND, SECOND + 10 * MS);
    assert_eq!(start.iter().sum::<u32>(), 2);
    let start = count_of(&mut sole, true, 40, SECOND, SECOND + 10 * MS);
    assert_eq!(start.iter().sum::<u32>(), 2);
    let later = count_of(&mut sole, false, 40, SECOND, 2 * SECOND - 10 * MS);
    // Nothing in the first half of the second, then as they come.
    assert_eq!(later.iter().sum::<u32>(), 2);
    // In slots, of which they have half, and a slot that is not there costs no token.
    let mut sole = Sole::busy(Numbers {
        floor_slots: 6,
        ..numbers
    });
    for source in 0..3 {
        let verdict = sole.offer(SECOND, &offer(1, Priority::Low, source)).1;
        assert_eq!(verdict, Verdict::Floor);
    }
    for _ in 0..10 {
        sole.hold(SECOND, &offer(1, Priority::Low, 3));
    }
    sole.release();
    let verdict = sole.offer(SECOND, &offer(1, Priority::Low, 3)).1;
    assert_eq!(verdict, Verdict::Floor);
    // A pause of its lane is as good a reason as a full limit; there is no slot to take.
    sole.admission.pause_ring(true);
    let ring = Offer {
        ring: true,
        ..offer(1, Priority::Low, 4)
    };
    let inflight = sole.slots.inflight();
    assert_eq!(sole.offer(SECOND, &ring).1, Verdict::Floor);
    assert_eq!(sole.slots.inflight(), inflight);
}

#[test]
fn a_standing_is_of_this_data_plane_or_else_of_the_one_before() {
    let slots = Slots::new(1, 4);
    slots.seed_standing(0, 7);
    assert_eq!(slots.standing(0).refused_in_row, 7);
    slots.seed_standing(0, 9);
    assert_eq!(
        slots.standing(0).refused_in_row,
        7,
        "the next snapshot knows no better"
    );
    slots.refused(0);
    assert_eq!(slots.standing(0).refused_in_row, 8);
    slots.succeeded(0, 30);
    slots.succeeded(0, 20);
    let expected = Standing {
        refused_in_row: 0,
        last_success_ns: 30,
    };
    assert_eq!(slots.standing(0), expected);
    slots.seed_standing(0, 7);
    assert_eq!(slots.standing(0), expected);
    assert_eq!(slots.standing(1), Standing::default());
    // An event at the very start of the clock is a success all the same.
    slots.succeeded(1, 0);
    assert_ne!(slots.standing(1).last_success_ns, 0);
}

#[test]
fn what_must_be_answered_is_next_where_the_floor_has_no_slot() {
    let numbers = Numbers {
        floor_slots: 0,
        floor_rate_milli: 4000,
        ..NUMBERS
    };
    let mut sole = Sole::busy(numbers);
    sole.hold(SECOND, &offer(1, Priority::Default, 1));
    let mut probe = offer(2, Priority::Low, 2);
    probe.probes = true;
    for token in [2, 3] {
        probe.token = token;
        let (class, verdict) = sole.offer(SECOND, &probe);
        assert!(matches!(verdict, Verdict::Hold { .. }), "{verdict:?}");
        assert_eq!(class, Class::High);
    }
    // Its source's tokens are spent, so it waits as its source does.
    probe.token = 4;
    let (class, verdict) = sole.offer(SECOND, &probe);
    assert!(matches!(verdict, Verdict::Hold { .. }), "{verdict:?}");
    assert_eq!(class, Class::Low);
    // One that only had no success is no such case, and pays nothing.
    sole.hold(SECOND, &offer(5, Priority::Low, 3));
    sole.release();
    for token in [2, 3, 1] {
        let granted = sole.grant(SECOND);
        let Grant::Admit(waiter) = granted else {
            panic!("{granted:?} instead of {token}");
        };
        assert_eq!(waiter.token, token);
        sole.release();
    }
}

#[test]
fn who_only_lacks_a_success_leaves_slots_of_the_floor_to_what_must_be_answered() {
    let numbers = Numbers {
        floor_slots: 2,
        floor_rate_milli: 1_000_000,
        ..NUMBERS
    };
    let mut sole = Sole::busy(numbers);
    let starved = |token| offer(token, Priority::Default, token as u16);
    assert_eq!(sole.offer(0, &starved(1)).1, Verdict::Floor);
    let second = sole.offer(0, &starved(2)).1;
    assert!(matches!(second, Verdict::Hold { .. }), "{second:?}");
    let handshake = Offer {
        handshake: true,
        ..starved(3)
    };
    assert_eq!(sole.offer(0, &handshake).1, Verdict::Floor);
}
