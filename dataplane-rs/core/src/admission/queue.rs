//! The waiting requests of one worker, in fixed memory.
//!
//! It knows no bounds, slots or clocks. A waiter is in two lists at once: a queue of its source
//! inside its class, and its class's list by age. The queues of a class that are not empty form a
//! round. Every step is a few index moves.

use super::class::Class;
use crate::limits;

const NONE: u32 = u32::MAX;
const NO_STRAND: u16 = u16::MAX;

/// A source has two queues inside a class: one of ring requests and one of the others, so that the
/// former, while they cannot use a slot, stand in nobody's way. Number = 2 × source + ring.
type Strand = u16;

const STRANDS: usize = 2 * limits::SOURCES_MAX;
const _: () = assert!(STRANDS < NO_STRAND as usize);

/// Names a waiting request. A ticket of one that left names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    index: u32,
    generation: u32,
}

/// A request that waits or waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// What the offer was named.
    pub token: u64,
    /// Its class.
    pub class: Class,
    /// Its source's slot.
    pub source: u16,
    /// When it began to wait.
    pub since_ns: u64,
    /// The end of its sender's budget.
    pub until_ns: u64,
    /// Its slot is given back with the reply, so the lane bounds it.
    pub ring: bool,
}

/// A place in a doubly linked list.
#[derive(Clone, Copy)]
struct Links {
    next: u32,
    previous: u32,
}

#[derive(Clone, Copy)]
struct Ends {
    oldest: u32,
    newest: u32,
}

const NO_LINKS: Links = Links {
    next: NONE,
    previous: NONE,
};
const NO_ENDS: Ends = Ends {
    oldest: NONE,
    newest: NONE,
};

#[derive(Clone, Copy)]
struct Node {
    waiter: Waiter,
    generation: u32,
    is_used: bool,
    /// Free nodes are chained by `age.next`.
    age: Links,
    turn: Links,
}

/// A queue of one source inside one class, and its place in the round of the class.
#[derive(Clone, Copy)]
struct Cell {
    ends: Ends,
    next: Strand,
    previous: Strand,
}

const EMPTY_CELL: Cell = Cell {
    ends: NO_ENDS,
    next: NO_STRAND,
    previous: NO_STRAND,
};

#[derive(Clone, Copy)]
struct Line {
    by_age: Ends,
    /// The queue whose turn is next.
    turn: Strand,
    /// The queue that was served last, so that its source is not served twice in a row.
    last: Strand,
    count: u32,
    ring_count: u32,
}

pub(super) struct Queue {
    nodes: Box<[Node]>,
    cells: Box<[Cell]>,
    lines: [Line; Class::COUNT],
    free: u32,
    count: usize,
}

impl Queue {
    pub(super) fn new(capacity: usize) -> Queue {
        let capacity = capacity.clamp(1, limits::HELD_MAX) as u32;
        let nobody = Waiter {
            token: 0,
            class: Class::Low,
            source: 0,
            since_ns: 0,
            until_ns: 0,
            ring: false,
        };
        let nodes = (1..=capacity).map(|next| Node {
            waiter: nobody,
            generation: 0,
            is_used: false,
            age: Links {
                next: if next == capacity { NONE } else { next },
                previous: NONE,
            },
            turn: NO_LINKS,
        });
        let line = Line {
            by_age: NO_ENDS,
            turn: NO_STRAND,
            last: NO_STRAND,
            count: 0,
            ring_count: 0,
        };
        Queue {
            nodes: nodes.collect(),
            cells: vec![EMPTY_CELL; STRANDS * Class::COUNT].into_boxed_slice(),
            lines: [line; Class::COUNT],
            free: 0,
            count: 0,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn count_of(&self, class: Class) -> u32 {
        self.lines[class as usize].count
    }

    pub(super) fn ring_count_of(&self, class: Class) -> u32 {
        self.lines[class as usize].ring_count
    }

    pub(super) fn is_full(&self) -> bool {
        self.free == NONE
    }

    pub(super) fn waiter(&self, index: u32) -> &Waiter {
        &self.nodes[index as usize].waiter
    }

    pub(super) fn find(&self, ticket: Ticket) -> Option<u32> {
        let node = self.nodes.get(ticket.index as usize)?;
        (node.is_used && node.generation == ticket.generation).then_some(ticket.index)
    }

    /// The one that has waited longest in a class.
    pub(super) fn oldest(&self, class: Class) -> Option<u32> {
        some(self.lines[class as usize].by_age.oldest)
    }

    /// The next younger one of the same class.
    pub(super) fn younger(&self, index: u32) -> Option<u32> {
        some(self.nodes[index as usize].age.next)
    }

    /// Whose turn it is in a class: the sources go round, and one that was served steps back while
    /// another waits. A queue whose first one is not `eligible` is passed over.
    pub(super) fn turn(
        &self,
        class: Class,
        newest_first: bool,
        eligible: impl Fn(&Waiter) -> bool,
    ) -> Option<u32> {
        let line = &self.lines[class as usize];
        if line.turn == NO_STRAND {
            return None;
        }
        let mut fallback = None;
        let mut strand = line.turn;
        loop {
            let cell = self.cells[cell_of(class, strand)];
            let index = if newest_first {
                cell.ends.newest
            } else {
                cell.ends.oldest
            };
            if eligible(self.waiter(index)) {
                // Halved, a queue's number is its source.
                if strand / 2 != line.last / 2 {
                    return Some(index);
                }
                fallback = fallback.or(Some(index));
            }
            strand = cell.next;
            if strand == line.turn {
                return fallback;
            }
        }
    }

    /// The waiter was given a slot: its source's turn is over.
    pub(super) fn serve(&mut self, index: u32) -> Waiter {
        let waiter = self.waiter(index);
        let (class, strand) = (waiter.class, strand_of(waiter));
        let next = self.cells[cell_of(class, strand)].next;
        let line = &mut self.lines[class as usize];
        line.turn = next;
        line.last = strand;
        self.remove(index)
    }

    /// The caller has seen that there is room.
    pub(super) fn push(&mut self, waiter: Waiter) -> Ticket {
        let index = self.free;
        let node = &mut self.nodes[index as usize];
        self.free = node.age.next;
        node.waiter = waiter;
        node.is_used = true;
        (node.age, node.turn) = (NO_LINKS, NO_LINKS);
        let generation = node.generation;

        let line = &mut self.lines[waiter.class as usize];
        line.count += 1;
        line.ring_count += u32::from(waiter.ring);
        append(&mut self.nodes, &mut line.by_age, index, |node| {
            &mut node.age
        });
        let strand = strand_of(&waiter);
        let cell = cell_of(waiter.class, strand);
        if self.cells[cell].ends.oldest == NONE {
            self.join_round(waiter.class, strand);
        }
        append(&mut self.nodes, &mut self.cells[cell].ends, index, |node| {
            &mut node.turn
        });
        self.count += 1;
        Ticket { index, generation }
    }

    pub(super) fn remove(&mut self, index: u32) -> Waiter {
        let waiter = *self.waiter(index);
        let line = &mut self.lines[waiter.class as usize];
        line.count -= 1;
        line.ring_count -= u32::from(waiter.ring);
        unlink(&mut self.nodes, &mut line.by_age, index, |node| {
            &mut node.age
        });
        let strand = strand_of(&waiter);
        let cell = cell_of(waiter.class, strand);
        unlink(&mut self.nodes, &mut self.cells[cell].ends, index, |node| {
            &mut node.turn
        });
        if self.cells[cell].ends.oldest == NONE {
            self.leave_round(waiter.class, strand);
        }
        let node = &mut self.nodes[index as usize];
        node.is_used = false;
        node.generation = node.generation.wrapping_add(1);
        node.age.next = std::mem::replace(&mut self.free, index);
        self.count -= 1;
        waiter
    }

    /// A queue with its first waiter joins at the end of the round.
    fn join_round(&mut self, class: Class, strand: Strand) {
        let line = &mut self.lines[class as usize];
        if line.turn == NO_STRAND {
            line.turn = strand;
            let cell = &mut self.cells[cell_of(class, strand)];
            (cell.next, cell.previous) = (strand, strand);
            return;
        }
        let next = line.turn;
        let previous = self.cells[cell_of(class, next)].previous;
        self.cells[cell_of(class, previous)].next = strand;
        self.cells[cell_of(class, next)].previous = strand;
        let cell = &mut self.cells[cell_of(class, strand)];
        (cell.next, cell.previous) = (next, previous);
    }

    fn leave_round(&mut self, class: Class, strand: Strand) {
        let Cell { next, previous, .. } = self.cells[cell_of(class, strand)];
        self.cells[cell_of(class, previous)].next = next;
        self.cells[cell_of(class, next)].previous = previous;
        let line = &mut self.lines[class as usize];
        if line.turn == strand {
            line.turn = if next == strand { NO_STRAND } else { next };
        }
        self.cells[cell_of(class, strand)] = EMPTY_CELL;
    }
}

fn strand_of(waiter: &Waiter) -> Strand {
    2 * waiter.source + Strand::from(waiter.ring)
}

fn some(index: u32) -> Option<u32> {
    (index != NONE).then_some(index)
}

fn cell_of(class: Class, strand: Strand) -> usize {
    class as usize * STRANDS + usize::from(strand)
}

fn append(nodes: &mut [Node], ends: &mut Ends, index: u32, links: fn(&mut Node) -> &mut Links) {
    let previous = std::mem::replace(&mut ends.newest, index);
    *links(&mut nodes[index as usize]) = Links {
        next: NONE,
        previous,
    };
    match some(previous) {
        Some(previous) => links(&mut nodes[previous as usize]).next = index,
        None => ends.oldest = index,
    }
}

fn unlink(nodes: &mut [Node], ends: &mut Ends, index: u32, links: fn(&mut Node) -> &mut Links) {
    let Links { next, previous } = *links(&mut nodes[index as usize]);
    match some(previous) {
        Some(previous) => links(&mut nodes[previous as usize]).next = next,
        None => ends.oldest = next,
    }
    match some(next) {
        Some(next) => links(&mut nodes[next as usize]).previous = previous,
        None => ends.newest = previous,
    }
}
