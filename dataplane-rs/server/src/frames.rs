//! The frames of one lane that hold a slot or a weight, or held one and were not given back yet.
//!
//! Both belong to a frame, not to its connection: they end with the frame's reply, or when the
//! control plane gives the frame's room back, whichever comes first. Each is counted once,
//! whatever the control plane says twice. Frames of sources that are acknowledged at `ring` take
//! no slot, and are among these only for their weight.

use std::collections::VecDeque;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// When its slot was taken, boot clock; `None`: it took none.
    pub taken_ns: Option<u64>,
    /// The room may be given back, and so the slot be over, long before the reply comes.
    pub until_room: bool,
    /// It was counted as one that got no answer in time.
    pub missed: bool,
    /// What it takes to judge it.
    pub weight: u32,
}

impl Slot {
    /// One of a frame that was just committed.
    pub fn new(taken_ns: Option<u64>, until_room: bool, weight: u32) -> Slot {
        Slot {
            taken_ns,
            until_room,
            missed: false,
            weight,
        }
    }
}

#[derive(Debug)]
struct Frame {
    from: u64,
    to: u64,
    slot: Option<Slot>,
}

/// Those between `consume` and `commit`, in lane order.
#[derive(Debug, Default)]
pub struct Frames {
    queue: VecDeque<Frame>,
    /// How many frames left the front, ever.
    removed: u64,
    /// The number of the frame that is likely answered next: replies mostly come in lane order.
    likely: u64,
    until_room: usize,
}

impl Frames {
    /// A frame that holds something was committed.
    pub fn push(&mut self, from: u64, to: u64, slot: Slot) {
        self.until_room += usize::from(slot.until_room);
        let slot = Some(slot);
        self.queue.push_back(Frame { from, to, slot });
    }

    /// The frame at `position` was answered: the slot that it gives back.
    pub fn answered(&mut self, position: u64) -> Option<Slot> {
        let at = self.find(position)?;
        self.likely = self.removed + at as u64 + 1;
        self.end(at)
    }

    /// The control plane has given back all room below `consumed`. The slot that the next of its
    /// frames gives back; called until there is none.
    pub fn consumed(&mut self, consumed: u64) -> Option<Slot> {
        while self.queue.front().is_some_and(|frame| frame.to <= consumed) {
            let slot = self.end(0);
            self.queue.pop_front();
            self.removed += 1;
            if slot.is_some() {
                return slot;
            }
        }
        None
    }

    /// The sender of the frame at `position` has waited in vain. True, once: for its slot. One
    /// that was given back is no sign of a slow journal.
    pub fn miss(&mut self, position: u64) -> bool {
        let at = self.find(position);
        let slot = at.and_then(|at| self.queue[at].slot.as_mut());
        slot.is_some_and(|slot| {
            slot.taken_ns.is_some() && !std::mem::replace(&mut slot.missed, true)
        })
    }

    /// Whether a frame holds its slot that may be over before its reply comes. The control plane
    /// rings for replies anyway, and for room only when it is told to.
    pub fn await_room(&self) -> bool {
        self.until_room > 0
    }

    fn find(&self, position: u64) -> Option<usize> {
        let likely = self.likely.saturating_sub(self.removed) as usize;
        match self.queue.get(likely) {
            Some(frame) if frame.from == position => Some(likely),
            _ => self
                .queue
                .binary_search_by_key(&position, |frame| frame.from)
                .ok(),
        }
    }

    fn end(&mut self, at: usize) -> Option<Slot> {
        let slot = self.queue[at].slot.take();
        self.until_room -= usize::from(slot.is_some_and(|slot| slot.until_room));
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_ends_once_whatever_is_said_twice() {
        let mut frames = Frames::default();
        for at in 0..4 {
            frames.push(at * 64, at * 64 + 64, Slot::new(Some(at), at == 3, 0));
        }
        assert!(frames.await_room());
        assert_eq!(frames.answered(64), Some(Slot::new(Some(1), false, 0)));
        assert_eq!(frames.answered(64), None, "a reply that comes twice");
        assert_eq!(frames.answered(32), None, "no frame begins here");
        assert_eq!(
            frames.answered(0),
            Some(Slot::new(Some(0), false, 0)),
            "an older frame later"
        );
        assert_eq!(frames.consumed(127), None, "half of a frame is no frame");
        assert_eq!(frames.consumed(192), Some(Slot::new(Some(2), false, 0)));
        assert_eq!(frames.consumed(192), None);
        assert_eq!(frames.answered(128), None, "a frame that is gone");
        assert!(frames.await_room());
        assert_eq!(frames.consumed(256), Some(Slot::new(Some(3), true, 0)));
        assert!(!frames.await_room());
        assert_eq!(frames.consumed(u64::MAX), None);
    }

    #[test]
    fn a_frame_is_missed_once_and_only_while_it_has_its_slot() {
        let mut frames = Frames::default();
        for at in 0..3 {
            frames.push(at * 64, at * 64 + 64, Slot::new(Some(at), true, 0));
        }
        assert!(frames.miss(64) && !frames.miss(64));
        assert!(!frames.miss(32), "no frame begins here");
        assert!(frames.answered(64).is_some_and(|slot| slot.missed));
        assert!(!frames.miss(64));
        assert!(frames.consumed(64).is_some_and(|slot| !slot.missed));
        assert!(!frames.miss(0), "a frame that is gone");
        assert!(frames.miss(128));
    }

    #[test]
    fn replies_in_any_order_find_their_frames() {
        let mut frames = Frames::default();
        let (mut open, mut position) = (Vec::new(), 0);
        let (mut pushed, mut ended) = (0, 0);
        let given = std::env::var("SLUICE_SEED")
            .ok()
            .and_then(|text| text.parse().ok());
        let mut random: u64 = given.unwrap_or(0x2545_f491_4f6c_dd1d).max(1);
        println!("SLUICE_SEED={random}");
        for _ in 0..10_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            match random % 4 {
                0 | 1 => {
                    frames.push(
                        position,
                        position + 64,
                        Slot::new(Some(position), random & 64 != 0, 0),
                    );
                    open.push(position);
                    position += 64;
                    pushed += 1;
                }
                2 if !open.is_empty() => {
                    let at = open.swap_remove(random as usize / 8 % open.len());
                    assert_eq!(frames.answered(at).expect("a slot").taken_ns, Some(at));
                    ended += 1;
                }
                _ => {
                    let upto = position.saturating_sub((random / 8 % 1024) & !63);
                    let mut given: Vec<u64> = std::iter::from_fn(|| frames.consumed(upto))
                        .filter_map(|slot| slot.taken_ns)
                        .collect();
                    ended += given.len();
                    given.sort_unstable();
                    let (mut wanted, rest): (Vec<_>, _) = open.iter().partition(|&&at| at < upto);
                    wanted.sort_unstable();
                    open = rest;
                    assert_eq!(given, wanted);
                }
            }
        }
        let rest = std::iter::from_fn(|| frames.consumed(position)).count();
        assert_eq!(ended + rest, pushed);
        assert!(!frames.await_room());
    }
}
