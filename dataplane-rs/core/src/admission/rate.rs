//! The bound on one source's requests a second, for all workers together.

use std::sync::atomic::{AtomicU64, Ordering};

/// A token bucket that refills steadily and holds one second's worth, at least one.
///
/// Its state is one word: the instant at which the bucket will be full again. That lets workers
/// share it without a lock. A fresh word is 0, a full bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    interval_ns: u64,
    depth_ns: u64,
}

impl Rate {
    /// `None`: no bound (zero, negative or not a number), or one so high that it bounds nothing.
    pub fn per_second(rate: f64) -> Option<Rate> {
        // From 10^9 on the interval is below the clock's own step.
        if !(rate > 0.0 && rate < 1e9) {
            return None;
        }
        // A float beyond u64 saturates: one in ages.
        let interval_ns = (1e9 / rate) as u64;
        let interval_ns = interval_ns.clamp(1, u64::MAX / 4);
        Some(Rate {
            interval_ns,
            depth_ns: interval_ns.max(1_000_000_000),
        })
    }

    /// One each `interval_ns`, and after a rest as many as `depth_ns` holds, at least one. `None`:
    /// no bound, an interval of 0.
    pub(super) fn every(interval_ns: u64, depth_ns: u64) -> Option<Rate> {
        (interval_ns > 0).then(|| Rate {
            interval_ns,
            depth_ns: depth_ns.max(interval_ns),
        })
    }

    /// The word after a request at `now_ns`, or how long until one is let through.
    pub fn next(&self, word: u64, now_ns: u64) -> Result<u64, u64> {
        let full_at = word.max(now_ns).saturating_add(self.interval_ns);
        let earliest = full_at.saturating_sub(self.depth_ns);
        if earliest > now_ns {
            Err(earliest - now_ns)
        } else {
            Ok(full_at)
        }
    }

    /// Takes a token, or says how many nanoseconds to wait for one.
    pub fn take(&self, word: &AtomicU64, now_ns: u64) -> Result<(), u64> {
        // The word guards nothing but itself.
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let next = self.next(seen, now_ns)?;
            match word.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(newer) => seen = newer,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_second_of_requests_passes_at_once_and_then_only_the_rate() {
        for rate in [1.0, 3.0, 10.0, 500.0] {
            let bucket = Rate::per_second(rate).unwrap();
            let word = AtomicU64::new(0);
            let start = 77 * SECOND;
            let burst = (0..10_000)
                .filter(|_| bucket.take(&word, start).is_ok())
                .count();
            assert!((burst as f64 - rate).abs() <= 1.0, "{rate}: {burst}");
            let steps = 10_000;
            let later = (1..=steps)
                .filter(|i| bucket.take(&word, start + i * 10 * SECOND / steps).is_ok())
                .count();
            assert!(
                (later as f64 - 10.0 * rate).abs() <= 2.0,
                "{rate}: {later} in ten seconds"
            );
        }
    }

    #[test]
    fn a_request_refused_is_let_through_after_the_wait_it_was_told() {
        let bucket = Rate::per_second(0.1).unwrap();
        let word = AtomicU64::new(0);
        assert_eq!(bucket.take(&word, 5 * SECOND), Ok(()));
        let wait = bucket.take(&word, 6 * SECOND).unwrap_err();
        assert_eq!(wait, 9 * SECOND);
        assert!(bucket.take(&word, 6 * SECOND + wait - 1).is_err());
        assert_eq!(bucket.take(&word, 6 * SECOND + wait), Ok(()));
    }

    #[test]
    fn a_rate_that_bounds_nothing_is_none() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert_eq!(Rate::per_second(rate), None, "{rate}");
        }
        assert!(Rate::per_second(1e-300).is_some());
    }
}
