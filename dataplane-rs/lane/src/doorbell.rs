//! Who rings, and who may sleep: the ticket protocol.
//!
//! A ticket word has one writer, the sleeper. Bit 0 says asleep, bit 1 that it also wants room in
//! the ring it fills, the rest counts, so that every sleep has a new ticket. A producer rings a
//! ticket at most once. Of "commit, fence, read ticket" and "ticket, fence, read commit" at least
//! one side sees the other, so no wake-up is lost; both fences are needed, on x86 too.

use std::sync::atomic::{Ordering, fence};

const ASLEEP: u64 = 1;
const WANTS_ROOM: u64 = 2;
const NEXT: u64 = 4;

/// The words that one side of a doorbell needs; a trait, so that a model checker can stand in for
/// shared memory.
pub trait Words {
    /// Loads the peer's ticket; relaxed, the caller fences.
    fn peer_ticket(&self) -> u64;
    /// Stores our ticket.
    fn store_ticket(&self, ticket: u64);
    /// Loads how far the peer published (Acquire).
    fn published(&self) -> u64;
    /// Loads how far the peer consumed what we publish (Acquire).
    fn room(&self) -> u64;
    /// A sequentially consistent fence.
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}

/// The producer's half: decides once a turn whether the peer must be woken.
#[derive(Debug, Default)]
pub struct Ringer {
    last_rung: u64,
}

impl Ringer {
    /// True when the caller has to write the peer's eventfd. `published`: something new lies in the
    /// ring that we fill; `freed`: room was made in the ring that we drain.
    pub fn due(&mut self, words: &impl Words, published: bool, freed: bool) -> bool {
        if !published && !freed {
            return false;
        }
        words.fence();
        let ticket = words.peer_ticket();
        let wanted = published || (freed && ticket & WANTS_ROOM != 0);
        if ticket & ASLEEP == 0 || !wanted || ticket == self.last_rung {
            return false;
        }
        self.last_rung = ticket;
        true
    }
}

/// The consumer's half: says whether it may block.
#[derive(Debug)]
pub struct Sleeper {
    ticket: u64,
}

impl Sleeper {
    /// Goes on above the ticket that was found in the word.
    pub fn above(found: u64) -> Self {
        Sleeper {
            ticket: found | (NEXT - 1), // the next one is above it
        }
    }

    /// Announces sleep. True: the caller may block until its eventfd is written, then calls `wake`.
    /// False: there is work (or room, where `room_seen` is given) and the ticket is taken back.
    pub fn sleep(&mut self, words: &impl Words, seen: u64, room_seen: Option<u64>) -> bool {
        self.ticket = self.ticket.wrapping_add(NEXT) & !(NEXT - 1);
        let wants = if room_seen.is_some() { WANTS_ROOM } else { 0 };
        words.store_ticket(self.ticket | ASLEEP | wants);
        words.fence();
        let work = words.published() != seen || room_seen.is_some_and(|room| words.room() != room);
        if work {
            self.wake(words);
        }
        !work
    }

    /// Ends the sleep.
    pub fn wake(&mut self, words: &impl Words) {
        self.ticket = self.ticket.wrapping_add(NEXT) & !(NEXT - 1);
        words.store_ticket(self.ticket);
    }
}
