//! The frames of one lane that were not given back yet, and the slots that they hold.
//!
//! A slot belongs to a frame, not to its connection: it ends with the frame's reply, or when the
//! control plane gives the frame's room back, whichever comes first. Each is counted once, whatever
//! the control plane says twice.

use std::collections::VecDeque;

/// What ends the hold of a frame on its slot at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Given,
    /// The reply comes before the room is given back.
    UntilReply,
    /// The room may be given back long before the reply comes.
    UntilRoom,
}

#[derive(Debug)]
struct Frame {
    from: u64,
    to: u64,
    slot: Slot,
}

/// The frames between `consume` and `commit`, in lane order.
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
    /// A frame with a slot was committed. `until_room`: see [`Frames::await_room`].
    pub fn push(&mut self, from: u64, to: u64, until_room: bool) {
        let slot = if until_room {
            Slot::UntilRoom
        } else {
            Slot::UntilReply
        };
        self.until_room += usize::from(until_room);
        self.queue.push_back(Frame { from, to, slot });
    }

    /// The frame at `position` was answered. True: its slot is to be given back.
    pub fn answered(&mut self, position: u64) -> bool {
        let likely = self.likely.saturating_sub(self.removed) as usize;
        let at = match self.queue.get(likely) {
            Some(frame) if frame.from == position => likely,
            _ => match self
                .queue
                .binary_search_by_key(&position, |frame| frame.from)
            {
                Ok(at) => at,
                Err(_) => return false,
            },
        };
        self.likely = self.removed + at as u64 + 1;
        self.end(at)
    }

    /// The control plane has given back all room below `consumed`. Says how many slots are to be
    /// given back.
    pub fn consumed(&mut self, consumed: u64) -> usize {
        let mut slots = 0;
        while self.queue.front().is_some_and(|frame| frame.to <= consumed) {
            slots += usize::from(self.end(0));
            self.queue.pop_front();
            self.removed += 1;
        }
        slots
    }

    /// Whether a frame holds its slot that may be over before its reply comes. The control plane
    /// rings for replies anyway, and for room only when it is told to.
    pub fn await_room(&self) -> bool {
        self.until_room > 0
    }

    fn end(&mut self, at: usize) -> bool {
        let slot = std::mem::replace(&mut self.queue[at].slot, Slot::Given);
        self.until_room -= usize::from(slot == Slot::UntilRoom);
        slot != Slot::Given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_ends_once_whatever_is_said_twice() {
        let mut frames = Frames::default();
        for at in 0..4 {
            frames.push(at * 64, at * 64 + 64, at == 3);
        }
        assert!(frames.await_room());
        assert!(frames.answered(64));
        assert!(!frames.answered(64), "a reply that comes twice");
        assert!(!frames.answered(32), "a position where no frame begins");
        assert!(frames.answered(0), "an older frame after a younger one");
        assert_eq!(frames.consumed(127), 0, "half of a frame is no frame");
        assert_eq!(frames.consumed(192), 1);
        assert!(!frames.answered(128), "a frame that is gone");
        assert_eq!(frames.consumed(256), 1);
        assert!(!frames.await_room());
        assert_eq!(frames.consumed(u64::MAX), 0);
    }

    #[test]
    fn replies_in_any_order_find_their_frames() {
        let mut frames = Frames::default();
        let (mut open, mut position) = (Vec::new(), 0);
        let (mut pushed, mut ended) = (0, 0);
        let mut random = 0x2545_f491_4f6c_dd1du64;
        println!("seed {random:#x}");
        for _ in 0..10_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            match random % 4 {
                0 | 1 => {
                    frames.push(position, position + 64, random & 64 != 0);
                    open.push(position);
                    position += 64;
                    pushed += 1;
                }
                2 if !open.is_empty() => {
                    let at = open.swap_remove(random as usize / 8 % open.len());
                    assert!(frames.answered(at));
                    ended += 1;
                }
                _ => {
                    let upto = position.saturating_sub((random / 8 % 1024) & !63);
                    let slots = frames.consumed(upto);
                    let before = open.len();
                    open.retain(|&at| at >= upto);
                    assert_eq!(slots, before - open.len());
                    ended += slots;
                }
            }
        }
        assert_eq!(ended + frames.consumed(position), pushed);
        assert!(!frames.await_room());
    }
}
