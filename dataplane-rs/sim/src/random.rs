//! Seeded random numbers, a stream for each purpose.

/// One stream (xoshiro256++). Streams of one seed do not disturb each other: a scenario's arrivals
/// stay the same whatever the store and the limiter do.
#[derive(Clone, Debug)]
pub struct Random([u64; 4]);

impl Random {
    /// The stream of that number.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut word = seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03);
        Random(std::array::from_fn(|_| {
            word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = word;
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        }))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let word = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        word
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [0, n).
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// An index, as often as its weight has it.
    pub fn pick(&mut self, weights: &[f64]) -> usize {
        let mut left = self.unit() * weights.iter().sum::<f64>();
        let found = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        found.unwrap_or(0)
    }

    /// Exponential of mean 1: the time between two arrivals of a Poisson process.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Lognormal of mean 1; sigma 0 is the constant 1.
    pub fn lognormal(&mut self, sigma: f64) -> f64 {
        if sigma == 0.0 {
            return 1.0;
        }
        let radius = (2.0 * self.exponential()).sqrt();
        let z = radius * (std::f64::consts::TAU * self.unit()).cos();
        (sigma * z - sigma * sigma / 2.0).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_means_are_what_they_are_said_to_be() {
        let mut random = Random::new(1, 2);
        let n = 200_000;
        for (what, sigma) in [("exponential", 0.0), ("lognormal", 0.3), ("wide", 1.2)] {
            let mut draw = || match what {
                "exponential" => random.exponential(),
                _ => random.lognormal(sigma),
            };
            let mean = (0..n).map(|_| draw()).sum::<f64>() / f64::from(n);
            assert!((mean - 1.0).abs() < 0.03, "{what}: {mean}");
        }
        let mean = (0..n).map(|_| random.below(10) as f64).sum::<f64>() / f64::from(n);
        assert!((mean - 4.5).abs() < 0.05, "below: {mean}");
    }

    #[test]
    fn a_stream_is_its_seed_and_its_number() {
        let first = |seed, stream| Random::new(seed, stream).bits();
        assert_eq!(first(7, 1), first(7, 1));
        assert_ne!(first(7, 1), first(7, 2));
        assert_ne!(first(7, 1), first(8, 1));
    }
}
