//! When a sender that was shed should come again.

use crate::limits;

const SECOND_NS: u64 = 1_000_000_000;

/// Random numbers that spread retries; not for secrets. Splitmix64, seeded by the caller.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Jitter {
        Jitter(seed)
    }

    /// `Retry-After` of a request shed by an overload that began at `since_ns` (0: just now), in
    /// seconds: uniform in [b, 4b], b being the overload's age within its bounds. The width is what
    /// flattens the wave of retries after it.
    pub fn retry_after_s(&mut self, now_ns: u64, since_ns: u64) -> u32 {
        let age_ns = if since_ns == 0 {
            0
        } else {
            now_ns.saturating_sub(since_ns)
        };
        let base_s = (age_ns / SECOND_NS).clamp(
            limits::RETRY_AFTER_BASE_S_MIN,
            limits::RETRY_AFTER_BASE_S_MAX,
        );
        self.between(base_s, 4 * base_s)
    }

    /// `Retry-After` of a request over its source's rate that would pass in `wait_ns`.
    pub fn retry_after_rate_s(&mut self, wait_ns: u64) -> u32 {
        let base_s = wait_ns
            .div_ceil(SECOND_NS)
            .clamp(1, limits::RETRY_AFTER_BASE_S_MAX);
        self.between(base_s, 4 * base_s)
    }

    /// `Retry-After` while the journal takes nothing: never earlier than its base, up to a fifth
    /// later.
    pub fn retry_after_journal_s(&mut self) -> u32 {
        let base_s = limits::RETRY_AFTER_JOURNAL_S;
        self.between(base_s, base_s + base_s / 5)
    }

    /// Bounds here are a few hundred, so the skew of the remainder is nothing.
    fn between(&mut self, low: u64, high: u64) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (low + z % (high - low + 1)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_is_spread_from_one_to_four_times_the_age_of_the_overload() {
        for (age_s, base_s) in [(0, 5), (3, 5), (20, 20), (60, 60), (3600, 60)] {
            let mut jitter = Jitter::new(age_s);
            let since_ns = 100 * SECOND_NS;
            let now_ns = since_ns + age_s * SECOND_NS;
            let mut seen = vec![0u32; 4 * base_s as usize + 1];
            for _ in 0..100_000 {
                seen[jitter.retry_after_s(now_ns, since_ns) as usize] += 1;
            }
            let (before, inside) = seen.split_at(base_s as usize);
            assert!(before.iter().all(|&n| n == 0), "earlier than {base_s}");
            assert!(
                inside.iter().all(|&n| n > 0),
                "a second of [{base_s}, 4×] never came"
            );
        }
    }

    #[test]
    fn an_overload_that_is_not_known_yet_counts_as_young() {
        let mut jitter = Jitter::new(1);
        assert!((0..1000).all(|_| (5..=20).contains(&jitter.retry_after_s(u64::MAX, 0))));
    }
}
