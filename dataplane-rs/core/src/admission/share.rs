//! A source's share of what the store can take, for all workers together.

use std::sync::atomic::{AtomicU64, Ordering};

use super::class::Priority;
use crate::limits;

/// A token bucket as in [`super::Rate`]: its state is the instant at which it will be full again,
/// so a fresh word, 0, is a full one. Here the rate changes all the time, and what counts is how
/// full the bucket must be: a source's own low events leave half of it to the others.
///
/// A word keeps a lack of tokens as time, so the same lack is more tokens at a higher rate. After a
/// rise it is cut to the most that the new rate allows, or a source would pay for minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Time of one token.
    interval_ns: u64,
    /// Time in which an empty bucket becomes full.
    depth_ns: u64,
}

impl Share {
    /// `None`: no bound is in force.
    pub(super) fn new(rate_milli: u64) -> Option<Share> {
        let interval_ns = 1_000_000_000_000u64.checked_div(rate_milli)?.max(1);
        Some(Share {
            interval_ns,
            depth_ns: limits::SHARE_BURST_EVENTS * interval_ns + limits::SHARE_BURST_NS,
        })
    }

    /// Whether an event is within the share. If so, it has paid its token.
    pub(super) fn pay(&self, word: &AtomicU64, now_ns: u64, priority: Priority) -> bool {
        // The word guards nothing but itself.
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let lack_ns = self.lack(seen, now_ns);
            let is_within = self.covers(lack_ns, priority);
            let after_ns = match is_within {
                true => (lack_ns + self.interval_ns).min(self.lack_max()),
                false => lack_ns,
            };
            let next = now_ns.saturating_add(after_ns);
            if next == seen {
                return is_within;
            }
            match word.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return is_within,
                Err(newer) => seen = newer,
            }
        }
    }

    /// As [`Share::pay`], but nothing is paid.
    pub(super) fn has(&self, word: &AtomicU64, now_ns: u64, priority: Priority) -> bool {
        let lack_ns = self.lack(word.load(Ordering::Relaxed), now_ns);
        self.covers(lack_ns, priority)
    }

    /// How far the bucket is from full, as time.
    fn lack(&self, word: u64, now_ns: u64) -> u64 {
        word.saturating_sub(now_ns).min(self.lack_max())
    }

    /// The lack at which the debt of a source of priority high no longer grows.
    fn lack_max(&self) -> u64 {
        self.depth_ns + limits::SHARE_DEBT_EVENTS * self.interval_ns + limits::SHARE_DEBT_NS
    }

    fn covers(&self, lack_ns: u64, priority: Priority) -> bool {
        let most_ns = match priority {
            Priority::High => return true,
            Priority::Default => self.depth_ns,
            Priority::Low => self.depth_ns - self.depth_ns / 2,
        };
        lack_ns + self.interval_ns <= most_ns
    }
}
