//! Who may keep how many bytes while requests are not whole or wait.

/// Slots of sources, and one more for what has no source yet.
const ACCOUNTS: usize = shm_abi::SOURCES_MAX as usize + 1;

/// What one connection is charged for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    slot: Option<u16>,
    bytes: usize,
}

/// The bytes that one worker keeps, by source.
///
/// A source may keep as much as is still free beside it: alone it gets half, two that are greedy a
/// third each, and there is always room for one that comes anew. Buffers count as
/// [`crate::inbox::size`] has it.
pub struct Memory {
    bytes_max: usize,
    bytes: usize,
    by_source: Box<[usize]>,
}

impl Memory {
    pub fn new(bytes_max: usize) -> Memory {
        Memory {
            bytes_max,
            bytes: 0,
            by_source: vec![0; ACCOUNTS].into_boxed_slice(),
        }
    }

    /// Another bound. What is kept beyond it stays until it is given back.
    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// What is kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a connection may keep so many bytes for this source instead of what it is charged.
    pub fn fits(&self, charge: &Charge, slot: Option<u16>, bytes: usize) -> bool {
        let own = self.by_source[account(slot)] + bytes;
        let own = if charge.slot == slot {
            own - charge.bytes
        } else {
            own
        };
        own <= self
            .bytes_max
            .saturating_sub(self.bytes - charge.bytes + bytes)
    }

    /// Charges a connection for what it keeps now.
    pub fn charge(&mut self, charge: &mut Charge, slot: Option<u16>, bytes: usize) {
        let now = Charge { slot, bytes };
        if *charge != now {
            self.by_source[account(charge.slot)] -= charge.bytes;
            self.by_source[account(slot)] += bytes;
            self.bytes = self.bytes - charge.bytes + bytes;
            *charge = now;
        }
    }
}

fn account(slot: Option<u16>) -> usize {
    slot.map_or(ACCOUNTS - 1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 64 * PIECE;
    const PIECE: usize = 1 << 20;

    /// Keeps pieces until one is refused, and says how many bytes that made.
    fn fill(memory: &mut Memory, slot: Option<u16>) -> usize {
        let mut charge = Charge::default();
        let mut bytes = 0;
        while memory.fits(&charge, slot, bytes + PIECE) {
            bytes += PIECE;
            memory.charge(&mut charge, slot, bytes);
        }
        bytes
    }

    #[test]
    fn a_greedy_source_leaves_room_for_one_that_comes_later() {
        let mut memory = Memory::new(MAX);
        assert_eq!(fill(&mut memory, Some(7)), MAX / 2);
        assert_eq!(fill(&mut memory, Some(8)), MAX / 4);
        assert_eq!(fill(&mut memory, None), MAX / 8);
        assert!(memory.bytes < MAX);
    }

    #[test]
    fn what_is_given_back_can_be_kept_again() {
        let mut memory = Memory::new(MAX);
        let mut charge = Charge::default();
        memory.charge(&mut charge, None, 100);
        memory.charge(&mut charge, Some(0), 200);
        assert_eq!(memory.bytes, 200);
        assert!(memory.fits(&charge, Some(0), MAX / 2));
        assert!(!memory.fits(&charge, Some(0), MAX / 2 + 1));
        memory.charge(&mut charge, None, 0);
        assert_eq!(memory.bytes, 0);
        assert_eq!(fill(&mut memory, Some(0)), MAX / 2);
    }
}
