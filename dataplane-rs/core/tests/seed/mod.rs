//! Random choices for tests, from a seed that is printed and can be given back.

#![allow(dead_code)] // Each test file uses its own part.

use std::collections::BTreeMap;

/// Splitmix64.
pub struct Seed(u64);

impl Seed {
    /// A seed of `SLUICE_SEED`, or of the time; printed, so that a failed test shows it.
    pub fn printed(test: &str) -> Seed {
        let given = std::env::var("SLUICE_SEED")
            .ok()
            .and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let now = std::time::SystemTime::now();
            now.duration_since(std::time::UNIX_EPOCH)
                .map_or(1, |age| age.as_nanos() as u64)
        });
        println!("{test}: SLUICE_SEED={seed}");
        Seed(seed)
    }

    /// One that another seed has given.
    pub fn of(seed: u64) -> Seed {
        Seed(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub fn index(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    pub fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    pub fn pick<'a, K, V>(&mut self, map: &'a BTreeMap<K, V>) -> Option<(&'a K, &'a V)> {
        if map.is_empty() {
            None
        } else {
            map.iter().nth(self.index(map.len()))
        }
    }
}
