//! The filter of repeats.

mod seed;

use std::collections::HashSet;

use seed::Seed;
use sluice_core::admission::RepeatFilter;
use sluice_core::limits::{REPEAT_ENTRIES_MAX, REPEAT_WINDOW_NS};

const SECOND: u64 = 1_000_000_000;

fn id(number: u64) -> [u8; 36] {
    let text = format!(
        "{number:08x}-e1ec-4229-aaa5-{:012x}",
        number.wrapping_mul(77)
    );
    text.as_bytes().try_into().unwrap()
}

#[test]
fn what_was_seen_is_known_and_what_was_not_is_new() {
    let mut seed = Seed::printed("what_was_seen_is_known_and_what_was_not_is_new");
    let filter = RepeatFilter::new(1 << 16, seed.next());
    // An eighth full: one place in six thousand has more than its four, and those lose all of them.
    let count = 1 << 13;
    let first = (0..count).filter(|&n| !filter.seen_before(3, &id(n), SECOND));
    assert_eq!(first.count(), count as usize);
    let again = (0..count).filter(|&n| filter.seen_before(3, &id(n), 2 * SECOND));
    let known = again.count();
    assert!(known >= count as usize * 99 / 100, "{known} of {count}");
    // The same ids of another source are others.
    let other = (0..count).filter(|&n| filter.seen_before(4, &id(n), 2 * SECOND));
    assert_eq!(other.count(), 0);
}

#[test]
fn a_full_filter_takes_no_new_id_for_an_old_one_and_keeps_the_newest() {
    let mut seed = Seed::printed("a_full_filter_takes_no_new_id_for_an_old_one");
    let entries = 1 << 12;
    let filter = RepeatFilter::new(entries, seed.next());
    let mistaken = (0..1_000_000)
        .filter(|&n| filter.seen_before(0, &id(n), (n + 1) * SECOND / 1000))
        .count();
    // Four entries of 32 bits are met each time: 0.001 in the mean, and once in 10¹⁰ runs three.
    assert!(mistaken <= 2, "{mistaken}");
    let newest = entries as u64 / 4;
    let known = (1_000_000 - newest..1_000_000)
        .filter(|&n| filter.seen_before(0, &id(n), 1000 * SECOND))
        .count();
    assert!(known as u64 > newest * 9 / 10, "{known} of {newest}");
}

#[test]
fn an_id_is_forgotten_an_hour_after_it_was_seen_last() {
    let filter = RepeatFilter::new(64, 1);
    let unit = 1 << 31;
    let mut now_ns = SECOND;
    assert!(!filter.seen_before(0, b"a", now_ns));
    for _ in 0..5 {
        now_ns += REPEAT_WINDOW_NS - unit;
        assert!(filter.seen_before(0, b"a", now_ns));
    }
    now_ns += REPEAT_WINDOW_NS + unit;
    assert!(!filter.seen_before(0, b"a", now_ns));
    assert!(filter.seen_before(0, b"a", now_ns));
}

#[test]
fn one_that_was_forgotten_makes_room_before_one_that_was_not() {
    // One place of four.
    let filter = RepeatFilter::new(1, 9);
    let minute = 60 * SECOND;
    for n in 0..4 {
        assert!(!filter.seen_before(0, &id(n), (n + 1) * minute));
    }
    assert!(filter.seen_before(0, &id(0), 5 * minute));
    assert!(!filter.seen_before(0, &id(9), 6 * minute));
    for (n, known) in [(0, true), (2, true), (3, true), (9, true), (1, false)] {
        assert_eq!(filter.seen_before(0, &id(n), 7 * minute), known, "{n}");
    }
}

#[test]
fn a_clock_that_stands_still_or_jumps_breaks_nothing() {
    let mut seed = Seed::printed("a_clock_that_stands_still_or_jumps_breaks_nothing");
    let filter = RepeatFilter::new(256, seed.next());
    for _ in 0..100_000 {
        let now_ns = match seed.below(4) {
            0 => 0,
            1 => u64::MAX - seed.below(3),
            2 => seed.next(),
            _ => seed.below(100) * SECOND,
        };
        let id = id(seed.below(2000));
        filter.seen_before(seed.below(3) as u16, &id, now_ns);
        filter.seen_before(1, b"twice", now_ns);
        assert!(filter.seen_before(1, b"twice", now_ns));
    }
    // One whose entry is ahead of the clock is known.
    let filter = RepeatFilter::new(256, seed.next());
    assert!(!filter.seen_before(0, b"a", 100_000 * SECOND));
    assert!(filter.seen_before(0, b"a", 5 * SECOND));
    assert!(filter.seen_before(0, b"a", 0));
}

#[test]
fn where_an_id_falls_depends_on_the_seed() {
    let crowded = |seed: u64| -> HashSet<u64> {
        let filter = RepeatFilter::new(64, seed);
        for n in 0..100 {
            filter.seen_before(0, &id(n), SECOND);
        }
        // Last to first, so that a look pushes out what was looked at already.
        (0..100)
            .rev()
            .filter(|&n| filter.seen_before(0, &id(n), SECOND))
            .collect()
    };
    let mut seed = Seed::printed("where_an_id_falls_depends_on_the_seed");
    let (one, other) = (seed.next(), seed.next());
    assert_eq!(crowded(one), crowded(one));
    assert_ne!(crowded(one), crowded(other));
}

#[test]
fn its_size_is_what_was_asked_for_within_bounds() {
    for (entries, expected) in [(0, 4), (1, 4), (5, 8), (1000, 1000)] {
        let filter = format!("{:?}", RepeatFilter::new(entries, 0));
        assert!(
            filter.contains(&format!("entries: {expected} ")),
            "{filter}"
        );
    }
    let most = format!("{:?}", RepeatFilter::new(usize::MAX, 0));
    assert!(
        most.contains(&format!("entries: {REPEAT_ENTRIES_MAX} ")),
        "{most}"
    );
}
