//! Two processes, their words and their eventfds.

use loom::model::Builder;
use loom::sync::Notify;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use sluice_lane::Words;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A rule that a test takes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// Every rule is kept.
    Nothing,
    /// No fence between the ticket and the re-check.
    SleepersFence,
    /// No fence between the commit and the load of the ticket.
    RingersFence,
    /// Sleeps without looking again.
    Recheck,
    /// Goes to sleep by room that was seen after the refusal, not by what was seen at it.
    RefusedRoom,
    /// Looks for work again, but not for room.
    RoomRecheck,
    /// Never says that it wants room.
    RoomBit,
    /// Every sleep has the same ticket.
    NewTicket,
}

/// An eventfd: a ring before the wait ends that wait at once. The checker also wakes it for
/// nothing, once.
pub struct Bell(Notify);

impl Bell {
    pub fn new() -> Self {
        Bell(Notify::new())
    }

    pub fn ring(&self) {
        self.0.notify();
    }

    pub fn wait(&self) {
        self.0.wait();
    }
}

/// One ring's words: `commit` is the producer's, `consume` the consumer's, a ticket each.
pub struct Ring {
    pub commit: AtomicU64,
    pub consume: AtomicU64,
    pub producer_ticket: AtomicU64,
    pub consumer_ticket: AtomicU64,
    pub producer_bell: Bell,
    pub consumer_bell: Bell,
}

impl Ring {
    pub fn new() -> Self {
        Ring {
            commit: AtomicU64::new(0),
            consume: AtomicU64::new(0),
            producer_ticket: AtomicU64::new(0),
            consumer_ticket: AtomicU64::new(0),
            producer_bell: Bell::new(),
            consumer_bell: Bell::new(),
        }
    }
}

/// How many more steps a process makes before it is killed; None: it is not.
pub struct Life(Cell<Option<u32>>);

impl Life {
    pub fn whole() -> Self {
        Life(Cell::new(None))
    }

    pub fn of_steps(steps: u32) -> Self {
        Life(Cell::new(Some(steps)))
    }

    /// Takes one step; false when the process is dead, whose stores no longer happen.
    pub fn step(&self) -> bool {
        match self.0.get() {
            None => true,
            Some(0) => false,
            Some(left) => {
                self.0.set(Some(left - 1));
                true
            }
        }
    }

    pub fn is_over(&self) -> bool {
        self.0.get() == Some(0)
    }
}

/// Which end of the ring a process is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Producer,
    Consumer,
}

/// The words as one process reaches them, with a rule taken out.
///
/// The ring of the other direction stays empty: a producer sees nothing published, a consumer needs
/// no room. Tickets are relaxed, which is weaker than the accessors of shared memory.
pub struct Side<'a> {
    pub ring: &'a Ring,
    pub end: End,
    pub without: Without,
    pub life: &'a Life,
    /// What the process saw last: what it goes by when it does not look again.
    pub seen: Cell<u64>,
}

impl<'a> Side<'a> {
    pub fn new(ring: &'a Ring, end: End, without: Without, life: &'a Life) -> Self {
        Side {
            ring,
            end,
            without,
            life,
            seen: Cell::new(0),
        }
    }

    fn load(&self, word: &AtomicU64, order: Ordering) -> u64 {
        if self.life.step() {
            word.load(order)
        } else {
            0
        }
    }

    fn fenced(&self, rule: Without) {
        if self.without != rule && self.life.step() {
            fence(Ordering::SeqCst);
        }
    }

    /// The words of the decision to ring.
    pub fn ringing(&self) -> Ringing<'_> {
        Ringing(self)
    }
}

impl Words for Side<'_> {
    fn peer_ticket(&self) -> u64 {
        unreachable!("a sleeper does not look at the peer's ticket")
    }

    fn store_ticket(&self, ticket: u64) {
        let ticket = match self.without {
            Without::RoomBit => ticket & !2,
            Without::NewTicket => ticket & 3 | 8,
            _ => ticket,
        };
        let word = match self.end {
            End::Producer => &self.ring.producer_ticket,
            End::Consumer => &self.ring.consumer_ticket,
        };
        if self.life.step() {
            word.store(ticket, Ordering::Relaxed);
        }
    }

    fn published(&self) -> u64 {
        match self.end {
            End::Producer => 0,
            End::Consumer if self.without == Without::Recheck => self.seen.get(),
            End::Consumer => self.load(&self.ring.commit, Ordering::Acquire),
        }
    }

    fn room(&self) -> u64 {
        if self.without == Without::RoomRecheck {
            return self.seen.get();
        }
        self.load(&self.ring.consume, Ordering::Acquire)
    }

    fn fence(&self) {
        self.fenced(Without::SleepersFence);
    }
}

/// The same words for the other half of the doorbell, whose fence is another rule.
pub struct Ringing<'a>(&'a Side<'a>);

impl Words for Ringing<'_> {
    fn peer_ticket(&self) -> u64 {
        let ring = self.0.ring;
        let word = match self.0.end {
            End::Producer => &ring.consumer_ticket,
            End::Consumer => &ring.producer_ticket,
        };
        self.0.load(word, Ordering::Relaxed)
    }

    fn store_ticket(&self, _ticket: u64) {
        unreachable!("a ringer has no ticket")
    }

    fn published(&self) -> u64 {
        unreachable!("a ringer does not look for work")
    }

    fn room(&self) -> u64 {
        unreachable!("a ringer does not look for room")
    }

    fn fence(&self) {
        self.0.fenced(Without::RingersFence);
    }
}

/// Explores a model; it must hold.
pub fn holds(model: impl Fn() + Sync + Send + 'static) {
    bounded().check(model);
}

/// What goes wrong in a model that lacks a rule; None: nothing, within the bounds.
pub fn fault(model: impl Fn() + Sync + Send + 'static) -> Option<String> {
    let run = AssertUnwindSafe(|| bounded().check(model));
    let panic = catch_unwind(run).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
    Some(text.unwrap_or_default())
}

/// Explores a model that lacks a rule; the checker must find the fault whose text has `what` in it.
pub fn fails(what: &str, model: impl Fn() + Sync + Send + 'static) {
    let found = fault(model).expect("the model holds without a rule that it needs");
    assert!(
        found.to_lowercase().contains(what),
        "another fault than {what:?}: {found}"
    );
}

/// How often a process is stopped although it could go on; SLUICE_SOAK asks for more.
fn bounded() -> Builder {
    let mut builder = Builder::new();
    let soak = std::env::var_os("SLUICE_SOAK").is_some();
    builder.preemption_bound = Some(if soak { 5 } else { 3 });
    builder
}
