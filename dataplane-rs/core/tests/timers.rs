//! The wheel against a map that is searched from the front.

mod seed;

use std::collections::BTreeMap;

use seed::Seed;
use sluice_core::limits::TIMER_TICK_SHIFT;
use sluice_core::timers::{Key, Wheel};

const TICK_NS: u64 = 1 << TIMER_TICK_SHIFT;

/// Due tick and number of each timer that is set.
#[derive(Default)]
struct Model {
    timers: BTreeMap<(u64, u64), Key>,
    now_tick: u64,
}

fn some_delay(seed: &mut Seed) -> u64 {
    match seed.below(8) {
        0 => 0,
        1..=3 => seed.below(100 * TICK_NS),
        4 | 5 => seed.below(10_000 * TICK_NS),
        6 => seed.below(1 << 45),
        _ => seed.below(1 << 62),
    }
}

#[test]
fn the_wheel_hands_out_what_a_sorted_map_would() {
    let mut seed = Seed::printed("the_wheel_hands_out_what_a_sorted_map_would");
    for round in 0..60 {
        let bits = seed.between(1, 62);
        let mut now_ns = seed.below(1 << bits);
        let mut wheel = Wheel::new(200, now_ns);
        let mut model = Model {
            now_tick: now_ns / TICK_NS,
            ..Model::default()
        };
        let mut gone: Vec<Key> = Vec::new();
        for number in 0..2000 {
            match seed.below(10) {
                0..=4 => set_one(&mut wheel, &mut model, &mut seed, now_ns, number),
                5 | 6 => {
                    let Some((&name, &key)) = seed.pick(&model.timers) else {
                        continue;
                    };
                    model.timers.remove(&name);
                    assert!(wheel.cancel(key));
                    gone.push(key);
                }
                7 => {
                    for &key in gone.iter().rev().take(5) {
                        assert!(!wheel.cancel(key), "a key that is gone cancelled a timer");
                    }
                }
                _ => {
                    now_ns = now_ns.saturating_add(some_delay(&mut seed) / 4);
                    drain(&mut wheel, &mut model, &mut gone, now_ns);
                }
            }
            assert_eq!(wheel.count(), model.timers.len(), "round {round}");
            let first = model.timers.keys().next().map(|&(tick, _)| tick);
            assert_eq!(wheel.next_ns().is_some(), first.is_some());
            if let (Some(next_ns), Some(first)) = (wheel.next_ns(), first) {
                assert!(
                    next_ns / TICK_NS <= first,
                    "the wheel would sleep past a timer"
                );
            }
        }
        drain(&mut wheel, &mut model, &mut gone, u64::MAX);
        assert!(model.timers.is_empty(), "left: {:?}", model.timers);
    }
}

fn set_one(wheel: &mut Wheel, model: &mut Model, seed: &mut Seed, now_ns: u64, number: u64) {
    let deadline_ns = now_ns.saturating_add(some_delay(seed));
    match wheel.set(deadline_ns, number) {
        Some(key) => {
            let tick = deadline_ns.div_ceil(TICK_NS).min(u64::MAX / TICK_NS);
            let tick = tick.max(model.now_tick);
            model.timers.insert((tick, number), key);
        }
        None => assert_eq!(model.timers.len(), 200, "full before its capacity"),
    }
}

fn drain(wheel: &mut Wheel, model: &mut Model, gone: &mut Vec<Key>, now_ns: u64) {
    let now_tick = now_ns / TICK_NS;
    let mut last_tick = 0;
    while let Some(number) = wheel.pop(now_ns) {
        let found = model.timers.iter().find(|((_, n), _)| *n == number);
        let (&(tick, _), &key) = found.expect("a timer that was not set");
        assert!(tick <= now_tick, "early: {tick} at {now_tick}");
        assert!(tick >= last_tick, "out of order");
        last_tick = tick;
        model.timers.remove(&(tick, number));
        gone.push(key);
    }
    let late = model.timers.range(..(now_tick + 1, 0)).next();
    assert!(late.is_none(), "not handed out at {now_tick}: {late:?}");
    model.now_tick = model.now_tick.max(now_tick);
}

#[test]
fn a_timer_set_while_others_fire_for_now_fires_in_the_same_turn() {
    let mut wheel = Wheel::new(4, 0);
    wheel.set(TICK_NS, 1).unwrap();
    assert_eq!(wheel.pop(TICK_NS), Some(1));
    wheel.set(TICK_NS, 2).unwrap();
    wheel.set(0, 3).unwrap();
    let mut both = [wheel.pop(TICK_NS), wheel.pop(TICK_NS)];
    both.sort();
    assert_eq!(both, [Some(2), Some(3)]);
    assert_eq!(wheel.pop(TICK_NS), None);
}

#[test]
fn a_clock_that_steps_back_fires_nothing_and_breaks_nothing() {
    let mut wheel = Wheel::new(4, 100 * TICK_NS);
    wheel.set(200 * TICK_NS, 7).unwrap();
    assert_eq!(wheel.pop(10 * TICK_NS), None);
    assert_eq!(wheel.pop(200 * TICK_NS), Some(7));
}
