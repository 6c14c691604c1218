//! What all workers of a data plane share: the slots, who waits for one where, and the sources.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};

use super::Numbers;
use super::class::Class;
use super::hold::Grant;
use super::meter::Meter;
use super::overload::{ByClass, Detector, Queues};
use super::rate::Rate;
use crate::limits;

/// The slots that are taken and all else that the workers of a data plane decide by together.
///
/// Whoever frees a slot looks for waiters afterwards, and whoever begins to wait looks for a slot
/// afterwards. One of the two sees the other, since these words have one order for all workers.
/// Everything else is relaxed: it guards nothing but itself.
///
/// States: slots are taken and given back by [`super::Admission`] alone; who is overloaded changes
/// in [`Slots::pulse`] alone. A crash loses all of it together with the requests that it was about.
pub struct Slots {
    taken: Line<Taken>,
    /// Requests held, by class: all, and those of them that wait for a slot.
    held: Line<[AtomicU64; Class::COUNT]>,
    waiting: Line<[AtomicU64; Class::COUNT]>,
    /// The workers at which anybody waits for a slot, a bit each.
    places: Line<[AtomicU64; Class::COUNT]>,
    /// The last instant at which one was held of a class of which nobody was.
    begun_ns: Line<[AtomicU64; Class::COUNT]>,
    overload: Line<Overload>,
    buckets: Line<Buckets>,
    wakes: Line<Wakes>,
    sources: Box<[Line<Source>]>,
    pulse: Mutex<(Meter, Detector)>,
}

/// Words that change together, apart from all others.
#[derive(Default)]
#[repr(align(64))]
struct Line<T>(T);

#[derive(Default)]
struct Taken {
    inflight: AtomicU64,
    /// Most slots taken at once since the last pulse.
    peak: AtomicU64,
}

/// Written by a pulse.
#[derive(Default)]
struct Overload {
    classes: AtomicU64,
    since_ns: AtomicU64,
}

struct Buckets {
    floor: AtomicU64,
    pace: AtomicU64,
    shortest_hold_ns: AtomicU64,
}

#[derive(Default)]
struct Wakes {
    /// The workers that were named to be woken and have not looked yet, a bit each.
    named: AtomicU64,
    last: AtomicU64,
}

#[derive(Default)]
struct Source {
    share: AtomicU64,
    floor: AtomicU64,
    refused_in_row: AtomicU64,
    last_success_ns: AtomicU64,
}

/// How a source has fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Refusals since its last success.
    pub refused_in_row: u64,
    /// Boot clock; 0: none yet.
    pub last_success_ns: u64,
}

/// What one [`Slots::pulse`] has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Boot clock: the next two count up to here.
    pub metered_ns: u64,
    /// Slots taken × time, since the last pulse.
    pub area_ns: u64,
    /// Time with all slots of the limit taken, since the last pulse.
    pub saturated_ns: u64,
    /// Slots that are taken.
    pub inflight: u64,
    /// Requests that are held.
    pub held: u64,
    /// Most slots taken at once in the last 100 to 200 ms.
    pub peak: u64,
    /// The classes that are overloaded, as [`Class::bit`] has it.
    pub overloaded: u64,
    /// Since when the first of them is; 0: none.
    pub overload_since_ns: u64,
}

impl Slots {
    /// For `workers` from 1 to [`limits::WORKERS_MAX`], numbered from 0, and `sources` slots of
    /// sources, from 0.
    pub fn new(workers: usize, sources: usize) -> Slots {
        assert!((1..=limits::WORKERS_MAX).contains(&workers));
        assert!(sources <= limits::SOURCES_MAX);
        Slots {
            taken: Line::default(),
            held: Line::default(),
            waiting: Line::default(),
            places: Line::default(),
            begun_ns: Line::default(),
            overload: Line::default(),
            buckets: Line(Buckets {
                floor: AtomicU64::new(0),
                pace: AtomicU64::new(0),
                shortest_hold_ns: AtomicU64::new(u64::MAX),
            }),
            wakes: Line::default(),
            sources: (0..sources).map(|_| Line::default()).collect(),
            pulse: Mutex::default(),
        }
    }

    /// Slots that are taken.
    pub fn inflight(&self) -> u64 {
        self.taken.0.inflight.load(Ordering::SeqCst)
    }

    /// Requests held by all workers, those that wait for room in their lane included.
    pub fn held(&self) -> u64 {
        let held = self.held.0.iter();
        held.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Requests of a class that wait for a slot, at all workers.
    pub fn waiting(&self, class: Class) -> u64 {
        self.waiting.0[class as usize].load(Ordering::SeqCst)
    }

    /// The classes that are overloaded, as [`Class::bit`] has it.
    pub fn overloaded(&self) -> u64 {
        self.overload.0.classes.load(Ordering::Relaxed)
    }

    /// Since when a class is overloaded; 0: none is.
    pub fn overload_since_ns(&self) -> u64 {
        self.overload.0.since_ns.load(Ordering::Relaxed)
    }

    /// Reads the meter and judges who is overloaded. Each worker calls it once a turn, before it
    /// changes anything. `None`: another worker is at it in this instant, and nothing is lost. Who
    /// publishes a pulse must do both under a lock of its own, or an older one is published last.
    ///
    /// `counts` is how many requests were offered and how many of these shed, by class, of all
    /// workers since the beginning; it is asked only when that matters.
    pub fn pulse(
        &self,
        now_ns: u64,
        numbers: &Numbers,
        counts: impl FnOnce() -> (ByClass, ByClass),
    ) -> Option<Pulse> {
        let mut guard = match self.pulse.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let (meter, detector) = &mut *guard;
        let inflight = self.inflight();
        let peak = self.taken.0.peak.swap(inflight, Ordering::Relaxed);
        let reading = meter.read(now_ns, inflight, numbers.limit, peak);
        let queues = self.queues(numbers);
        let (overloaded, since_ns) = detector.judge(now_ns, numbers, &queues, counts);
        self.overload.0.classes.store(overloaded, Ordering::Relaxed);
        self.overload.0.since_ns.store(since_ns, Ordering::Relaxed);
        Some(Pulse {
            metered_ns: reading.metered_ns,
            area_ns: reading.area_ns,
            saturated_ns: reading.saturated_ns,
            inflight,
            held: queues.held.iter().sum(),
            peak: reading.peak,
            overloaded,
            overload_since_ns: since_ns,
        })
    }

    fn queues(&self, numbers: &Numbers) -> Queues {
        let read = |words: &[AtomicU64; Class::COUNT]| {
            Class::ALL.map(|class| words[class as usize].load(Ordering::Relaxed))
        };
        let shortest_hold_ns = (numbers.codel_target_ns > 0).then(|| {
            let word = &self.buckets.0.shortest_hold_ns;
            word.swap(u64::MAX, Ordering::Relaxed)
        });
        Queues {
            held: read(&self.held.0),
            begun_ns: read(&self.begun_ns.0),
            shortest_hold_ns: shortest_hold_ns.filter(|&hold_ns| hold_ns < u64::MAX),
        }
    }

    /// An event of the source was answered with 2xx.
    pub fn succeeded(&self, source: u16, now_ns: u64) {
        let source = self.source(source);
        source
            .last_success_ns
            .fetch_max(now_ns.max(1), Ordering::Relaxed);
        if source.refused_in_row.load(Ordering::Relaxed) > 0 {
            source.refused_in_row.store(0, Ordering::Relaxed);
        }
    }

    /// A request of the source was answered so that its sender counts a failure.
    pub fn refused(&self, source: u16) {
        self.source(source)
            .refused_in_row
            .fetch_add(1, Ordering::Relaxed);
    }

    /// How a source has fared.
    pub fn standing(&self, source: u16) -> Standing {
        let source = self.source(source);
        Standing {
            refused_in_row: source.refused_in_row.load(Ordering::Relaxed),
            last_success_ns: source.last_success_ns.load(Ordering::Relaxed),
        }
    }

    /// Takes up what an earlier data plane has counted, unless the source has fared somehow here.
    pub fn seed_standing(&self, source: u16, refused_in_row: u64) {
        let source = self.source(source);
        if source.last_success_ns.load(Ordering::Relaxed) == 0 {
            let word = &source.refused_in_row;
            // If it is not 0 any more, what was counted here stands.
            let _ = word.compare_exchange(0, refused_in_row, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn source(&self, source: u16) -> &Source {
        &self.sources[usize::from(source)].0
    }

    /// The word of a source's share bucket.
    pub(super) fn share(&self, source: u16) -> &AtomicU64 {
        &self.source(source).share
    }

    /// Takes a slot if fewer than `bound` are taken.
    pub(super) fn take(&self, bound: u64) -> bool {
        let Taken { inflight, peak } = &self.taken.0;
        let mut seen = inflight.load(Ordering::SeqCst);
        while seen < bound {
            let next = seen + 1;
            match inflight.compare_exchange_weak(seen, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => {
                    if peak.load(Ordering::Relaxed) < next {
                        peak.fetch_max(next, Ordering::Relaxed);
                    }
                    return true;
                }
                Err(newer) => seen = newer,
            }
        }
        false
    }

    /// Takes a slot and, if slots are paced, a token for it.
    pub(super) fn take_paced(&self, now_ns: u64, numbers: &Numbers, bound: u64) -> bool {
        let Some(pace) = Rate::every(numbers.pace_interval_ns, numbers.pace_depth_ns) else {
            return self.take(bound);
        };
        let word = &self.buckets.0.pace;
        if pace.next(word.load(Ordering::Relaxed), now_ns).is_err() || !self.take(bound) {
            return false;
        }
        let is_paid = pace.take(word, now_ns).is_ok();
        if !is_paid {
            self.give();
        }
        is_paid
    }

    /// Whether the floor has a token for a source. `comes_last` leaves the last half of all
    /// sources' tokens to others.
    pub(super) fn has_floor(
        &self,
        now_ns: u64,
        source: u16,
        comes_last: bool,
        numbers: &Numbers,
    ) -> bool {
        let Some([each, all]) = floor_rates(numbers) else {
            return false;
        };
        let [each_word, all_word] = self.floor_words(source);
        let has =
            |rate: Rate, word: &AtomicU64| rate.next(word.load(Ordering::Relaxed), now_ns).is_ok();
        let lack_ns = all_word.load(Ordering::Relaxed).saturating_sub(now_ns);
        has(each, each_word)
            && has(all, all_word)
            && !(comes_last && lack_ns >= limits::FLOOR_DEPTH_NS / 2)
    }

    /// Takes a token of the source's and one of all sources' together. Who has looked before pays
    /// nothing for being turned down; between workers the look may fail, and then costs a token.
    pub(super) fn pay_floor(&self, now_ns: u64, source: u16, numbers: &Numbers) -> bool {
        let Some([each, all]) = floor_rates(numbers) else {
            return false;
        };
        let [each_word, all_word] = self.floor_words(source);
        each.take(each_word, now_ns).is_ok() && all.take(all_word, now_ns).is_ok()
    }

    fn floor_words(&self, source: u16) -> [&AtomicU64; 2] {
        [&self.source(source).floor, &self.buckets.0.floor]
    }

    /// Takes a slot of the floor's, of which there are some beyond the limit. `comes_last` leaves
    /// half of them to others: what it has may stay taken for as long as the store stands still.
    pub(super) fn take_floor(&self, comes_last: bool, numbers: &Numbers) -> bool {
        let slots = match comes_last {
            true => numbers.floor_slots.div_ceil(2),
            false => numbers.floor_slots,
        };
        self.take(numbers.limit.saturating_add(slots))
    }

    /// Gives a slot back.
    pub(super) fn give(&self) {
        let before = self.taken.0.inflight.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "a slot was given back twice");
    }

    /// Whether anybody of `class` or above waits for a slot, at any worker.
    pub(super) fn waits_up_to(&self, class: Class) -> bool {
        let up_to = &self.waiting.0[..=class as usize];
        up_to.iter().any(|count| count.load(Ordering::SeqCst) > 0)
    }

    /// One more request of a class is held.
    pub(super) fn hold(&self, class: Class, now_ns: u64) {
        let count = &self.held.0[class as usize];
        // Before it counts, or a pulse could meet a queue with the age of the one before.
        if count.load(Ordering::Relaxed) == 0 {
            self.begun_ns.0[class as usize].fetch_max(now_ns, Ordering::Relaxed);
        }
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// One less.
    pub(super) fn unhold(&self, class: Class) {
        self.held.0[class as usize].fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether more requests of lower classes than `class` are held than there are beyond what may
    /// be: those leave for one of it.
    pub(super) fn holds_below(&self, class: Class, max_held: u64) -> bool {
        let held = |counts: &[AtomicU64]| -> u64 {
            let counts = counts.iter();
            counts.map(|count| count.load(Ordering::Relaxed)).sum()
        };
        let (rest, below) = self.held.0.split_at(class as usize + 1);
        let below = held(below);
        (held(rest) + below).saturating_sub(max_held) < below
    }

    /// The lowest class of which anybody is held.
    pub(super) fn lowest_held(&self) -> Option<Class> {
        let is_held = |class: &Class| self.held.0[*class as usize].load(Ordering::Relaxed) > 0;
        Class::ALL.into_iter().rev().find(is_held)
    }

    /// So many more requests wait for a slot at a worker, where `before` did.
    pub(super) fn wait(&self, class: Class, worker: usize, before: u32, more: u32) {
        if before == 0 {
            self.places.0[class as usize].fetch_or(1 << worker, Ordering::SeqCst);
        }
        self.waiting.0[class as usize].fetch_add(u64::from(more), Ordering::SeqCst);
    }

    /// So many less; `left` still do.
    pub(super) fn leave(&self, class: Class, worker: usize, left: u32, fewer: u32) {
        self.waiting.0[class as usize].fetch_sub(u64::from(fewer), Ordering::SeqCst);
        if left == 0 {
            self.places.0[class as usize].fetch_and(!(1 << worker), Ordering::SeqCst);
        }
    }

    /// Where else somebody of a class waits for a slot, as `worker` is to say it; `None`: all have
    /// just left.
    pub(super) fn other_place(&self, class: Class, worker: usize) -> Option<Grant> {
        let places = self.places.0[class as usize].load(Ordering::SeqCst) & !(1 << worker);
        if places == 0 {
            return None;
        }
        let Wakes { named, last } = &self.wakes.0;
        let after = last.load(Ordering::Relaxed) as u32 + 1;
        let next = (places.rotate_right(after).trailing_zeros() + after) % u64::BITS;
        if named.fetch_or(1 << next, Ordering::SeqCst) & (1 << next) != 0 {
            return Some(Grant::Idle);
        }
        last.store(u64::from(next), Ordering::Relaxed);
        Some(Grant::Elsewhere(next as usize))
    }

    /// A worker looks for slots to give: from now on it can be named again.
    pub(super) fn looks(&self, worker: usize) {
        let named = &self.wakes.0.named;
        if named.load(Ordering::SeqCst) & (1 << worker) != 0 {
            named.fetch_and(!(1 << worker), Ordering::SeqCst);
        }
    }

    /// Somebody got a slot after this wait.
    pub(super) fn note_hold(&self, hold_ns: u64) {
        let word = &self.buckets.0.shortest_hold_ns;
        if word.load(Ordering::Relaxed) > hold_ns {
            word.fetch_min(hold_ns, Ordering::Relaxed);
        }
    }

    /// Whether a source is that near to being disabled by its sender.
    pub(super) fn is_guarded(&self, source: u16, guard_after: u32) -> bool {
        guard_after > 0
            && self.source(source).refused_in_row.load(Ordering::Relaxed) >= u64::from(guard_after)
    }

    /// Whether a source has had no success for long, or never.
    pub(super) fn is_starved(&self, source: u16, now_ns: u64) -> bool {
        let last_ns = self.source(source).last_success_ns.load(Ordering::Relaxed);
        last_ns == 0 || now_ns.saturating_sub(last_ns) >= limits::FLOOR_STARVED_NS
    }
}

/// The buckets of the floor: of each source, and of all of them; `None`: there is no floor.
fn floor_rates(numbers: &Numbers) -> Option<[Rate; 2]> {
    let interval_ns = 1_000_000_000_000u64.checked_div(numbers.floor_rate_milli)?;
    Some([
        Rate::every(limits::FLOOR_INTERVAL_NS, limits::FLOOR_DEPTH_NS)?,
        Rate::every(interval_ns.max(1), limits::FLOOR_DEPTH_NS)?,
    ])
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slots")
            .field("inflight", &self.inflight())
            .field("waiting", &Class::ALL.map(|class| self.waiting(class)))
            .field("held", &self.held())
            .field("overloaded", &self.overloaded())
            .finish_non_exhaustive()
    }
}
