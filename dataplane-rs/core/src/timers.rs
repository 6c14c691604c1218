//! A timer wheel for the deadlines of one worker: heads, bodies, idle connections, holds, budgets.
//!
//! It reads no clock and calls nobody: [`Wheel::pop`] hands out what is due. Memory is taken once.
//! Setting and cancelling cost the same however many timers there are.
//!
//! Seven levels of 64 slots hold ticks of 42 bits, which is all of a `u64` in nanoseconds. A timer
//! lies on the level of the highest digit (base 64) in which its tick differs from the wheel's, in
//! the slot of that digit; so slots of a level are due in their order, all of a level before any
//! of the next, and nothing ever wraps.
//!
//! ```text
//! level 0   slots of one tick (4.2 ms)      due: handed out
//! level 1   slots of 64 ticks (268 ms)      due: spread over level 0
//! level 2   slots of 4096 ticks (17 s)      due: spread over levels 0 and 1 …
//! ```

use crate::limits;

const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = (u64::BITS - limits::TIMER_TICK_SHIFT).div_ceil(DIGIT_BITS) as usize;
const NONE: u32 = u32::MAX;

/// Names one timer that was set. A key of a timer that fired or was cancelled names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    index: u32,
    generation: u32,
}

#[derive(Clone, Copy)]
struct Entry {
    tick: u64,
    token: u64,
    generation: u32,
    /// The list that the entry is in, as level × 64 + slot; `NONE`: free.
    list: u32,
    next: u32,
    previous: u32,
}

/// The timers of one worker.
pub struct Wheel {
    entries: Box<[Entry]>,
    free: u32,
    count: usize,
    /// The wheel's own time in ticks: nothing before it is still to be handed out.
    tick: u64,
    heads: [u32; LEVELS * SLOTS],
    /// A bit per slot that is not empty.
    filled: [u64; LEVELS],
}

impl Wheel {
    /// A wheel for up to `capacity` timers that starts at `now_ns`.
    pub fn new(capacity: usize, now_ns: u64) -> Wheel {
        let capacity = capacity.clamp(1, limits::TIMERS_MAX);
        let entries = (1..=capacity as u32).map(|next| Entry {
            tick: 0,
            token: 0,
            generation: 0,
            list: NONE,
            next: if next == capacity as u32 { NONE } else { next },
            previous: NONE,
        });
        Wheel {
            entries: entries.collect(),
            free: 0,
            count: 0,
            tick: now_ns >> limits::TIMER_TICK_SHIFT,
            heads: [NONE; LEVELS * SLOTS],
            filled: [0; LEVELS],
        }
    }

    /// Timers that are set.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Sets a timer that hands out `token` once `deadline_ns` has passed. `None`: the wheel is
    /// full.
    pub fn set(&mut self, deadline_ns: u64, token: u64) -> Option<Key> {
        let index = self.free;
        let entry = self.entries.get_mut(index as usize)?;
        self.free = entry.next;
        self.count += 1;
        // Rounded up, so that none fires early; but the last tick there is stays the last.
        let tick = deadline_ns.div_ceil(1 << limits::TIMER_TICK_SHIFT);
        let tick = tick
            .min(u64::MAX >> limits::TIMER_TICK_SHIFT)
            .max(self.tick);
        entry.tick = tick;
        entry.token = token;
        let generation = entry.generation;
        self.link(index);
        Some(Key { index, generation })
    }

    /// Ends a timer before its time. `false`: it fired or was cancelled already.
    pub fn cancel(&mut self, key: Key) -> bool {
        match self.entries.get(key.index as usize) {
            Some(entry) if entry.list != NONE && entry.generation == key.generation => {
                self.remove(key.index);
                true
            }
            _ => false,
        }
    }

    /// The next timer that is due, in the order of deadlines as far as ticks tell them apart.
    /// Timers may be set and cancelled between calls.
    pub fn pop(&mut self, now_ns: u64) -> Option<u64> {
        let now_tick = now_ns >> limits::TIMER_TICK_SHIFT;
        while let Some((level, slot)) = self.first_slot() {
            let start = self.start_of(level, slot);
            if start > now_tick {
                break;
            }
            self.tick = self.tick.max(start);
            let index = self.heads[level * SLOTS + slot];
            if level == 0 {
                return Some(self.remove(index));
            }
            self.spread(level, slot);
        }
        self.tick = self.tick.max(now_tick);
        None
    }

    /// When to call [`pop`](Wheel::pop) next: no timer is due before, though none need be due then,
    /// because far timers come closer in steps. `None`: no timer is set.
    pub fn next_ns(&self) -> Option<u64> {
        let (level, slot) = self.first_slot()?;
        Some(self.start_of(level, slot) << limits::TIMER_TICK_SHIFT)
    }

    fn first_slot(&self) -> Option<(usize, usize)> {
        let level = self.filled.iter().position(|&slots| slots != 0)?;
        Some((level, self.filled[level].trailing_zeros() as usize))
    }

    /// The tick at which a slot begins: its digit, the wheel's own digits above it, zeros below.
    fn start_of(&self, level: usize, slot: usize) -> u64 {
        let shift = level as u32 * DIGIT_BITS;
        let above = self.tick >> shift >> DIGIT_BITS << DIGIT_BITS;
        (above | slot as u64) << shift
    }

    /// Puts the timers of a slot that has begun on the levels below.
    fn spread(&mut self, level: usize, slot: usize) {
        let list = level * SLOTS + slot;
        let mut index = std::mem::replace(&mut self.heads[list], NONE);
        self.filled[level] &= !(1 << slot);
        while index != NONE {
            let next = self.entries[index as usize].next;
            self.link(index);
            index = next;
        }
    }

    fn link(&mut self, index: u32) {
        let tick = self.entries[index as usize].tick;
        let difference = tick ^ self.tick;
        let level = (difference.checked_ilog2().unwrap_or(0) / DIGIT_BITS) as usize;
        let slot = (tick >> (level as u32 * DIGIT_BITS)) as usize % SLOTS;
        let list = level * SLOTS + slot;
        let next = std::mem::replace(&mut self.heads[list], index);
        if next != NONE {
            self.entries[next as usize].previous = index;
        }
        self.filled[level] |= 1 << slot;
        let entry = &mut self.entries[index as usize];
        (entry.list, entry.next, entry.previous) = (list as u32, next, NONE);
    }

    /// Takes an entry out of its list and gives it back, with another generation.
    fn remove(&mut self, index: u32) -> u64 {
        let Entry {
            token,
            list,
            next,
            previous,
            ..
        } = self.entries[index as usize];
        if previous != NONE {
            self.entries[previous as usize].next = next;
        } else {
            self.heads[list as usize] = next;
            if next == NONE {
                self.filled[list as usize / SLOTS] &= !(1 << (list as usize % SLOTS));
            }
        }
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
        let entry = &mut self.entries[index as usize];
        entry.list = NONE;
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = std::mem::replace(&mut self.free, index);
        self.count -= 1;
        token
    }
}

impl std::fmt::Debug for Wheel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let capacity = self.entries.len();
        write!(
            f,
            "Wheel {{ count: {}, capacity: {capacity}, tick: {} }}",
            self.count, self.tick
        )
    }
}
