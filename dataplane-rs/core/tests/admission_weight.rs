//! Requests that take long to judge: how many are under way, and who goes past those that wait.

mod offers;

use offers::{MS, NUMBERS, Sole, offer};
use sluice_core::admission::{Admission, Class, Grant, Numbers, Offer, Priority, Slots, Verdict};

const ROOMY: Numbers = Numbers {
    limit: 100,
    ..NUMBERS
};

fn heavy(token: u64, priority: Priority) -> Offer {
    Offer {
        weight: 1,
        ..offer(token, priority, 1)
    }
}

fn light(token: u64) -> Offer {
    offer(token, Priority::Default, 2)
}

/// A worker that may have so much weight under way.
fn bounded(numbers: Numbers, weight_max: u32) -> Sole {
    let mut sole = Sole::new(numbers);
    sole.admission
        .bound_weight(weight_max, weight_max, &sole.slots);
    sole
}

fn admitted(sole: &mut Sole, offer: &Offer) {
    let verdict = sole.offer(0, offer).1;
    assert_eq!(verdict, Verdict::Admit, "{offer:?}");
}

fn granted(sole: &mut Sole) -> Option<u64> {
    match sole.grant(0) {
        Grant::Admit(waiter) => Some(waiter.token),
        Grant::Idle => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn heavy_requests_over_their_bound_keep_nobody_else_waiting() {
    let mut sole = bounded(ROOMY, 2);
    admitted(&mut sole, &heavy(1, Priority::High));
    admitted(&mut sole, &heavy(2, Priority::Low));
    for token in 3..20 {
        sole.hold(0, &heavy(token, Priority::High));
    }
    assert_eq!(granted(&mut sole), None, "there is a slot, but no weight");
    assert_eq!(sole.slots.waiting(Class::High), 0);
    for token in 20..40 {
        admitted(&mut sole, &light(token));
    }
    let ring = Offer {
        ring: true,
        ..light(40)
    };
    admitted(&mut sole, &ring);
    sole.release();
    sole.admission.give_weight(1, &sole.slots);
    assert_eq!(granted(&mut sole), Some(3));
    assert_eq!(granted(&mut sole), None);
}

#[test]
fn below_their_bound_heavy_requests_wait_like_all_others() {
    let mut sole = bounded(NUMBERS, 2);
    admitted(&mut sole, &light(1)); // the only slot
    sole.hold(0, &heavy(2, Priority::High));
    sole.hold(0, &light(3));
    assert_eq!(sole.slots.waiting(Class::High), 1);
    sole.release();
    let late = sole.offer(0, &light(4)).1;
    assert!(
        matches!(late, Verdict::Hold { .. }),
        "one of High waits: {late:?}"
    );
    assert_eq!(granted(&mut sole), Some(2), "High goes first");
    sole.release();
    sole.admission.give_weight(1, &sole.slots);
    assert_eq!(granted(&mut sole), Some(3));
    sole.release();
    assert_eq!(granted(&mut sole), Some(4));
}

#[test]
fn over_their_share_heavy_requests_go_where_nobody_else_waits() {
    let numbers = Numbers {
        limit: 3,
        ..NUMBERS
    };
    let mut sole = Sole::new(numbers);
    sole.admission.bound_weight(1, 8, &sole.slots);
    for token in 1..=3 {
        admitted(&mut sole, &heavy(token, Priority::High)); // nobody else is there
    }
    sole.hold(0, &heavy(4, Priority::High));
    sole.hold(
        0,
        &Offer {
            priority: Priority::Low,
            ..light(5)
        },
    );
    sole.hold(0, &light(6));
    let mut order = Vec::new();
    for _ in 0..3 {
        sole.release();
        sole.admission.give_weight(1, &sole.slots);
        order.push(granted(&mut sole));
    }
    // Two more of weight are under way after the first two answers: one too many to go before.
    assert_eq!(order, [Some(6), Some(5), Some(4)]);
    sole.release();
    let late = sole.offer(0, &heavy(7, Priority::High)).1;
    assert_eq!(late, Verdict::Admit, "again there is nobody else");
}

#[test]
fn light_and_heavy_ones_of_a_class_take_turns() {
    let mut sole = bounded(NUMBERS, 1);
    admitted(&mut sole, &light(0));
    for token in 1..=3 {
        sole.hold(0, &light(token));
        sole.hold(0, &heavy(10 + token, Priority::Default));
    }
    let mut order = Vec::new();
    for _ in 0..6 {
        sole.release();
        let token = granted(&mut sole).expect("somebody waits");
        if token > 10 {
            sole.admission.give_weight(1, &sole.slots);
        }
        order.push(token);
    }
    assert_eq!(order, [11, 1, 12, 2, 13, 3]);
}

#[test]
fn a_heavy_ring_request_waits_for_weight_and_for_room() {
    let mut sole = bounded(ROOMY, 1);
    let ring = |token| Offer {
        ring: true,
        ..heavy(token, Priority::Default)
    };
    admitted(&mut sole, &ring(1));
    assert_eq!(sole.slots.inflight(), 0);
    sole.hold(0, &ring(2));
    sole.admission.pause_ring(true);
    sole.admission.give_weight(1, &sole.slots);
    assert_eq!(granted(&mut sole), None);
    sole.admission.pause_ring(false);
    assert_eq!(granted(&mut sole), Some(2));
}

#[test]
fn a_bound_that_goes_lets_all_go_on() {
    let mut sole = bounded(ROOMY, 1);
    admitted(&mut sole, &heavy(1, Priority::Default));
    sole.hold(0, &heavy(2, Priority::Default));
    sole.hold(0, &heavy(3, Priority::Default));
    sole.admission.bound_weight(0, 0, &sole.slots);
    assert_eq!((granted(&mut sole), granted(&mut sole)), (Some(2), Some(3)));
    for _ in 0..3 {
        sole.admission.give_weight(1, &sole.slots);
    }
}

#[test]
fn a_heavy_one_that_waits_in_vain_leaves_no_trace() {
    let mut sole = bounded(ROOMY, 1);
    admitted(&mut sole, &heavy(1, Priority::Default));
    for token in 2..6 {
        sole.hold(0, &heavy(token, Priority::Default));
    }
    let late = ROOMY.hold_budget_ns + MS;
    assert_eq!(sole.expire(late), [2, 3, 4, 5]);
    sole.release();
    sole.admission.give_weight(1, &sole.slots);
    assert_eq!(
        (sole.slots.held(), sole.slots.waiting(Class::Default)),
        (0, 0)
    );
    assert_eq!(sole.slots.inflight(), 0);
}

#[test]
fn who_waits_is_counted_right_whatever_happens() {
    let given = std::env::var("SLUICE_SEED").ok();
    let mut random: u64 = given
        .and_then(|text| text.parse().ok())
        .unwrap_or(0x9e37_79b9_7f4a_7c15)
        .max(1);
    println!("SLUICE_SEED={random}");
    let mut next = move |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    let numbers = Numbers {
        limit: 3,
        ..NUMBERS
    };
    let slots = Slots::new(2, 64);
    let mut workers = [0, 1].map(|index| Admission::new(index, 64));
    // Of what was admitted: the worker, whether it has a slot, its weight.
    let mut open: Vec<(usize, bool, u32)> = Vec::new();
    let mut tokens = 0;
    for _ in 0..offers::rounds(20_000) {
        let worker = next(2) as usize;
        match next(5) {
            0 | 1 => {
                tokens += 1;
                let offer = Offer {
                    weight: [0, 0, 1, 3][next(4) as usize],
                    ring: next(4) == 0,
                    ..offer(tokens, Priority::Default, next(4) as u16)
                };
                if workers[worker].offer(0, &offer, &numbers, &slots).1 == Verdict::Admit {
                    open.push((worker, !offer.ring, offer.weight));
                }
            }
            2 if !open.is_empty() => {
                let (owner, slot, weight) = open.swap_remove(next(open.len() as u64) as usize);
                if slot {
                    workers[owner].release(&slots);
                }
                workers[owner].give_weight(weight, &slots);
            }
            3 => workers[worker].bound_weight(1 + next(4) as u32, next(5) as u32, &slots),
            _ => loop {
                match workers[worker].grant(0, &numbers, &slots) {
                    Grant::Admit(waiter) => open.push((worker, !waiter.ring, waiter.weight)),
                    Grant::Shed(..) => {}
                    Grant::Idle | Grant::Elsewhere(_) => break,
                }
            },
        }
        assert!(slots.inflight() <= 3);
    }
    // All are answered: whoever waits gets on, and then nobody waits.
    for worker in &mut workers {
        worker.bound_weight(1, 2, &slots);
    }
    for _ in 0..200 {
        for (owner, slot, weight) in open.drain(..) {
            if slot {
                workers[owner].release(&slots);
            }
            workers[owner].give_weight(weight, &slots);
        }
        for (index, worker) in workers.iter_mut().enumerate() {
            while let Grant::Admit(waiter) = worker.grant(0, &numbers, &slots) {
                open.push((index, !waiter.ring, waiter.weight));
            }
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert_eq!((slots.held(), slots.inflight()), (0, 0));
    for class in Class::ALL {
        assert_eq!(slots.waiting(class), 0);
    }
}
