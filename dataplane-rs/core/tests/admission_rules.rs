//! Each rule of admission by itself.

mod offers;
mod seed;

use offers::{MS, NUMBERS, SECOND, Sole, of_class, offer};
use seed::Seed;
use sluice_core::admission::{
    Admission, Class, Grant, Numbers, Offer, Priority, Shed, Slots, Ticket, Verdict,
};

const ALL: u64 = (1 << Class::COUNT) - 1;

/// All slots taken, and sources of number 4 and above as far over their share as can be.
fn busy_with_shares(mut numbers: Numbers, share_rate_milli: u64) -> Sole {
    numbers.share_rate_milli = share_rate_milli;
    let mut sole = Sole::busy(numbers);
    let mut debtor = offer(0, Priority::High, 0);
    for source in 4..8 {
        debtor.source = source;
        for token in 0..200 {
            let verdict = sole.admission.offer(0, &debtor, &numbers, &sole.slots).1;
            let Verdict::Hold { ticket, .. } = verdict else {
                panic!("{verdict:?} of {token}");
            };
            assert!(sole.admission.cancel(ticket, &sole.slots));
        }
    }
    sole
}

/// Makes all classes overloaded, from 0 to the time that it returns.
fn overload(sole: &mut Sole) -> u64 {
    let numbers = sole.numbers;
    (sole.numbers.hold_budget_ns, sole.numbers.share_rate_milli) = (10 * SECOND, 0);
    let verdict = sole.offer(0, &offer(u64::MAX, Priority::High, 0)).1;
    let Verdict::Hold { ticket, .. } = verdict else {
        panic!("{verdict:?}");
    };
    sole.pulse(0);
    let interval_ns = (3 * numbers.service_time_ns).clamp(100 * MS, 500 * MS);
    assert_eq!(sole.pulse(interval_ns - 1), (0, 0));
    assert_eq!(sole.pulse(interval_ns), (ALL, interval_ns));
    assert!(sole.admission.cancel(ticket, &sole.slots));
    sole.numbers = numbers;
    interval_ns
}

#[test]
fn a_class_is_of_priority_share_and_kind_of_try() {
    use Priority::{Default, High, Low};
    // Priority, never retries, repeat: within the share and over it.
    let table = [
        (High, false, false, Class::High, Class::High),
        (High, false, true, Class::High, Class::High),
        (High, true, false, Class::High, Class::High),
        (High, true, true, Class::High, Class::High),
        (
            Default,
            false,
            false,
            Class::Default,
            Class::DefaultOverShare,
        ),
        (Default, false, true, Class::Repeat, Class::Repeat),
        (
            Default,
            true,
            false,
            Class::NeverRetries,
            Class::NeverRetriesOverShare,
        ),
        (
            Default,
            true,
            true,
            Class::NeverRetries,
            Class::NeverRetriesOverShare,
        ),
        (Low, false, false, Class::Low, Class::LowOverShare),
        (Low, false, true, Class::Repeat, Class::LowOverShare),
        (Low, true, false, Class::Low, Class::LowOverShare),
        (Low, true, true, Class::Low, Class::LowOverShare),
    ];
    for (priority, never_retries, repeat, within, over) in table {
        for (source, class) in [(0, within), (4, over)] {
            let mut sole = busy_with_shares(NUMBERS, 100_000);
            let offer = Offer {
                never_retries,
                repeat,
                ..offer(1, priority, source)
            };
            let what = format!("{priority:?} never {never_retries} repeat {repeat}");
            assert_eq!(sole.hold(0, &offer), class, "{what}, source {source}");
            // Near its provider's threshold it is high, whatever else.
            let guarded = Offer {
                guard_after: 2,
                ..offer
            };
            sole.slots.refused(source);
            assert_eq!(sole.hold(0, &guarded), class, "{what}");
            sole.slots.refused(source);
            assert_eq!(sole.hold(0, &guarded), Class::High, "{what}");
            assert_eq!(sole.hold(0, &offer), class, "{what}: nobody disables it");
            sole.slots.succeeded(source, 1);
            assert_eq!(sole.hold(0, &guarded), class, "{what}");
        }
    }
}

/// Classes 1 to 3 may be held 50 ms while overloaded, High 120 ms.
const GUARDING: Numbers = Numbers {
    hold_bound_ns: 20 * MS,
    service_time_ns: 40 * MS,
    ..NUMBERS
};

/// All overloaded, and one of source 5 held, which is guarded after two refusals, and one of source
/// 6. Gives the time and the first one's ticket.
fn held_beside_a_guarded_one(sole: &mut Sole) -> (u64, Ticket) {
    let now_ns = overload(sole);
    let guarded = Offer {
        guard_after: 2,
        ..offer(1, Priority::Default, 5)
    };
    let verdict = sole.offer(now_ns, &guarded).1;
    let Verdict::Hold { ticket, .. } = verdict else {
        panic!("{verdict:?}");
    };
    sole.hold(now_ns, &offer(2, Priority::Default, 6));
    (now_ns, ticket)
}

fn refuse_twice(sole: &Sole, source: u16) {
    sole.slots.refused(source);
    sole.slots.refused(source);
}

#[test]
fn one_whose_source_comes_to_be_guarded_is_raised_instead_of_shed() {
    let mut sole = Sole::busy(GUARDING);
    let (now_ns, _) = held_beside_a_guarded_one(&mut sole);
    refuse_twice(&sole, 5);
    assert!(sole.expire(now_ns + 50 * MS - 1).is_empty());
    assert_eq!(sole.expire(now_ns + 50 * MS), [2]);
    let waiting = Class::ALL.map(|class| sole.slots.waiting(class));
    assert_eq!(waiting, [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(sole.admission.held_of(Class::High), 1);
    // It is served as one of class High, and as old as it is.
    let later_ns = now_ns + 51 * MS;
    sole.hold(later_ns, &of_class(Class::NeverRetries, 3));
    assert_eq!(sole.order(later_ns), [1, 3]);
}

#[test]
fn one_that_was_raised_leaves_at_the_bound_of_class_high_or_by_its_ticket() {
    let mut sole = Sole::busy(GUARDING);
    let (now_ns, _) = held_beside_a_guarded_one(&mut sole);
    refuse_twice(&sole, 5);
    sole.hold(now_ns + 10 * MS, &offer(7, Priority::High, 0));
    assert_eq!(sole.expire(now_ns + 60 * MS), [2]);
    // The younger one of class High, which came to that class before it, does not hide it.
    assert!(sole.expire(now_ns + 120 * MS - 1).is_empty());
    assert_eq!(sole.expire(now_ns + 120 * MS), [1]);
    assert_eq!(sole.expire(now_ns + 130 * MS), [7]);

    let mut sole = Sole::busy(GUARDING);
    let (now_ns, ticket) = held_beside_a_guarded_one(&mut sole);
    refuse_twice(&sole, 5);
    assert_eq!(sole.expire(now_ns + 60 * MS), [2]);
    assert!(sole.admission.cancel(ticket, &sole.slots));
    assert_eq!((sole.admission.held(), sole.slots.held()), (0, 0));
    assert_eq!(sole.slots.waiting(Class::High), 0);
}

#[test]
fn one_whose_source_is_guarded_gets_the_slot_at_its_turn_however_long_it_waited() {
    for is_guarded in [false, true] {
        let mut sole = Sole::busy(GUARDING);
        let (now_ns, _) = held_beside_a_guarded_one(&mut sole);
        if is_guarded {
            refuse_twice(&sole, 5);
        }
        sole.release();
        let (mut admitted, mut shed) = (Vec::new(), Vec::new());
        loop {
            match sole.grant(now_ns + 60 * MS) {
                Grant::Admit(waiter) => admitted.push(waiter.token),
                Grant::Shed(waiter, _) => shed.push(waiter.token),
                _ => break,
            }
        }
        assert_eq!(admitted, [1].as_slice()[..usize::from(is_guarded)]);
        assert!(is_guarded || shed.contains(&1));
    }
}

#[test]
fn a_success_meanwhile_ends_the_guard() {
    let mut sole = Sole::busy(GUARDING);
    let (now_ns, _) = held_beside_a_guarded_one(&mut sole);
    refuse_twice(&sole, 5);
    sole.slots.succeeded(5, now_ns);
    assert_eq!(sole.expire(now_ns + 50 * MS), [1, 2]);
}

#[test]
fn names_and_bits_of_classes_are_their_own() {
    let mut bits = 0;
    for (number, class) in Class::ALL.into_iter().enumerate() {
        assert_eq!(class as usize, number);
        assert_eq!(bits & class.bit(), 0);
        bits |= class.bit();
        let twins = Class::ALL
            .iter()
            .filter(|other| other.name() == class.name());
        assert_eq!(twins.count(), 1);
    }
    assert_eq!(bits, ALL);
}

#[test]
fn classes_are_served_in_order_and_sources_take_turns() {
    let mut sole = busy_with_shares(NUMBERS, 100_000);
    for class in Class::ALL.into_iter().rev() {
        for token in 0..2 {
            let held = sole.hold(token, &of_class(class, 10 * class as u64 + token));
            assert_eq!(held, class);
        }
    }
    let order: Vec<u64> = (0..8)
        .flat_map(|class| [10 * class, 10 * class + 1])
        .collect();
    assert_eq!(sole.order(1000), order);
}

#[test]
fn sources_of_a_class_take_turns_and_a_flood_waits_behind_itself() {
    let mut sole = Sole::busy(NUMBERS);
    for token in 0..5 {
        sole.hold(token, &offer(token, Priority::Default, 7));
    }
    for (token, source) in [(10, 8), (20, 9), (11, 8)] {
        sole.hold(token, &offer(token, Priority::Default, source));
    }
    sole.hold(30, &offer(30, Priority::High, 7));
    assert_eq!(sole.order(1000), [30, 0, 10, 20, 1, 11, 2, 3, 4]);
}

#[test]
fn a_source_that_comes_back_stands_behind_those_that_wait() {
    let mut sole = Sole::busy(NUMBERS);
    sole.hold(0, &offer(1, Priority::Default, 1));
    sole.hold(0, &offer(2, Priority::Default, 1));
    sole.release();
    assert!(matches!(sole.grant(1), Grant::Admit(waiter) if waiter.token == 1));
    sole.hold(1, &offer(3, Priority::Default, 2));
    sole.hold(1, &offer(4, Priority::Default, 3));
    assert_eq!(sole.order(2), [3, 4, 2]);
}

#[test]
fn newest_goes_first_only_while_its_class_is_overloaded() {
    let mut sole = Sole::busy(NUMBERS);
    for token in 0..3 {
        sole.hold(token, &offer(token, Priority::High, 0));
        sole.hold(token, &offer(10 + token, Priority::Low, 0));
    }
    assert_eq!(sole.order(1000), [0, 1, 2, 10, 11, 12]);

    // Default waits for long, so Low is overloaded as well, and High is not.
    let mut sole = Sole::busy(NUMBERS);
    sole.hold(0, &offer(20, Priority::Default, 0));
    sole.pulse(0);
    let now_ns = 100 * MS;
    assert_eq!(sole.pulse(now_ns).0, ALL & !0b11);
    for token in 0..3 {
        sole.hold(now_ns, &offer(token, Priority::High, 0));
        sole.hold(now_ns, &offer(10 + token, Priority::Low, 0));
    }
    assert_eq!(sole.order(now_ns), [0, 1, 2, 20, 12, 11, 10]);
}

#[test]
fn an_arrival_waits_behind_its_own_class_even_when_a_slot_is_free() {
    let mut sole = Sole::busy(NUMBERS);
    sole.hold(0, &offer(1, Priority::Default, 0));
    sole.release();
    sole.hold(5, &offer(2, Priority::Default, 1));
    sole.hold(5, &offer(3, Priority::Low, 2));
    let high = sole.offer(5, &offer(4, Priority::High, 1));
    assert_eq!(high, (Class::High, Verdict::Admit));
}

#[test]
fn a_budget_without_room_for_two_service_times_is_shed_at_once() {
    let service_time_ns = 30 * MS;
    let mut sole = Sole::busy(Numbers {
        service_time_ns,
        ..NUMBERS
    });
    let mut short = offer(1, Priority::High, 0);
    short.until_ns = 60 * MS;
    assert_eq!(sole.offer(0, &short).1, Verdict::Shed(Shed::HoldSpent));
    short.until_ns = 60 * MS + 1;
    sole.hold(0, &short);
    assert_eq!(sole.expire(0), []);
    assert_eq!(sole.expire(1), [1]);
    // With a slot at once it is worth a try.
    sole.release();
    short.until_ns = 0;
    assert_eq!(sole.offer(0, &short).1, Verdict::Admit);
}

#[test]
fn a_hold_ends_with_the_budget_or_the_bound_of_its_class() {
    // H, W, growing: bound of High, of 1 to 3, of 4 to 7; nothing when there is no H.
    let table = [
        (MS, 0, false, Some([50 * MS, 50 * MS, 10 * MS])),
        (MS, 30 * MS, false, Some([90 * MS, 50 * MS, 30 * MS])),
        (MS, 200 * MS, false, Some([600 * MS, 200 * MS, 200 * MS])),
        (70 * MS, 10 * MS, false, Some([70 * MS, 70 * MS, 70 * MS])),
        (
            300 * MS,
            10 * MS,
            false,
            Some([300 * MS, 300 * MS, 300 * MS]),
        ),
        (MS, 10 * MS, true, Some([250 * MS, 250 * MS, 250 * MS])),
        (MS, 100 * MS, true, Some([300 * MS, 250 * MS, 250 * MS])),
        (400 * MS, 0, true, Some([400 * MS, 400 * MS, 400 * MS])),
        (0, 10 * MS, false, None),
        (9999 * MS, 0, false, None),
    ];
    for (hold_bound_ns, service_time_ns, growing, bounds) in table {
        for is_overloaded in [false, true] {
            let numbers = Numbers {
                hold_bound_ns,
                service_time_ns,
                growing,
                ..NUMBERS
            };
            // So small a share that nothing of it comes back in the time of this test.
            let mut sole = busy_with_shares(numbers, 1);
            let mut now_ns = match is_overloaded {
                true => overload(&mut sole),
                false => 0,
            };
            for class in Class::ALL {
                let bound_ns = match bounds {
                    Some([high, ..]) if is_overloaded && class == Class::High => high,
                    Some([_, within, _]) if is_overloaded && class <= Class::Low => within,
                    Some([.., over]) if is_overloaded => over,
                    _ => NUMBERS.hold_budget_ns,
                };
                sole.numbers.share_rate_milli = u64::from(class as usize >= 4);
                let what = format!("{class:?} H {hold_bound_ns} W {service_time_ns} {growing}");
                assert_eq!(sole.hold(now_ns, &of_class(class, 1)), class);
                now_ns += bound_ns;
                assert_eq!(sole.expire(now_ns - 1), [], "{what}");
                assert_eq!(sole.expire(now_ns), [1], "{what}");
                // Its turn comes too late in the same instant.
                assert_eq!(sole.hold(now_ns, &of_class(class, 2)), class);
                now_ns += bound_ns;
                sole.release();
                let grant = sole.grant(now_ns);
                assert!(matches!(grant, Grant::Shed(w, Shed::HoldSpent) if w.token == 2));
                let again = offer(3, Priority::High, 63);
                assert_eq!(sole.offer(now_ns, &again).1, Verdict::Admit);
            }
        }
    }
}

#[test]
fn who_waits_behind_an_older_one_with_more_time_still_leaves_in_time() {
    let mut seed = Seed::printed("who_waits_behind_an_older_one_with_more_time_still_leaves");
    for _ in 0..50 {
        let mut sole = Sole::busy(Numbers {
            max_held: 200,
            ..NUMBERS
        });
        let mut ends = Vec::new();
        for token in 0..200 {
            let mut waiter = offer(token, Priority::Default, seed.below(4) as u16);
            waiter.until_ns = 1 + seed.below(1000);
            ends.push((waiter.until_ns, token));
            sole.hold(0, &waiter);
        }
        let mut now_ns = 0;
        while !ends.is_empty() {
            now_ns += seed.below(60);
            let gone = sole.expire(now_ns);
            let (mut expected, rest): (Vec<_>, Vec<_>) =
                ends.into_iter().partition(|&(end_ns, _)| end_ns <= now_ns);
            expected.sort_by_key(|&(_, token)| token);
            assert_eq!(
                gone,
                expected.iter().map(|&(_, token)| token).collect::<Vec<_>>()
            );
            ends = rest;
        }
    }
}

#[test]
fn repeats_fill_only_their_part_of_the_limit() {
    for (limit, milli, expected) in [(10, 800, 8), (10, 0, 10), (10, 1000, 10), (1, 800, 1)] {
        let mut sole = Sole::new(Numbers {
            limit,
            repeat_share_milli: milli,
            ..NUMBERS
        });
        let repeat = Offer {
            repeat: true,
            ..offer(1, Priority::Default, 0)
        };
        for _ in 0..expected {
            assert_eq!(sole.offer(0, &repeat), (Class::Repeat, Verdict::Admit));
        }
        sole.hold(0, &repeat);
        assert_eq!(sole.grant(0), Grant::Idle);
        for _ in expected..limit {
            let first = sole.offer(0, &offer(2, Priority::Low, 0)).1;
            assert_eq!(first, Verdict::Admit);
            assert_eq!(sole.grant(0), Grant::Idle);
        }
        for _ in expected..limit {
            sole.release();
            assert_eq!(sole.grant(0), Grant::Idle);
        }
        sole.release();
        assert!(matches!(sole.grant(0), Grant::Admit(_)));
    }
    let mut none = Sole::new(Numbers {
        limit: 0,
        repeat_share_milli: 800,
        ..NUMBERS
    });
    none.hold(
        0,
        &Offer {
            repeat: true,
            ..offer(1, Priority::Default, 0)
        },
    );
}

#[test]
fn a_ring_request_takes_no_slot_and_waits_only_for_its_lane() {
    let mut sole = Sole::busy(NUMBERS);
    let ring = |token, priority| Offer {
        ring: true,
        ..offer(token, priority, 0)
    };
    sole.hold(0, &offer(1, Priority::High, 0));
    assert_eq!(sole.offer(0, &ring(2, Priority::Low)).1, Verdict::Admit);
    assert_eq!(sole.slots.inflight(), 1);
    sole.admission.pause_ring(true);
    sole.hold(0, &ring(3, Priority::Low));
    sole.hold(0, &ring(4, Priority::Default));
    sole.hold(0, &ring(5, Priority::Default));
    assert_eq!(sole.slots.waiting(Class::Default), 0);
    assert_eq!(sole.slots.held(), 4);
    // It keeps no slot from anybody.
    sole.release();
    assert!(matches!(sole.grant(1), Grant::Admit(waiter) if waiter.token == 1));
    assert_eq!(sole.grant(1), Grant::Idle);
    sole.hold(1, &offer(6, Priority::Default, 0));
    // Without a slot left, all that wait for the lane go on, in the order of classes.
    sole.admission.pause_ring(false);
    let behind = ring(7, Priority::Low);
    sole.hold(2, &behind);
    let ahead = ring(8, Priority::High);
    assert_eq!(sole.offer(2, &ahead).1, Verdict::Admit);
    let mut tokens = Vec::new();
    while let Grant::Admit(waiter) = sole.grant(2) {
        assert!(waiter.ring);
        tokens.push(waiter.token);
    }
    assert_eq!(tokens, [4, 5, 3, 7]);
    assert_eq!((sole.slots.inflight(), sole.slots.held()), (1, 1));
}

#[test]
fn a_full_queue_pushes_out_the_oldest_of_the_lowest_class_below() {
    let max_held = 4;
    let mut sole = Sole::busy(Numbers {
        max_held,
        ..NUMBERS
    });
    for (token, priority) in [
        (1, Priority::Default),
        (2, Priority::Low),
        (3, Priority::Low),
        (4, Priority::Default),
    ] {
        sole.hold(token, &offer(token, priority, 0));
    }
    let mut out = |priority| match sole.offer(9, &offer(9, priority, 0)).1 {
        Verdict::Hold { pushed_out, .. } => Ok(pushed_out.map(|waiter| waiter.token)),
        Verdict::Shed(why) => Err(why),
        other => panic!("{other:?}"),
    };
    assert_eq!(out(Priority::Low), Err(Shed::HeldFull));
    assert_eq!(out(Priority::Default), Ok(Some(2)));
    assert_eq!(out(Priority::High), Ok(Some(3)));
    assert_eq!(out(Priority::Default), Err(Shed::HeldFull));
    assert_eq!(out(Priority::High), Ok(Some(1)));
    assert_eq!(out(Priority::High), Ok(Some(4)));
    assert_eq!(out(Priority::High), Ok(Some(9)), "the Default one");
    assert_eq!(out(Priority::High), Err(Shed::HeldFull));
}

#[test]
fn one_of_a_lower_class_leaves_at_whichever_worker_it_waits() {
    let numbers = Numbers {
        limit: 0,
        max_held: 2,
        ..NUMBERS
    };
    let slots = Slots::new(2, 8);
    let mut first = Admission::new(0, 100);
    let mut second = Admission::new(1, 100);
    first.offer(0, &offer(1, Priority::Low, 0), &numbers, &slots);
    first.offer(0, &offer(2, Priority::Low, 0), &numbers, &slots);
    for token in 3..5 {
        let verdict = second
            .offer(0, &offer(token, Priority::High, 0), &numbers, &slots)
            .1;
        assert!(
            matches!(
                verdict,
                Verdict::Hold {
                    pushed_out: None,
                    ..
                }
            ),
            "{verdict:?}"
        );
    }
    // As many more as wait below, and no further.
    let verdict = second
        .offer(0, &offer(5, Priority::High, 0), &numbers, &slots)
        .1;
    assert_eq!(verdict, Verdict::Shed(Shed::HeldFull));
    assert_eq!(second.grant(1, &numbers, &slots), Grant::Idle);
    for token in 1..3 {
        let grant = first.grant(1, &numbers, &slots);
        assert!(matches!(grant, Grant::Shed(w, Shed::Outranked) if w.token == token));
    }
    assert_eq!(first.grant(1, &numbers, &slots), Grant::Idle);
    assert_eq!(slots.held(), 2);
}

#[test]
fn a_slot_that_a_worker_cannot_use_goes_to_one_that_can_and_each_is_woken_once() {
    let numbers = NUMBERS;
    let slots = Slots::new(64, 8);
    let mut workers: Vec<_> = (0..64).map(|index| Admission::new(index, 4)).collect();
    let taken = workers[7]
        .offer(0, &offer(0, Priority::High, 0), &numbers, &slots)
        .1;
    assert_eq!(taken, Verdict::Admit);
    let waits = [3, 20, 63, 0];
    for worker in waits {
        workers[worker].offer(0, &offer(1, Priority::Default, 0), &numbers, &slots);
    }
    workers[7].offer(0, &offer(1, Priority::Low, 0), &numbers, &slots);
    assert_eq!(workers[7].grant(0, &numbers, &slots), Grant::Idle);
    workers[7].release(&slots);
    // Its own Low one waits for the Default ones of the others; who is told goes round.
    let mut named = Vec::new();
    while let Grant::Elsewhere(worker) = workers[7].grant(0, &numbers, &slots) {
        named.push(worker);
    }
    assert_eq!(named, [3, 20, 63, 0]);
    // Whoever looks takes what is there, and who found nothing can be told again.
    for next in [3, 63] {
        assert!(matches!(
            workers[20].grant(0, &numbers, &slots),
            Grant::Admit(_)
        ));
        for worker in waits {
            assert_eq!(workers[worker].grant(0, &numbers, &slots), Grant::Idle);
        }
        workers[20].release(&slots);
        assert_eq!(
            workers[20].grant(0, &numbers, &slots),
            Grant::Elsewhere(next)
        );
        workers[20].offer(0, &offer(1, Priority::Default, 0), &numbers, &slots);
    }
    // In the end it comes back to the Low one.
    for worker in waits {
        assert!(matches!(
            workers[worker].grant(0, &numbers, &slots),
            Grant::Admit(_)
        ));
        workers[worker].release(&slots);
    }
    assert_eq!(workers[3].grant(0, &numbers, &slots), Grant::Elsewhere(7));
    assert!(matches!(
        workers[7].grant(0, &numbers, &slots),
        Grant::Admit(_)
    ));
}

#[test]
fn a_clock_that_stands_still_or_jumps_breaks_nothing() {
    let mut seed = Seed::printed("a_clock_that_stands_still_or_jumps_breaks_nothing");
    for round in 0..300 {
        let number = |seed: &mut Seed| match seed.below(4) {
            0 => 0,
            1 => seed.below(1000) * MS,
            2 => u64::MAX - seed.below(2),
            _ => seed.next(),
        };
        let mut sole = Sole::new(NUMBERS);
        let mut tokens = 0;
        for _ in 0..300 {
            if seed.chance(5) {
                sole.numbers = Numbers {
                    limit: seed.below(5),
                    floor_slots: number(&mut seed),
                    floor_rate_milli: number(&mut seed),
                    max_held: seed.below(20),
                    hold_budget_ns: number(&mut seed),
                    hold_bound_ns: number(&mut seed),
                    growing: seed.chance(2),
                    service_time_ns: number(&mut seed),
                    repeat_share_milli: number(&mut seed),
                    share_rate_milli: number(&mut seed),
                    codel_target_ns: if round % 3 == 0 { number(&mut seed) } else { 0 },
                    codel_interval_ns: number(&mut seed),
                    pace_interval_ns: if round % 4 == 0 { number(&mut seed) } else { 0 },
                    pace_depth_ns: number(&mut seed),
                };
            }
            let now_ns = number(&mut seed);
            match seed.below(6) {
                0 | 1 => {
                    tokens += 1;
                    let priorities = [Priority::High, Priority::Default, Priority::Low];
                    let priority = priorities[seed.index(3)];
                    let offer = Offer {
                        repeat: seed.chance(3),
                        until_ns: number(&mut seed),
                        ring: seed.chance(3),
                        guard_after: seed.below(3) as u32,
                        ..offer(tokens, priority, seed.below(4) as u16)
                    };
                    sole.offer(now_ns, &offer);
                }
                2 => {
                    sole.expire(now_ns);
                }
                3 => {
                    sole.pulse(now_ns);
                }
                4 if sole.slots.inflight() > 0 => sole.release(),
                _ => {
                    sole.slots.succeeded(seed.below(4) as u16, now_ns);
                    sole.slots.refused(seed.below(4) as u16);
                    while matches!(sole.grant(now_ns), Grant::Admit(_) | Grant::Shed(..)) {}
                }
            }
        }
    }
}

#[test]
fn a_ticket_of_one_that_left_names_nobody_that_came_later() {
    let mut sole = Sole::busy(NUMBERS);
    let mut old = Vec::new();
    for token in 0..5 {
        let verdict = sole.offer(0, &offer(token, Priority::Default, 0)).1;
        let Verdict::Hold { ticket, .. } = verdict else {
            panic!("{verdict:?}");
        };
        for &stale in &old {
            assert!(!sole.admission.cancel(stale, &sole.slots));
        }
        assert_eq!(sole.admission.held(), 1);
        assert_eq!(sole.order(1), [token]);
        sole.admission
            .offer(1, &offer(9, Priority::High, 0), &NUMBERS, &sole.slots);
        old.push(ticket);
    }
}
