//! How much of the slots was used, as the controller needs it.

use crate::limits;

/// Integrates the slots that are taken. Between two readings nothing has changed as long as each
/// worker has it read before it changes something.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Counted up to here; `None`: not begun.
    metered_ns: Option<u64>,
    /// Of the span of time with this number, and of the one before.
    peak: u64,
    peak_before: u64,
    span: u64,
}

/// What one reading adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) metered_ns: u64,
    pub(super) area_ns: u64,
    pub(super) saturated_ns: u64,
    pub(super) peak: u64,
}

impl Meter {
    /// `peak` is the most slots taken at once since the last reading. A clock that is behind the
    /// last one adds nothing.
    pub(super) fn read(&mut self, now_ns: u64, inflight: u64, limit: u64, peak: u64) -> Reading {
        let since_ns = self.metered_ns.unwrap_or(now_ns);
        let metered_ns = since_ns.max(now_ns);
        self.metered_ns = Some(metered_ns);
        let added_ns = metered_ns - since_ns;
        let span = metered_ns / limits::PEAK_NS;
        if span != self.span {
            let is_next = span == self.span + 1;
            self.peak_before = if is_next { self.peak } else { 0 };
            (self.peak, self.span) = (0, span);
        }
        self.peak = self.peak.max(peak).max(inflight);
        Reading {
            metered_ns,
            area_ns: added_ns.saturating_mul(inflight),
            saturated_ns: if inflight >= limit { added_ns } else { 0 },
            peak: self.peak.max(self.peak_before),
        }
    }
}
