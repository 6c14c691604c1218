//! Which requests were seen before: a filter of fixed size that forgets.

use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits;

/// Entries that one id may be in; they lie side by side.
const WAYS: usize = 4;

/// Half of an entry.
const MASK: u64 = u32::MAX as u64;

/// A unit of an entry's time, about a second, is 2 to this power nanoseconds.
const TIME_SHIFT: u32 = 30;

/// Remembers for [`limits::REPEAT_WINDOW_NS`] which ids were looked for, for all workers.
///
/// It only chooses a class, so it may err: an id is taken for another one's about once in 10⁹
/// looks, and is forgotten early when four newer ones fall into its place. Its memory is 8 bytes
/// an entry. Nobody can aim at a place without the seed.
///
/// ```text
/// entry: ┌ 32 bits: fingerprint ┬ 32 bits: when it was looked for last, from 1 ┐   0: none
/// ```
pub struct RepeatFilter {
    places: Box<[Place]>,
    seed: u64,
}

/// Within one cache line, since a look is mostly the miss of one.
#[derive(Default)]
#[repr(align(32))]
struct Place([AtomicU64; WAYS]);

impl RepeatFilter {
    /// For `entries` ids, rounded up to the next place, at most [`limits::REPEAT_ENTRIES_MAX`].
    /// The seed must not be known outside.
    pub fn new(entries: usize, seed: u64) -> RepeatFilter {
        let entries = entries.clamp(1, limits::REPEAT_ENTRIES_MAX);
        let places = 0..entries.div_ceil(WAYS);
        RepeatFilter {
            places: places.map(|_| Place::default()).collect(),
            seed,
        }
    }

    /// Whether a source's id was looked for within the window before `now_ns`. It is remembered
    /// from now on: the window begins anew with each look.
    pub fn seen_before(&self, source: u16, id: &[u8], now_ns: u64) -> bool {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.seed);
        hasher.write_u16(source);
        hasher.write(id);
        let hash = hasher.finish();
        let place = ((hash >> 32) * self.places.len() as u64) >> 32;
        let Place(ways) = &self.places[place as usize];
        let fingerprint = hash & MASK;
        let time = ((now_ns >> TIME_SHIFT) + 1).min(MASK);
        let (way, seen) = choose(ways, fingerprint);
        let is_it = seen != 0 && seen >> 32 == fingerprint;
        // A clock that is behind an entry's makes the entry new, not old.
        let age = time.saturating_sub(seen & MASK);
        let is_repeat = is_it && age <= limits::REPEAT_WINDOW_NS >> TIME_SHIFT;
        if !(is_repeat && age == 0) {
            // A plain store: one of two workers in the same place may leave its id unremembered.
            // An exchange would have to wait for the line, which is mostly not in a cache.
            way.store(fingerprint << 32 | time, Ordering::Relaxed);
        }
        is_repeat
    }
}

/// The entry with this fingerprint, or else the one to replace: an empty one, or the oldest.
fn choose(ways: &[AtomicU64], fingerprint: u64) -> (&AtomicU64, u64) {
    let mut oldest = (&ways[0], u64::MAX);
    for way in ways {
        let seen = way.load(Ordering::Relaxed);
        if seen != 0 && seen >> 32 == fingerprint {
            return (way, seen);
        }
        if seen & MASK <= oldest.1 & MASK {
            oldest = (way, seen);
        }
    }
    oldest
}

impl std::fmt::Debug for RepeatFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "RepeatFilter {{ entries: {} }}",
            WAYS * self.places.len()
        )
    }
}
