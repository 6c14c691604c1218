//! The waiting requests of one worker, in fixed memory.
//!
//! It knows no bounds, slots or clocks. A waiter is in two lists at once: a queue of its source
//! inside its class, and its class's list by age. The queues of a class and kind that are not empty
//! form a round. Every step is a few index moves.

use super::class::Class;
use crate::limits;

const NONE: u32 = u32::MAX;
const NO_STRAND: u16 = u16::MAX;

/// A queue of one source inside one class, of one kind.
type Strand = u16;

/// What a request waits for. Those of one kind stand in the way of no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// Room in the lane, and not a slot.
    pub(super) ring: bool,
    /// Room for its weight as well.
    pub(super) heavy: bool,
}

impl Kind {
    pub(super) const fn new(ring: bool, heavy: bool) -> Kind {
        Kind { ring, heavy }
    }

    const fn index(self) -> usize {
        self.ring as usize | (self.heavy as usize) << 1
    }
}

const KINDS: usize = 4;
const _: () = assert!(limits::SOURCES_MAX < NO_STRAND as usize);

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
    /// It takes no slot: the lane bounds it.
    pub ring: bool,
    /// As its offer had it.
    pub guard_after: u32,
    /// As its offer had it.
    pub weight: u32,
}

impl Waiter {
    pub(super) fn kind(&self) -> Kind {
        Kind::new(self.ring, self.weight > 0)
    }
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
    strand: Strand,
    generation: u32,
    is_used: bool,
    /// Free nodes are chained by `age.next`.
    age: Links,
    turn: Links,
}

/// A strand, and its place in the round of its class and kind.
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
struct Round {
    /// The strand whose turn is next.
    turn: Strand,
    /// The one that was served last, so that its source is not served twice in a row.
    last: Strand,
    count: u32,
}

#[derive(Clone, Copy)]
struct Line {
    by_age: Ends,
    /// No waiter's budget ends before this; those of waiters that left may be the reason.
    until_ns: u64,
    rounds: [Round; KINDS],
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
            class: Class::LowOverShare,
            source: 0,
            since_ns: 0,
            until_ns: 0,
            ring: false,
            guard_after: 0,
            weight: 0,
        };
        let nodes = (1..=capacity).map(|next| Node {
            waiter: nobody,
            strand: NO_STRAND,
            generation: 0,
            is_used: false,
            age: Links {
                next: if next == capacity { NONE } else { next },
                previous: NONE,
            },
            turn: NO_LINKS,
        });
        let round = Round {
            turn: NO_STRAND,
            last: NO_STRAND,
            count: 0,
        };
        let line = Line {
            by_age: NO_ENDS,
            until_ns: u64::MAX,
            rounds: [round; KINDS],
        };
        Queue {
            nodes: nodes.collect(),
            cells: vec![EMPTY_CELL; Class::COUNT * KINDS * limits::SOURCES_MAX].into_boxed_slice(),
            lines: [line; Class::COUNT],
            free: 0,
            count: 0,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Of one class and kind.
    pub(super) fn count_of(&self, class: Class, kind: Kind) -> u32 {
        self.lines[class as usize].rounds[kind.index()].count
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

    /// No waiter of the class has a budget that ends before this.
    pub(super) fn until(&self, class: Class) -> u64 {
        self.lines[class as usize].until_ns
    }

    /// The caller has seen all budgets of the class.
    pub(super) fn set_until(&mut self, class: Class, until_ns: u64) {
        self.lines[class as usize].until_ns = until_ns;
    }

    /// Whose turn it is in a class and kind: the strands go round, and one that was served steps
    /// back while another waits.
    pub(super) fn turn(&self, class: Class, kind: Kind, newest_first: bool) -> Option<u32> {
        let round = &self.lines[class as usize].rounds[kind.index()];
        if round.turn == NO_STRAND {
            return None;
        }
        let strand = match round.turn == round.last {
            true => self.cells[cell_of(class, kind, round.turn)].next,
            false => round.turn,
        };
        let ends = self.cells[cell_of(class, kind, strand)].ends;
        some(if newest_first {
            ends.newest
        } else {
            ends.oldest
        })
    }

    /// The waiter goes on: its source's turn is over.
    pub(super) fn serve(&mut self, index: u32) -> Waiter {
        let node = &self.nodes[index as usize];
        let (class, kind, strand) = (node.waiter.class, node.waiter.kind(), node.strand);
        let next = self.cells[cell_of(class, kind, strand)].next;
        let round = &mut self.lines[class as usize].rounds[kind.index()];
        round.turn = next;
        round.last = strand;
        self.remove(index)
    }

    /// Puts a waiter behind all others of its strand: its source, or any number below
    /// [`limits::SOURCES_MAX`] for those that want no turns. The caller has seen that there is
    /// room.
    pub(super) fn push(&mut self, waiter: Waiter, strand: Strand) -> Ticket {
        let index = self.free;
        let node = &mut self.nodes[index as usize];
        self.free = node.age.next;
        node.waiter = waiter;
        node.strand = strand;
        node.is_used = true;
        (node.age, node.turn) = (NO_LINKS, NO_LINKS);
        let generation = node.generation;

        self.link(index);
        self.count += 1;
        Ticket { index, generation }
    }

    pub(super) fn remove(&mut self, index: u32) -> Waiter {
        let waiter = self.unlink(index);
        let node = &mut self.nodes[index as usize];
        node.is_used = false;
        node.generation = node.generation.wrapping_add(1);
        node.age.next = std::mem::replace(&mut self.free, index);
        self.count -= 1;
        waiter
    }

    /// Puts a waiter into another class, by its age, under the same ticket.
    pub(super) fn move_to(&mut self, index: u32, class: Class) {
        self.unlink(index);
        self.nodes[index as usize].waiter.class = class;
        self.link(index);
    }

    fn link(&mut self, index: u32) {
        let Node { waiter, strand, .. } = self.nodes[index as usize];
        let line = &mut self.lines[waiter.class as usize];
        line.rounds[waiter.kind().index()].count += 1;
        line.until_ns = line.until_ns.min(waiter.until_ns);
        insert(&mut self.nodes, &mut line.by_age, index, |node| {
            &mut node.age
        });
        let cell = cell_of(waiter.class, waiter.kind(), strand);
        if self.cells[cell].ends.oldest == NONE {
            self.join_round(waiter.class, waiter.kind(), strand);
        }
        insert(&mut self.nodes, &mut self.cells[cell].ends, index, |node| {
            &mut node.turn
        });
    }

    fn unlink(&mut self, index: u32) -> Waiter {
        let Node { waiter, strand, .. } = self.nodes[index as usize];
        let line = &mut self.lines[waiter.class as usize];
        line.rounds[waiter.kind().index()].count -= 1;
        unlink(&mut self.nodes, &mut line.by_age, index, |node| {
            &mut node.age
        });
        let cell = cell_of(waiter.class, waiter.kind(), strand);
        unlink(&mut self.nodes, &mut self.cells[cell].ends, index, |node| {
            &mut node.turn
        });
        if self.cells[cell].ends.oldest == NONE {
            self.leave_round(waiter.class, waiter.kind(), strand);
        }
        waiter
    }

    /// A strand with its first waiter joins at the end of the round.
    fn join_round(&mut self, class: Class, kind: Kind, strand: Strand) {
        let round = &mut self.lines[class as usize].rounds[kind.index()];
        if round.turn == NO_STRAND {
            round.turn = strand;
            let cell = &mut self.cells[cell_of(class, kind, strand)];
            (cell.next, cell.previous) = (strand, strand);
            return;
        }
        let next = round.turn;
        let previous = self.cells[cell_of(class, kind, next)].previous;
        self.cells[cell_of(class, kind, previous)].next = strand;
        self.cells[cell_of(class, kind, next)].previous = strand;
        let cell = &mut self.cells[cell_of(class, kind, strand)];
        (cell.next, cell.previous) = (next, previous);
    }

    fn leave_round(&mut self, class: Class, kind: Kind, strand: Strand) {
        let Cell { next, previous, .. } = self.cells[cell_of(class, kind, strand)];
        self.cells[cell_of(class, kind, previous)].next = next;
        self.cells[cell_of(class, kind, next)].previous = previous;
        let round = &mut self.lines[class as usize].rounds[kind.index()];
        if round.turn == strand {
            round.turn = if next == strand { NO_STRAND } else { next };
        }
        self.cells[cell_of(class, kind, strand)] = EMPTY_CELL;
    }
}

fn some(index: u32) -> Option<u32> {
    (index != NONE).then_some(index)
}

fn cell_of(class: Class, kind: Kind, strand: Strand) -> usize {
    (class as usize * KINDS + kind.index()) * limits::SOURCES_MAX + usize::from(strand)
}

/// Puts a node behind all that came before it. Nearly always that is the end.
fn insert(nodes: &mut [Node], ends: &mut Ends, index: u32, links: fn(&mut Node) -> &mut Links) {
    let since_ns = nodes[index as usize].waiter.since_ns;
    let (mut previous, mut next) = (ends.newest, NONE);
    while previous != NONE && nodes[previous as usize].waiter.since_ns > since_ns {
        next = previous;
        previous = links(&mut nodes[previous as usize]).previous;
    }
    *links(&mut nodes[index as usize]) = Links { next, previous };
    match some(previous) {
        Some(previous) => links(&mut nodes[previous as usize]).next = index,
        None => ends.oldest = index,
    }
    match some(next) {
        Some(next) => links(&mut nodes[next as usize]).previous = index,
        None => ends.newest = index,
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
