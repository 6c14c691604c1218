//! When each request is due: a pure iterator over nanoseconds since the start.
//!
//! It knows nothing of connections or answers, which is the point of an open loop.

use std::time::Duration;

use crate::limits::{REQUESTS_MAX, STEPS_MAX};

/// A stretch of constant rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Requests per second; 0 is a pause.
    pub rate: f64,
    /// How long it holds.
    pub length: Duration,
}

/// Steps of constant rate, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    steps: Vec<Step>,
}

impl Schedule {
    /// Reads `5000` (held for `duration`) or a profile like `1000:5s,4000:20s`.
    pub fn parse(text: &str, duration: Duration) -> Result<Self, String> {
        let mut steps = Vec::new();
        for part in text.split(',') {
            let (rate, length) = match part.split_once(':') {
                Some((rate, length)) => (rate, crate::args::duration(length)?),
                None if !text.contains(',') => (part, duration),
                None => {
                    return Err(format!(
                        "--rate {text}: step {part} has no length, as 10:5s"
                    ));
                }
            };
            let rate: f64 = rate
                .parse()
                .map_err(|_| format!("--rate: {rate} is no number"))?;
            if !(rate >= 0.0 && rate.is_finite()) {
                return Err(format!("--rate {rate}: must not be under 0"));
            }
            steps.push(Step { rate, length });
        }
        if steps.len() > STEPS_MAX {
            return Err(format!(
                "--rate: {} steps, at most {STEPS_MAX}",
                steps.len()
            ));
        }
        let schedule = Self { steps };
        let count = schedule.count();
        if !(1..=REQUESTS_MAX).contains(&count) {
            return Err(format!(
                "--rate: {count} requests in all: 1 to {REQUESTS_MAX} can be sent"
            ));
        }
        Ok(schedule)
    }

    /// The whole length.
    pub fn length(&self) -> Duration {
        self.steps.iter().map(|step| step.length).sum()
    }

    /// How many requests the whole schedule has.
    pub fn count(&self) -> u64 {
        self.steps.iter().map(Step::count).sum()
    }

    /// The due times in nanoseconds since the start, ascending.
    pub fn ticks(&self) -> impl Iterator<Item = u64> + use<> {
        let mut from = 0u64;
        let starts: Vec<(u64, Step)> = self
            .steps
            .iter()
            .map(|step| {
                let at = from;
                from += step.length.as_nanos() as u64;
                (at, *step)
            })
            .collect();
        starts.into_iter().flat_map(|(at, step)| {
            (0..step.count()).map(move |i| at + (i as f64 * 1e9 / step.rate) as u64)
        })
    }
}

impl Step {
    fn count(&self) -> u64 {
        (self.rate * self.length.as_secs_f64()).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_rate_is_evenly_spaced_and_complete() {
        let schedule = Schedule::parse("1000", Duration::from_secs(2)).unwrap();
        let ticks: Vec<u64> = schedule.ticks().collect();
        assert_eq!(ticks.len(), 2000);
        assert_eq!(ticks[0], 0);
        assert_eq!(ticks[1999], 1_999_000_000);
        assert!(ticks.windows(2).all(|pair| pair[1] - pair[0] == 1_000_000));
    }

    #[test]
    fn a_profile_runs_its_steps_in_order() {
        let schedule = Schedule::parse("10:1s,1000:500ms,10:1s", Duration::ZERO).unwrap();
        assert_eq!(schedule.length(), Duration::from_millis(2500));
        assert_eq!(schedule.count(), 520);
        let ticks: Vec<u64> = schedule.ticks().collect();
        assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(ticks[10], 1_000_000_000);
        assert_eq!(ticks[510], 1_500_000_000);
    }

    #[test]
    fn a_rate_of_zero_is_a_pause() {
        let schedule = Schedule::parse("0:2s,10:1s", Duration::ZERO).unwrap();
        assert_eq!(schedule.count(), 10);
        assert_eq!(schedule.ticks().next(), Some(2_000_000_000));
    }

    #[test]
    fn a_rate_that_cannot_be_kept_is_refused() {
        for text in ["0", "0:5s", "-1", "many", "10:1s,20", "NaN", "1000000000"] {
            assert!(
                Schedule::parse(text, Duration::from_secs(10)).is_err(),
                "{text}"
            );
        }
    }
}
