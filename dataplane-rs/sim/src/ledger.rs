//! What happened, kept so that any metric can be computed at the end.

use sluice_core::admission::Class;

/// Length of a window. Phases are whole numbers of windows.
pub const WINDOW_NS: u64 = 200_000_000;

/// What an attempt is to those who look at the order of shedding. Unlike its class it does not
/// depend on what the data plane knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of a source of priority high.
    High,
    /// Of default priority, never tried again.
    NeverRetries,
    /// Of default priority, the first try.
    Default,
    /// Of default priority, a later try.
    Repeat,
    /// Of a source of priority low.
    Low,
    /// Handshakes and probes.
    Other,
}

impl Kind {
    /// How many there are.
    pub const COUNT: usize = 6;
}

/// Times in microseconds.
pub type Times = Vec<u32>;

/// The attempts of one group of sources that came in one phase.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// By [`Kind`].
    pub offered: [u64; Kind::COUNT],
    /// Refused before a slot was taken.
    pub shed: [u64; Kind::COUNT],
    /// Answered well and in time.
    pub good: u64,
    /// Answered well and later than that.
    pub late: u64,
    /// Given a slot.
    pub admitted: u64,
    /// Of these: no good answer before the end of the sender's budget.
    pub missed: u64,
    /// Of these: given up by the store.
    pub dropped: u64,
    /// Of the admitted: waited for a slot.
    pub hold: Times,
    /// From the slot to durable.
    pub slot: Times,
    /// Both.
    pub total: Times,
    /// What the refused were told, seconds.
    pub retry_after: Vec<u32>,
    /// Events that came first in it and are settled: taken in the end, or given up by their sender.
    pub settled: u64,
    /// Of these: taken.
    pub delivered: u64,
    /// Tries of the events that are settled.
    pub tries: u64,
}

impl Part {
    /// Adds another one.
    pub fn add(&mut self, other: &Part) {
        for kind in 0..Kind::COUNT {
            self.offered[kind] += other.offered[kind];
            self.shed[kind] += other.shed[kind];
        }
        self.good += other.good;
        self.late += other.late;
        self.admitted += other.admitted;
        self.missed += other.missed;
        self.dropped += other.dropped;
        self.hold.extend_from_slice(&other.hold);
        self.slot.extend_from_slice(&other.slot);
        self.total.extend_from_slice(&other.total);
        self.retry_after.extend_from_slice(&other.retry_after);
        self.settled += other.settled;
        self.delivered += other.delivered;
        self.tries += other.tries;
    }
}

/// 200 ms of the whole.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Events (no handshakes, no probes) that came, later tries included.
    pub offered: u64,
    /// Of these: answered well and in time, whenever.
    pub came_good: u64,
    /// Answered well and in time in this window.
    pub good: u64,
    /// What the store could have taken.
    pub capacity: f64,
    /// Refused in this window, by class.
    pub shed: [u64; Class::COUNT],
    /// In force at its end.
    pub limit: u64,
    /// Without the alternation.
    pub base: f64,
    /// At its end.
    pub inflight: u64,
    /// At its end.
    pub held: u64,
    /// At its end, a bit per class.
    pub overloaded: u64,
    /// At its end.
    pub hold_bound_ns: u64,
    /// At its end, requests a second; 0: none.
    pub share_rate: f64,
    /// Slot times of those that became durable in it.
    pub slot: Times,
    /// Hold and slot.
    pub total: Times,
}

/// What one source met in one phase.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourcePart {
    /// Attempts that came.
    pub offered: u64,
    /// Of these: answered well and in time.
    pub good: u64,
}

/// All of it.
#[derive(Debug)]
pub struct Ledger {
    /// By phase and group.
    pub parts: Vec<Vec<Part>>,
    /// By phase and source slot.
    pub sources: Vec<Vec<SourcePart>>,
    /// From the beginning on.
    pub windows: Vec<Window>,
    /// Offered, by class.
    pub class_offered: [u64; Class::COUNT],
    /// Shed, by class.
    pub class_shed: [u64; Class::COUNT],
    /// Admitted by the floor.
    pub floored: u64,
    /// By source slot: refusals in a row now, and the most of them.
    pub in_row: Vec<(u64, u64)>,
    /// Sources that their provider gave up.
    pub deleted: u64,
    /// Rules of admission that were broken: a reason and when.
    pub broken: Vec<(u64, String)>,
}
