//! One worker's decisions: the class, a slot, the bounded hold, or neither.

use super::Numbers;
use super::class::{Class, Priority};
use super::queue::{Kind, Queue, Ticket, Waiter};
use super::share::Share;
use super::slots::Slots;
use crate::limits;

const LIGHT: Kind = Kind::new(false, false);
const HEAVY: Kind = Kind::new(false, true);
const LIGHT_RING: Kind = Kind::new(true, false);
const HEAVY_RING: Kind = Kind::new(true, true);
const KINDS: [Kind; 4] = [LIGHT, HEAVY, LIGHT_RING, HEAVY_RING];

/// A request that is whole and asks to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The caller's name for it.
    pub token: u64,
    /// Its source's slot, under what [`Slots`] were made for.
    pub source: u16,
    /// Its source's priority.
    pub priority: Priority,
    /// Its sender never tries again.
    pub never_retries: bool,
    /// It was seen before, or its sender says so. Means nothing with `never_retries`.
    pub repeat: bool,
    /// It looks like a handshake: it may use the floor.
    pub handshake: bool,
    /// Its sender probes with wrong signatures: it may use the floor.
    pub probes: bool,
    /// Refusals in a row from which on its source counts as of priority high and may use the floor;
    /// 0: never.
    pub guard_after: u32,
    /// The end of its sender's budget: an answer later than this helps nobody.
    pub until_ns: u64,
    /// Acknowledged at `ring`: it takes no slot, see [`Admission::pause_ring`].
    pub ring: bool,
    /// What it takes to judge it, see [`Admission::bound_weight`]; 0: nothing that counts.
    pub weight: u32,
}

/// What becomes of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on. A slot was taken for it unless it is a ring request.
    Admit,
    /// As [`Verdict::Admit`], by the floor.
    Floor,
    /// It waits. When the queue was full, another one had to leave for it.
    Hold {
        /// Names it until it leaves.
        ticket: Ticket,
        /// The one to answer as shed ([`Shed::Outranked`]).
        pushed_out: Option<Waiter>,
    },
    /// It is refused.
    Shed(Shed),
}

/// Why a request is shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shed {
    /// The queue is full, and nobody in it is of a lower class.
    HeldFull,
    /// Its bound is spent, or too little is left of its budget to wait at all.
    HoldSpent,
    /// The queue was full and one of a higher class came.
    Outranked,
}

/// What [`Admission::grant`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// This one goes on. A slot was taken for it unless it is a ring request.
    Admit(Waiter),
    /// This one leaves: it had waited beyond its bound when its turn came, or more are held than
    /// may be and it is the one to go.
    Shed(Waiter, Shed),
    /// A slot is free, and those that go first wait at this worker: wake it. Said once until that
    /// worker calls [`Admission::grant`].
    Elsewhere(usize),
    /// Nothing to do: no slot or nobody.
    Idle,
}

/// What the floor has for an offer.
enum Floor {
    /// Nothing.
    Closed,
    /// A slot, unless it is a ring request.
    Slot,
    /// The next slot: a place in class High.
    Turn,
}

/// One worker's share of admission.
pub struct Admission {
    worker: usize,
    queue: Queue,
    ring_is_paused: bool,
    /// Of what was admitted and not answered, and its bounds.
    weight: u64,
    weight_share: u64,
    weight_max: u64,
    /// Whether the heavy ones that wait for a slot are counted among those that do.
    counts_heavy: bool,
    /// The last one that was served was heavy.
    was_heavy: bool,
}

impl Admission {
    /// Of worker number `worker` of those that [`Slots`] were made for. `capacity` bounds what it
    /// holds, at most [`limits::HELD_MAX`]; [`Numbers::max_held`] bounds all workers.
    pub fn new(worker: usize, capacity: usize) -> Admission {
        assert!(worker < limits::WORKERS_MAX);
        Admission {
            worker,
            queue: Queue::new(capacity),
            ring_is_paused: false,
            weight: 0,
            weight_share: u64::MAX,
            weight_max: u64::MAX,
            counts_heavy: true,
            was_heavy: false,
        }
    }

    /// Requests that are held here.
    pub fn held(&self) -> usize {
        self.queue.count()
    }

    /// Requests of a class that are held here.
    pub fn held_of(&self, class: Class) -> u32 {
        KINDS
            .map(|kind| self.queue.count_of(class, kind))
            .iter()
            .sum()
    }

    /// Bounds the weight of what this worker admits and is not answered. Up to `share` heavy
    /// requests wait like all others; from there on they go where nobody else waits for a slot;
    /// from `max` on they do not, so others go past them. `max` 0: they are like all others. One
    /// that comes by the floor goes on.
    pub fn bound_weight(&mut self, share: u32, max: u32, slots: &Slots) {
        (self.weight_share, self.weight_max) = match max {
            0 => (u64::MAX, u64::MAX),
            _ => (u64::from(share.min(max)), u64::from(max)),
        };
        self.count_heavy(slots);
    }

    /// A request of that weight was answered, or given up after it was admitted.
    pub fn give_weight(&mut self, weight: u32, slots: &Slots) {
        self.weight = self
            .weight
            .checked_sub(u64::from(weight))
            .expect("a weight was given back twice");
        self.count_heavy(slots);
    }

    fn take_weight(&mut self, weight: u32, slots: &Slots) {
        self.weight += u64::from(weight);
        self.count_heavy(slots);
    }

    /// Heavy ones that wait for a slot are among those that do only below their share: else others
    /// would stand behind what goes last.
    fn count_heavy(&mut self, slots: &Slots) {
        let counts = self.weight < self.weight_share;
        if counts == self.counts_heavy {
            return;
        }
        self.counts_heavy = counts;
        for class in Class::ALL {
            let heavy = self.queue.count_of(class, HEAVY);
            let light = self.queue.count_of(class, LIGHT);
            match (heavy, counts) {
                (0, _) => {}
                (_, true) => slots.wait(class, self.worker, light, heavy),
                (_, false) => slots.leave(class, self.worker, light, heavy),
            }
        }
    }

    /// Those of a class that are counted among who waits for a slot.
    fn counted(&self, class: Class) -> u32 {
        let heavy = match self.counts_heavy {
            true => self.queue.count_of(class, HEAVY),
            false => 0,
        };
        heavy + self.queue.count_of(class, LIGHT)
    }

    fn is_counted(&self, waiter: &Waiter) -> bool {
        !waiter.ring && (waiter.weight == 0 || self.counts_heavy)
    }

    /// Judges a whole request's class, and gives it a slot, a place in the queue, or neither.
    pub fn offer(
        &mut self,
        now_ns: u64,
        offer: &Offer,
        numbers: &Numbers,
        slots: &Slots,
    ) -> (Class, Verdict) {
        let is_guarded = slots.is_guarded(offer.source, offer.guard_after);
        let class = judge(now_ns, offer, is_guarded, numbers, slots);
        if self.goes_on(now_ns, class, offer, numbers, slots) {
            self.take_weight(offer.weight, slots);
            return (class, Verdict::Admit);
        }
        let class = match self.use_floor(now_ns, offer, is_guarded, numbers, slots) {
            Floor::Slot => {
                self.take_weight(offer.weight, slots);
                return (class, Verdict::Floor);
            }
            Floor::Turn => Class::High,
            Floor::Closed => class,
        };
        let waiter = Waiter {
            token: offer.token,
            class,
            source: offer.source,
            since_ns: now_ns,
            until_ns: offer.until_ns,
            ring: offer.ring,
            guard_after: offer.guard_after,
            weight: offer.weight,
        };
        if numbers.is_spent(&waiter, now_ns, slots.overloaded()) {
            return (class, Verdict::Shed(Shed::HoldSpent));
        }
        (class, self.hold(waiter, numbers, slots))
    }

    /// What the floor has for an offer that would not get a slot now. What must be answered goes
    /// before those that only have had no success (at a start nobody has), and where no slot is
    /// left for it, is next to get one.
    fn use_floor(
        &self,
        now_ns: u64,
        offer: &Offer,
        is_guarded: bool,
        numbers: &Numbers,
        slots: &Slots,
    ) -> Floor {
        let is_urgent = is_guarded || offer.handshake || offer.probes;
        let may_use = is_urgent || slots.is_starved(offer.source, now_ns);
        if !may_use || !slots.has_floor(now_ns, offer.source, !is_urgent, numbers) {
            return Floor::Closed;
        }
        let has_slot = offer.ring || slots.take_floor(!is_urgent, numbers);
        if !has_slot && (!is_urgent || numbers.is_codel()) {
            return Floor::Closed;
        }
        let is_paid = slots.pay_floor(now_ns, offer.source, numbers);
        match (is_paid, has_slot) {
            (true, true) => Floor::Slot,
            (true, false) => Floor::Turn,
            (false, _) => {
                if has_slot && !offer.ring {
                    slots.give();
                }
                Floor::Closed
            }
        }
    }

    /// Whether an offer need not wait; its slot is taken then.
    fn goes_on(
        &self,
        now_ns: u64,
        class: Class,
        offer: &Offer,
        numbers: &Numbers,
        slots: &Slots,
    ) -> bool {
        let up_to = &Class::ALL[..=class as usize];
        let waits = |kind| {
            up_to
                .iter()
                .any(|&class| self.queue.count_of(class, kind) > 0)
        };
        let is_heavy = offer.weight > 0;
        if is_heavy && (self.weight >= self.weight_max || waits(HEAVY) || waits(HEAVY_RING)) {
            return false;
        }
        if offer.ring {
            // Those that waited for room go first; they do so in this turn.
            return !self.ring_is_paused && !waits(LIGHT_RING);
        }
        let last = match is_heavy && !self.counts_heavy {
            true => Class::LowOverShare,
            false => class,
        };
        let goes_on =
            !slots.waits_up_to(last) && slots.take_paced(now_ns, numbers, numbers.limit_of(class));
        if goes_on && numbers.is_codel() {
            slots.note_hold(0);
        }
        goes_on
    }

    fn hold(&mut self, waiter: Waiter, numbers: &Numbers, slots: &Slots) -> Verdict {
        let mut pushed_out = None;
        if self.queue.is_full() {
            let Some(index) = self.lowest_below(waiter.class) else {
                return Verdict::Shed(Shed::HeldFull);
            };
            pushed_out = Some(self.take_out(index, slots));
        } else if slots.held() >= numbers.max_held {
            if !slots.holds_below(waiter.class, numbers.max_held) {
                return Verdict::Shed(Shed::HeldFull);
            }
            // One of the lowest class leaves for it: from here, or when its worker looks next.
            let lowest = slots.lowest_held().filter(|&lowest| lowest > waiter.class);
            if let Some(index) = lowest.and_then(|lowest| self.queue.oldest(lowest)) {
                pushed_out = Some(self.take_out(index, slots));
            }
        }
        let class = waiter.class;
        if self.is_counted(&waiter) {
            slots.wait(class, self.worker, self.counted(class), 1);
        }
        slots.hold(class, waiter.since_ns);
        // First come, first served is one strand for all sources.
        let strand = if numbers.is_codel() { 0 } else { waiter.source };
        let ticket = self.queue.push(waiter, strand);
        Verdict::Hold { ticket, pushed_out }
    }

    /// Gives back the slot of an admitted request.
    pub fn release(&mut self, slots: &Slots) {
        slots.give();
    }

    /// Lets whoever goes first go on: a ring request while its lane has room, another one when a
    /// slot is free. Each call moves at most one request.
    pub fn grant(&mut self, now_ns: u64, numbers: &Numbers, slots: &Slots) -> Grant {
        slots.looks(self.worker);
        if let Some(index) = self.excess(numbers, slots) {
            return Grant::Shed(self.take_out(index, slots), Shed::Outranked);
        }
        let overloaded = slots.overloaded();
        // Ring requests need nothing that the others want, so those of lower classes go on when no
        // slot is left, or when it is for those that wait elsewhere.
        let (mut is_full, mut elsewhere) = (false, None);
        for class in Class::ALL {
            let newest_first = !numbers.is_codel() && overloaded & class.bit() != 0;
            if !self.ring_is_paused
                && let Some(index) = self.turn(class, true, newest_first)
            {
                if self.is_spent(index, now_ns, numbers, slots) {
                    return Grant::Shed(self.take_out(index, slots), Shed::HoldSpent);
                }
                return Grant::Admit(self.serve(index, slots));
            }
            if is_full || elsewhere.is_some() || slots.waiting(class) == 0 {
                continue;
            }
            let limit = numbers.limit_of(class);
            if slots.inflight() >= limit {
                is_full = true;
                continue;
            }
            let Some(index) = self.turn(class, false, newest_first) else {
                elsewhere = Some(class);
                continue;
            };
            if self.is_spent(index, now_ns, numbers, slots) {
                return Grant::Shed(self.take_out(index, slots), Shed::HoldSpent);
            }
            if slots.take_paced(now_ns, numbers, limit) {
                let waiter = self.serve(index, slots);
                if numbers.is_codel() {
                    slots.note_hold(now_ns.saturating_sub(waiter.since_ns));
                }
                return Grant::Admit(waiter);
            }
            is_full = true;
        }
        let Some(class) = elsewhere else {
            return match is_full {
                true => Grant::Idle,
                false => self.grant_last(now_ns, numbers, slots),
            };
        };
        match slots.other_place(class, self.worker) {
            Some(grant) => grant,
            // They have just left, so it is for the next class: look again.
            None => self.grant(now_ns, numbers, slots),
        }
    }

    /// Nobody else waits for a slot: heavy ones over their share may have it.
    fn grant_last(&mut self, now_ns: u64, numbers: &Numbers, slots: &Slots) -> Grant {
        if self.counts_heavy || self.weight >= self.weight_max {
            return Grant::Idle;
        }
        let overloaded = slots.overloaded();
        for class in Class::ALL {
            let newest_first = !numbers.is_codel() && overloaded & class.bit() != 0;
            let Some(index) = self.queue.turn(class, HEAVY, newest_first) else {
                continue;
            };
            if self.is_spent(index, now_ns, numbers, slots) {
                return Grant::Shed(self.take_out(index, slots), Shed::HoldSpent);
            }
            return match slots.take_paced(now_ns, numbers, numbers.limit_of(class)) {
                true => Grant::Admit(self.serve(index, slots)),
                false => Grant::Idle,
            };
        }
        Grant::Idle
    }

    /// Whose turn it is in a class: light and heavy ones take turns, as far as the latter may.
    fn turn(&self, class: Class, ring: bool, newest_first: bool) -> Option<u32> {
        let of = |heavy| self.queue.turn(class, Kind::new(ring, heavy), newest_first);
        let light = of(false);
        let may_be_heavy = match ring {
            true => self.weight < self.weight_max,
            false => self.counts_heavy,
        };
        match may_be_heavy.then(|| of(true)).flatten() {
            heavy if self.was_heavy => light.or(heavy),
            heavy => heavy.or(light),
        }
    }

    /// Sheds all that have waited beyond their bound: the lowest class first, in it the oldest.
    pub fn expire(
        &mut self,
        now_ns: u64,
        numbers: &Numbers,
        slots: &Slots,
        mut shed: impl FnMut(Waiter),
    ) {
        let overloaded = slots.overloaded();
        for class in Class::ALL.into_iter().rev() {
            // Behind one that is too young only a budget can have ended.
            let a_budget_ended = now_ns >= numbers.budget_end(self.queue.until(class));
            let mut until_ns = u64::MAX;
            let mut next = self.queue.oldest(class);
            while let Some(index) = next {
                next = self.queue.younger(index);
                let waiter = *self.queue.waiter(index);
                if self.is_spent(index, now_ns, numbers, slots) {
                    shed(self.take_out(index, slots));
                } else if numbers.is_spent(&waiter, now_ns, overloaded) {
                    self.raise(index, now_ns, slots);
                } else if a_budget_ended {
                    until_ns = until_ns.min(waiter.until_ns);
                } else {
                    break;
                }
            }
            if a_budget_ended {
                self.queue.set_until(class, until_ns);
            }
        }
    }

    /// Whether a waiter has waited in vain. One whose source came to be guarded meanwhile has the
    /// bound of class High: else all that wait when the guard begins to hold would be refused
    /// before an answer can come, and those may be more than the provider still forgives.
    fn is_spent(&self, index: u32, now_ns: u64, numbers: &Numbers, slots: &Slots) -> bool {
        let waiter = self.queue.waiter(index);
        let is_spent = |class| {
            let waiter = Waiter { class, ..*waiter };
            numbers.is_spent(&waiter, now_ns, slots.overloaded())
        };
        is_spent(waiter.class)
            && (numbers.is_codel()
                || !slots.is_guarded(waiter.source, waiter.guard_after)
                || is_spent(Class::High))
    }

    /// Makes a waiter one of class High.
    fn raise(&mut self, index: u32, now_ns: u64, slots: &Slots) {
        let waiter = *self.queue.waiter(index);
        if self.is_counted(&waiter) {
            slots.wait(Class::High, self.worker, self.counted(Class::High), 1);
        }
        slots.hold(Class::High, now_ns);
        self.queue.move_to(index, Class::High);
        self.has_left(&waiter, slots);
    }

    /// The sender of a held request went away. `false`: it had left the queue already.
    pub fn cancel(&mut self, ticket: Ticket, slots: &Slots) -> bool {
        let found = self.queue.find(ticket);
        if let Some(index) = found {
            self.take_out(index, slots);
        }
        found.is_some()
    }

    /// While this worker's lane is half full its ring requests are held. They wait for room, not
    /// for a slot, and so keep none from others.
    pub fn pause_ring(&mut self, pause: bool) {
        self.ring_is_paused = pause;
    }

    /// The oldest waiter here of the lowest class below `class`.
    fn lowest_below(&self, class: Class) -> Option<u32> {
        let below = Class::ALL[class as usize + 1..].iter().rev();
        below.copied().find_map(|lower| self.queue.oldest(lower))
    }

    /// Who leaves while more are held than may be: the oldest of the lowest class, at the worker
    /// that holds one of it.
    fn excess(&self, numbers: &Numbers, slots: &Slots) -> Option<u32> {
        if self.queue.count() == 0 || slots.held() <= numbers.max_held {
            return None;
        }
        self.queue.oldest(slots.lowest_held()?)
    }

    fn serve(&mut self, index: u32, slots: &Slots) -> Waiter {
        let waiter = self.queue.serve(index);
        self.has_left(&waiter, slots);
        self.was_heavy = waiter.weight > 0;
        self.take_weight(waiter.weight, slots);
        waiter
    }

    fn take_out(&mut self, index: u32, slots: &Slots) -> Waiter {
        let waiter = self.queue.remove(index);
        self.has_left(&waiter, slots);
        waiter
    }

    fn has_left(&self, waiter: &Waiter, slots: &Slots) {
        slots.unhold(waiter.class);
        if self.is_counted(waiter) {
            let left = self.counted(waiter.class);
            slots.leave(waiter.class, self.worker, left, 1);
        }
    }
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let held = Class::ALL.map(|class| self.held_of(class));
        write!(
            f,
            "Admission {{ worker: {}, held: {held:?}, ring_is_paused: {} }}",
            self.worker, self.ring_is_paused
        )
    }
}

/// The class of a request. What is judged by its source's share and found within has paid for it;
/// a repeat pays nothing, or it would push its source's first tries out of their share.
fn judge(now_ns: u64, offer: &Offer, is_guarded: bool, numbers: &Numbers, slots: &Slots) -> Class {
    if numbers.is_codel() {
        return Class::Default;
    }
    let priority = match is_guarded {
        true => Priority::High,
        false => offer.priority,
    };
    let is_repeat = offer.repeat && !offer.never_retries && priority != Priority::High;
    if is_repeat && priority == Priority::Default {
        return Class::Repeat;
    }
    let is_within = Share::new(numbers.share_rate_milli).is_none_or(|share| {
        let word = slots.share(offer.source);
        match is_repeat {
            true => share.has(word, now_ns, priority),
            false => share.pay(word, now_ns, priority),
        }
    });
    match (priority, is_within) {
        (Priority::High, _) => Class::High,
        (Priority::Default, true) if offer.never_retries => Class::NeverRetries,
        (Priority::Default, true) => Class::Default,
        (Priority::Default, false) if offer.never_retries => Class::NeverRetriesOverShare,
        (Priority::Default, false) => Class::DefaultOverShare,
        (Priority::Low, true) if is_repeat => Class::Repeat,
        (Priority::Low, true) => Class::Low,
        (Priority::Low, false) => Class::LowOverShare,
    }
}
