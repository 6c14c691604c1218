//! Shares, against tokens as everybody would write them down.

mod offers;
mod seed;

use offers::{MS, NUMBERS, SECOND, Sole, offer, rounds};
use seed::Seed;
use sluice_core::admission::{Class, Numbers, Offer, Priority, Verdict};

/// A bucket of real tokens.
struct Tokens {
    level: f64,
    at_ns: u64,
}

impl Tokens {
    /// Whether an event is within the share, and how clear that is.
    fn pay(&mut self, now_ns: u64, rate: f64, priority: Priority) -> (bool, f64) {
        let cap = 2.0 + 0.2 * rate;
        let passed_s = (now_ns - self.at_ns) as f64 / SECOND as f64;
        self.level = (self.level + passed_s * rate).min(cap);
        self.at_ns = now_ns;
        let needed = match priority {
            Priority::High => {
                self.level = (self.level - 1.0).max(-(2.0 + rate));
                return (true, 1.0);
            }
            Priority::Default => 1.0,
            Priority::Low => 1.0 + cap / 2.0,
        };
        let margin = self.level - needed;
        (margin >= 0.0, margin.abs())
    }
}

fn is_over(class: Class) -> bool {
    matches!(class, Class::DefaultOverShare | Class::LowOverShare)
}

#[test]
fn a_share_is_a_bucket_in_which_low_leaves_half_and_high_owes() {
    let mut seed = Seed::printed("a_share_is_a_bucket_in_which_low_leaves_half_and_high_owes");
    for _ in 0..rounds(100) {
        let rate_milli = [10, 700, 5000, 123_456, 3_000_000][seed.index(5)];
        let rate = rate_milli as f64 / 1000.0;
        let mut sole = Sole::new(Numbers {
            limit: u64::MAX,
            share_rate_milli: rate_milli,
            ..NUMBERS
        });
        let mut tokens = [(); 3].map(|()| Tokens {
            level: 2.0 + 0.2 * rate,
            at_ns: 0,
        });
        // About as many as the share, or several times as many; events of all kinds draw on one
        // bucket, as those of a source do that is guarded now and then.
        let step_ns = (1e12 / rate_milli as f64) as u64;
        let step_ns = step_ns * seed.between(1, 12) / 10;
        let mut now_ns = SECOND;
        let (mut within, mut over) = (0, 0);
        for _ in 0..2000 {
            now_ns += seed.below(2 * step_ns / 3 + 1);
            let source = seed.index(3);
            let priority = match seed.below(8) {
                0 => Priority::High,
                1..=4 => Priority::Default,
                _ => Priority::Low,
            };
            let class = sole.offer(now_ns, &offer(1, priority, source as u16)).0;
            let (is_within, margin) = tokens[source].pay(now_ns, rate, priority);
            if margin > 1e-3 {
                assert_eq!(!is_over(class), is_within, "{priority:?} {margin} {rate}");
            }
            if !is_over(class) && priority != Priority::High {
                tokens[source].level -= 1.0;
            }
            *(if is_over(class) {
                &mut over
            } else {
                &mut within
            }) += 1;
        }
        assert!(within > 20, "{within} within, {over} over, {rate}");
    }
}

/// Events within the share in a second, offered each millisecond.
fn within(sole: &mut Sole, offer: &Offer, from_ns: u64, for_ns: u64) -> u64 {
    let mut within = 0;
    for now_ns in (from_ns..from_ns + for_ns).step_by(MS as usize) {
        within += u64::from(!is_over(sole.offer(now_ns, offer).0));
    }
    within
}

#[test]
fn over_a_long_time_a_source_has_its_share_and_no_more_at_any_rate() {
    for rate in [1, 7, 100, 400] {
        for priority in [Priority::Default, Priority::Low] {
            let mut sole = Sole::new(Numbers {
                limit: u64::MAX,
                share_rate_milli: 1000 * rate,
                ..NUMBERS
            });
            let offer = offer(1, priority, 3);
            within(&mut sole, &offer, SECOND, SECOND);
            let ten = within(&mut sole, &offer, 2 * SECOND, 10 * SECOND);
            assert!(ten.abs_diff(10 * rate) <= 1, "{ten} at {rate}");
            // What it had beyond that is still there for another source.
            let burst = within(&mut sole, &Offer { source: 4, ..offer }, 12 * SECOND, MS);
            assert_eq!(burst, 1);
        }
    }
}

#[test]
fn what_is_over_its_share_or_a_repeat_pays_nothing() {
    let mut sole = Sole::new(Numbers {
        limit: u64::MAX,
        share_rate_milli: 10_000,
        ..NUMBERS
    });
    let first = offer(1, Priority::Default, 0);
    for _ in 0..1000 {
        for priority in [Priority::Default, Priority::Low] {
            let repeat = Offer {
                repeat: true,
                priority,
                ..first
            };
            assert_eq!(sole.offer(SECOND, &repeat).0, Class::Repeat);
        }
    }
    let burst = (0..1000).filter(|_| !is_over(sole.offer(SECOND, &first).0));
    assert_eq!(burst.count(), 4);
    // A thousand that were over it have changed nothing: a tenth of a second gives one token.
    assert!(is_over(sole.offer(SECOND + 100 * MS - 1, &first).0));
    assert!(!is_over(sole.offer(SECOND + 100 * MS, &first).0));
    assert!(is_over(sole.offer(SECOND + 100 * MS, &first).0));
}

#[test]
fn an_own_low_event_never_takes_the_last_half_from_the_own_default_ones() {
    let mut sole = Sole::new(Numbers {
        limit: u64::MAX,
        share_rate_milli: 100_000,
        ..NUMBERS
    });
    let low = offer(1, Priority::Low, 0);
    let count = (0..100)
        .filter(|_| !is_over(sole.offer(SECOND, &low).0))
        .count();
    assert_eq!(count, 11);
    let default = offer(1, Priority::Default, 0);
    let count = (0..100)
        .filter(|_| !is_over(sole.offer(SECOND, &default).0))
        .count();
    assert_eq!(count, 11);
}

#[test]
fn a_debt_of_high_is_bounded_and_paid_back() {
    let rate = 50;
    let mut sole = Sole::new(Numbers {
        limit: u64::MAX,
        share_rate_milli: 1000 * rate,
        ..NUMBERS
    });
    let high = offer(1, Priority::High, 0);
    for _ in 0..10_000 {
        assert_eq!(sole.offer(SECOND, &high), (Class::High, Verdict::Admit));
    }
    // A debt of 2 and what comes in a second; then Default needs one, and Low half of 12 and one.
    for (priority, tokens) in [(Priority::Default, 1), (Priority::Low, 7)] {
        let end_ns = SECOND + (2 + rate + tokens) * SECOND / rate;
        assert!(is_over(sole.offer(end_ns - 1, &offer(1, priority, 0)).0));
        assert!(!is_over(sole.offer(end_ns, &offer(1, priority, 0)).0));
        // Once more, with repeats: a source of priority high pays for all that it sends.
        sole = Sole::new(sole.numbers);
        for _ in 0..10_000 {
            let repeat = Offer {
                repeat: true,
                ..high
            };
            assert_eq!(sole.offer(SECOND, &repeat).0, Class::High);
        }
    }
}

#[test]
fn a_share_that_rises_or_ends_is_felt_within_two_seconds() {
    let mut sole = Sole::new(Numbers {
        limit: u64::MAX,
        share_rate_milli: 1,
        ..NUMBERS
    });
    let default = offer(1, Priority::Default, 0);
    for _ in 0..10 {
        sole.offer(SECOND, &default);
    }
    assert!(is_over(sole.offer(100 * SECOND, &default).0));
    // A thousand seconds of the old rate are owed; at the new one that is nothing.
    sole.numbers.share_rate_milli = 100_000;
    within(&mut sole, &default, 100 * SECOND, 2 * SECOND);
    let second = within(&mut sole, &default, 102 * SECOND, SECOND);
    assert!((99..=101).contains(&second), "{second}");
    sole.numbers.share_rate_milli = 0;
    assert_eq!(within(&mut sole, &default, 103 * SECOND, SECOND), 1000);
}
