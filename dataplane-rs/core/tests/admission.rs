//! Three workers with one set of slots, driven at random, against what must always hold.

mod offers;
mod seed;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use offers::{MS, NUMBERS, SECOND, rounds};
use seed::Seed;
use sluice_core::admission::{
    Admission, Class, Grant, Numbers, Offer, Priority, Shed, Slots, Ticket, Verdict, Waiter,
};

const WORKERS: usize = 3;
const CAPACITY: usize = 10;

/// A held request as the test knows it; the key is its token, which grows with time.
#[derive(Clone, Copy, Debug)]
struct Held {
    worker: usize,
    class: Class,
    offer: Offer,
    ticket: Ticket,
    since_ns: u64,
    /// Its place among those that began to wait in the same instant.
    place: u64,
}

/// Whoever is raised to another class stands behind all that began to wait when it did.
const RAISED: u64 = 1 << 32;

impl Held {
    fn age(&self) -> (u64, u64) {
        (self.since_ns, self.place)
    }
}

#[derive(Clone, Copy)]
struct Source {
    priority: Priority,
    never_retries: bool,
    probes: bool,
    guard_after: u32,
    refused_in_row: u64,
    last_success_ns: Option<u64>,
    floor: Bucket,
}

/// Tokens as everybody would write them down.
#[derive(Clone, Copy)]
struct Bucket {
    tokens: f64,
    at_ns: u64,
    rate: f64,
    cap: f64,
}

impl Bucket {
    fn new(rate: f64, cap: f64) -> Bucket {
        Bucket {
            tokens: cap,
            at_ns: 0,
            rate,
            cap,
        }
    }

    fn level(&mut self, now_ns: u64) -> f64 {
        let passed_s = (now_ns - self.at_ns) as f64 / SECOND as f64;
        self.tokens = (self.tokens + passed_s * self.rate).min(self.cap);
        self.at_ns = now_ns;
        self.tokens
    }
}

/// How classes and turns are.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Queue,
    Codel,
    /// From one to the other and back: then nothing is said about turns.
    Changing,
}

struct World {
    slots: Slots,
    workers: Vec<Admission>,
    numbers: Numbers,
    mode: Mode,
    sources: Vec<Source>,
    floor: Bucket,
    paused: [bool; WORKERS],
    /// Told to be woken, and has not looked yet.
    named: [bool; WORKERS],
    held: BTreeMap<u64, Held>,
    inflight: u64,
    /// Source served last, by worker, kind and class.
    last: [[[Option<u16>; Class::COUNT]; 2]; WORKERS],
    now_ns: u64,
    tokens: u64,
    raised: u64,
    offered: [u64; Class::COUNT],
    shed: [u64; Class::COUNT],
    left: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(seed: &mut Seed, mode: Mode) -> World {
        let priorities = [
            Priority::High,
            Priority::Default,
            Priority::Default,
            Priority::Low,
            Priority::Low,
        ];
        let source = |&priority: &Priority| Source {
            priority,
            never_retries: seed.chance(2),
            probes: seed.chance(8),
            guard_after: [0, 1, 2, 3][seed.index(4)],
            refused_in_row: 0,
            last_success_ns: None,
            floor: Bucket::new(2.0, 2.0),
        };
        let sources = priorities.iter().map(source).collect();
        let floor_rate = [0, 1, 5][seed.index(3)];
        let mut world = World {
            slots: Slots::new(WORKERS, priorities.len()),
            workers: (0..WORKERS)
                .map(|worker| Admission::new(worker, CAPACITY))
                .collect(),
            numbers: NUMBERS,
            mode,
            sources,
            floor: Bucket::new(floor_rate as f64, floor_rate as f64),
            paused: [false; WORKERS],
            named: [false; WORKERS],
            held: BTreeMap::new(),
            inflight: 0,
            last: [[[None; Class::COUNT]; 2]; WORKERS],
            now_ns: SECOND,
            tokens: 0,
            raised: 0,
            offered: [0; Class::COUNT],
            shed: [0; Class::COUNT],
            left: BTreeMap::new(),
        };
        world.numbers.floor_rate_milli = 1000 * floor_rate;
        world.change_numbers(seed);
        world
    }

    fn change_numbers(&mut self, seed: &mut Seed) {
        let is_codel = match self.mode {
            Mode::Queue => false,
            Mode::Codel => true,
            Mode::Changing => seed.chance(2),
        };
        self.numbers = Numbers {
            limit: seed.between(1, 6),
            floor_slots: seed.below(3),
            floor_rate_milli: self.numbers.floor_rate_milli,
            max_held: seed.between(4, 25),
            hold_budget_ns: seed.between(20, 600) * MS,
            hold_bound_ns: seed.below(3) * 40 * MS,
            growing: seed.chance(4),
            service_time_ns: seed.below(60) * MS,
            repeat_share_milli: [0, 500, 800][seed.index(3)],
            share_rate_milli: [0, 3000, 20_000][seed.index(3)],
            codel_target_ns: if is_codel { 5 * MS } else { 0 },
            codel_interval_ns: 100 * MS,
            pace_interval_ns: 0,
            pace_depth_ns: 0,
        };
    }

    fn is_codel(&self) -> bool {
        self.numbers.codel_target_ns > 0
    }

    fn limit_of(&self, class: Class) -> u64 {
        if class == Class::Repeat && self.numbers.repeat_share_milli > 0 {
            (self.numbers.limit * self.numbers.repeat_share_milli / 1000).max(1)
        } else {
            self.numbers.limit
        }
    }

    /// The first class in which anybody waits for a slot.
    fn first_class(&self) -> Option<Class> {
        let wait_for_slot = self.held.values().filter(|held| !held.offer.ring);
        wait_for_slot.map(|held| held.class).min()
    }

    /// How long a class may be held.
    fn bound(&self, class: Class) -> u64 {
        let numbers = &self.numbers;
        if self.slots.overloaded() & class.bit() == 0 {
            return numbers.hold_budget_ns;
        }
        let h = numbers.hold_bound_ns;
        let w = numbers.service_time_ns;
        let bound = match class {
            _ if self.is_codel() => 10 * MS,
            _ if h == 0 => u64::MAX,
            Class::High => h.max(3 * w).max(50 * MS),
            Class::NeverRetries | Class::Default | Class::Low => h.max(w).max(50 * MS),
            _ => h.max(w).max(10 * MS),
        };
        let bound = if numbers.growing && !self.is_codel() {
            bound.max(250 * MS)
        } else {
            bound
        };
        bound.min(numbers.hold_budget_ns)
    }

    fn is_too_late(&self, until_ns: u64) -> bool {
        self.now_ns >= until_ns.saturating_sub(2 * self.numbers.service_time_ns)
    }

    fn is_spent_as(&self, held: &Held, class: Class) -> bool {
        self.is_too_late(held.offer.until_ns) || self.now_ns - held.since_ns >= self.bound(class)
    }

    /// Those of a guarded source have the bound of class High.
    fn is_spent(&self, held: &Held) -> bool {
        let is_guarded = !self.is_codel() && self.is_guarded(held.offer.source);
        self.is_spent_as(held, held.class) && (!is_guarded || self.is_spent_as(held, Class::High))
    }

    /// The oldest of a class at a worker.
    fn oldest(&self, worker: usize, class: Class) -> Option<u64> {
        let of_class = self
            .held
            .iter()
            .filter(|(_, held)| held.worker == worker && held.class == class);
        let oldest = of_class.min_by_key(|(_, held)| held.age());
        oldest.map(|(&token, _)| token)
    }

    fn lowest(&self, at: impl Fn(&Held) -> bool) -> Option<Class> {
        let held = self.held.values().filter(|held| at(held));
        held.map(|held| held.class).max()
    }

    fn left(&mut self, why: &'static str) {
        *self.left.entry(why).or_default() += 1;
    }

    fn forget(&mut self, waiter: &Waiter, why: &'static str) -> Held {
        self.left(why);
        let held = self
            .held
            .remove(&waiter.token)
            .expect("left twice, or never held");
        assert_eq!(
            (waiter.class, waiter.source, waiter.ring),
            (held.class, held.offer.source, held.offer.ring)
        );
        assert_eq!(
            (waiter.since_ns, waiter.until_ns),
            (held.since_ns, held.offer.until_ns)
        );
        held
    }

    fn is_guarded(&self, source: u16) -> bool {
        let source = &self.sources[usize::from(source)];
        source.guard_after > 0 && source.refused_in_row >= u64::from(source.guard_after)
    }

    /// What a request may be judged as: within its share and over it.
    fn classes(&self, offer: &Offer) -> [Class; 2] {
        if self.is_codel() {
            return [Class::Default; 2];
        }
        let repeat = offer.repeat && !offer.never_retries;
        match offer.priority {
            _ if self.is_guarded(offer.source) => [Class::High; 2],
            Priority::High => [Class::High; 2],
            Priority::Default if offer.never_retries => {
                [Class::NeverRetries, Class::NeverRetriesOverShare]
            }
            Priority::Default if repeat => [Class::Repeat; 2],
            Priority::Default => [Class::Default, Class::DefaultOverShare],
            Priority::Low if repeat => [Class::Repeat, Class::LowOverShare],
            Priority::Low => [Class::Low, Class::LowOverShare],
        }
    }

    fn offer(&mut self, seed: &mut Seed) {
        let worker = seed.index(WORKERS);
        self.tokens += 1;
        let number = seed.index(self.sources.len());
        let source = self.sources[number];
        let offer = Offer {
            token: self.tokens,
            source: number as u16,
            priority: source.priority,
            never_retries: source.never_retries,
            repeat: seed.chance(4),
            handshake: seed.chance(20),
            probes: source.probes,
            guard_after: source.guard_after,
            until_ns: self.now_ns + seed.below(900) * MS,
            ring: seed.chance(4),
            weight: 0,
        };
        let [within, over] = self.classes(&offer);
        let (class, verdict) =
            self.workers[worker].offer(self.now_ns, &offer, &self.numbers, &self.slots);
        self.offered[class as usize] += 1;
        let may_be_over = self.numbers.share_rate_milli > 0;
        let is_urgent = offer.handshake || offer.probes || self.is_guarded(offer.source);
        let is_next = class == Class::High
            && is_urgent
            && matches!(verdict, Verdict::Hold { .. } | Verdict::Shed(_));
        assert!(
            class == within || (may_be_over && class == over) || is_next,
            "{class:?}"
        );
        let is_admitted = self.expect_admitted(worker, class, &offer, verdict);
        match verdict {
            Verdict::Admit | Verdict::Floor => {
                assert!(is_admitted);
                self.inflight += u64::from(!offer.ring);
            }
            _ => assert!(!is_admitted, "{offer:?} {verdict:?}"),
        }
        self.check_full(worker, class, &offer, verdict);
        match verdict {
            Verdict::Admit => self.left("admitted at once"),
            Verdict::Floor => self.left("admitted by the floor"),
            Verdict::Hold { ticket, pushed_out } => {
                if let Some(waiter) = pushed_out {
                    self.shed[waiter.class as usize] += 1;
                    self.forget(&waiter, "outranked");
                }
                let held = Held {
                    worker,
                    class,
                    offer,
                    ticket,
                    since_ns: self.now_ns,
                    place: offer.token,
                };
                assert!(!self.is_spent(&held));
                self.held.insert(offer.token, held);
            }
            Verdict::Shed(why) => {
                self.shed[class as usize] += 1;
                self.left(match why {
                    Shed::HeldFull => "held full",
                    _ => "no budget",
                });
                assert_eq!(why == Shed::HoldSpent, self.is_too_late(offer.until_ns));
            }
        }
    }

    /// Whether an offer goes on at once; near the edge of a bucket the verdict itself decides.
    fn expect_admitted(
        &mut self,
        worker: usize,
        class: Class,
        offer: &Offer,
        verdict: Verdict,
    ) -> bool {
        let goes_on = if offer.ring {
            let mut here = self.held.values().filter(|held| held.worker == worker);
            !self.paused[worker] && !here.any(|held| held.offer.ring && held.class <= class)
        } else {
            self.first_class().is_none_or(|first| first > class)
                && self.inflight < self.limit_of(class)
        };
        if goes_on {
            assert_eq!(verdict, Verdict::Admit);
            return true;
        }
        assert_ne!(verdict, Verdict::Admit);
        let now_ns = self.now_ns;
        let is_guarded = self.is_guarded(offer.source);
        let source = &mut self.sources[usize::from(offer.source)];
        let starves = source
            .last_success_ns
            .is_none_or(|last_ns| now_ns - last_ns >= 10 * SECOND);
        let is_urgent = offer.handshake || offer.probes || is_guarded;
        let may = is_urgent || starves;
        let floor_slots = match is_urgent {
            true => self.numbers.floor_slots,
            false => self.numbers.floor_slots.div_ceil(2),
        };
        let has_slot = offer.ring || self.inflight < self.numbers.limit + floor_slots;
        let tokens = source.floor.level(now_ns).min(self.floor.level(now_ns));
        let gets_turn = !has_slot && is_urgent && self.numbers.codel_target_ns == 0;
        if !may
            || !(has_slot || gets_turn)
            || self.numbers.floor_rate_milli == 0
            || tokens < 1.0 - 1e-6
        {
            return false;
        }
        let rest = if is_urgent { 0.0 } else { self.floor.cap / 2.0 };
        let spare = self.floor.tokens - rest;
        if spare < -1e-6 {
            return false;
        }
        if gets_turn && class != Class::High {
            assert!(tokens < 1.0 + 1e-6, "it has a token and is not next");
            return false;
        }
        if has_slot && (tokens < 1.0 + 1e-6 || spare < 1e-6) && verdict != Verdict::Floor {
            return false;
        }
        source.floor.tokens -= 1.0;
        self.floor.tokens -= 1.0;
        has_slot
    }

    /// A full queue has room for a class as long as it holds a lower one.
    fn check_full(&self, worker: usize, class: Class, offer: &Offer, verdict: Verdict) {
        let here = |held: &Held| held.worker == worker;
        let count_here = self.held.values().filter(|&held| here(held)).count();
        let excess = (self.held.len() as u64).checked_sub(self.numbers.max_held);
        let below = self.held.values().filter(|held| held.class > class).count() as u64;
        let expected = if count_here == CAPACITY {
            let lowest = self.lowest(here).filter(|&lowest| lowest > class);
            lowest
                .map(|lowest| self.oldest(worker, lowest))
                .ok_or(Shed::HeldFull)
        } else {
            match excess {
                None => Ok(None),
                Some(excess) if excess >= below => Err(Shed::HeldFull),
                Some(_) => {
                    let lowest = self.lowest(|_| true);
                    Ok(lowest.and_then(|lowest| self.oldest(worker, lowest)))
                }
            }
        };
        match verdict {
            Verdict::Hold { pushed_out, .. } => {
                assert_eq!(Ok(pushed_out.map(|waiter| waiter.token)), expected);
            }
            Verdict::Shed(Shed::HeldFull) => assert_eq!(expected, Err(Shed::HeldFull)),
            _ => assert!(verdict != Verdict::Shed(Shed::Outranked), "{offer:?}"),
        }
    }

    /// Grants at one worker until it has nothing to do; says who is to be woken.
    fn grant_all(&mut self, worker: usize) -> Option<usize> {
        loop {
            self.named[worker] = false;
            let first = self.first_class();
            let has_slot = first.is_some_and(|class| self.inflight < self.limit_of(class));
            let here = |held: &&Held| held.worker == worker;
            let ring = self.held.values().filter(here).filter(|h| h.offer.ring);
            let first_ring = ring.map(|held| held.class).min();
            let first_ring = first_ring.filter(|_| !self.paused[worker]);
            let slot_here = self.held.values().filter(here).filter(|h| !h.offer.ring);
            let first_here = slot_here.map(|held| held.class).min();
            let is_over = self.held.len() as u64 > self.numbers.max_held;
            let excess = self.lowest(|_| is_over);
            let excess = excess.and_then(|lowest| self.oldest(worker, lowest));
            let grant = self.workers[worker].grant(self.now_ns, &self.numbers, &self.slots);
            if excess.is_some() {
                assert!(matches!(grant, Grant::Shed(_, Shed::Outranked)));
            }
            match grant {
                Grant::Idle | Grant::Elsewhere(_) => {
                    assert_eq!(first_ring, None, "a ring request is left waiting");
                    let can_give = has_slot && first_here == first;
                    assert!(!can_give, "a slot is left idle");
                    let others = (0..WORKERS).filter(|&other| self.waits_at(other, first));
                    let others: Vec<usize> = others.collect();
                    if let Grant::Elsewhere(other) = grant {
                        assert!(has_slot && others.contains(&other) && other != worker);
                        assert!(!self.named[other], "named twice");
                        self.named[other] = true;
                        return Some(other);
                    }
                    assert!(!has_slot || others.iter().any(|&other| self.named[other]));
                    return None;
                }
                Grant::Shed(waiter, why) => {
                    self.shed[waiter.class as usize] += 1;
                    if why == Shed::Outranked {
                        assert_eq!(Some(waiter.token), excess);
                        self.forget(&waiter, "too many are held");
                        continue;
                    }
                    assert_eq!(why, Shed::HoldSpent);
                    let held = self.forget(&waiter, "spent at its turn");
                    assert!(self.is_spent(&held));
                }
                Grant::Admit(waiter) => {
                    let held = self.forget(&waiter, "granted");
                    assert!(!self.is_spent(&held) && held.worker == worker);
                    if waiter.ring {
                        assert_eq!(Some(waiter.class), first_ring);
                        assert!(!has_slot || first_here != first || first >= first_ring);
                    } else {
                        assert!(has_slot);
                        assert_eq!(Some(waiter.class), first, "a lower class went first");
                        self.inflight += 1;
                    }
                    self.check_turn(worker, &waiter, held.age());
                    let kind = usize::from(waiter.ring);
                    self.last[worker][kind][waiter.class as usize] = Some(waiter.source);
                }
            }
        }
    }

    fn waits_at(&self, worker: usize, class: Option<Class>) -> bool {
        let mut held = self.held.values();
        held.any(|h| h.worker == worker && Some(h.class) == class && !h.offer.ring)
    }

    fn check_turn(&self, worker: usize, served: &Waiter, age: (u64, u64)) {
        if self.mode == Mode::Changing {
            return;
        }
        let overloaded = self.slots.overloaded() & served.class.bit() != 0;
        let newest_first = overloaded && !self.is_codel();
        let rivals: Vec<&Held> = self
            .held
            .values()
            .filter(|h| h.worker == worker && h.class == served.class)
            .filter(|h| h.offer.ring == served.ring)
            .collect();
        let kind = usize::from(served.ring);
        let last = self.last[worker][kind][served.class as usize];
        if !self.is_codel() && last == Some(served.source) {
            let mut others = rivals.iter();
            let waits = others.any(|held| held.offer.source != served.source);
            assert!(!waits, "{served:?} twice in a row");
        }
        for held in rivals {
            if held.offer.source != served.source && !self.is_codel() {
                continue;
            }
            let in_order = if newest_first {
                held.age() < age
            } else {
                held.age() > age
            };
            assert!(in_order, "{held:?} was overtaken by {served:?}");
        }
    }

    fn expire(&mut self, worker: usize) {
        let mut shed = Vec::new();
        self.workers[worker].expire(self.now_ns, &self.numbers, &self.slots, |waiter| {
            shed.push(waiter);
        });
        let order = |w: &Waiter| (Reverse(w.class), self.held[&w.token].age());
        assert!(shed.is_sorted_by_key(order), "out of order: {shed:?}");
        for waiter in &shed {
            self.shed[waiter.class as usize] += 1;
            let held = self.forget(waiter, "expired");
            assert!(self.is_spent(&held) && held.worker == worker);
        }
        let mut rest = self.held.values().filter(|held| held.worker == worker);
        assert!(
            rest.all(|held| !self.is_spent(held)),
            "one beyond its bound stays"
        );
        self.raise(worker);
    }

    /// Whoever would have been shed, but for the guard of its source, is of class High now.
    fn raise(&mut self, worker: usize) {
        for class in Class::ALL.into_iter().rev() {
            let here = |held: &Held| held.worker == worker && held.class == class;
            let of_class = self.held.iter().filter(|(_, held)| here(held));
            let spent = of_class.filter(|(_, held)| self.is_spent_as(held, class));
            let mut spent: Vec<_> = spent.map(|(&token, held)| (held.age(), token)).collect();
            spent.sort_unstable();
            for (_, token) in spent {
                self.left("raised");
                self.raised += 1;
                let held = self.held.get_mut(&token).expect("it was held");
                held.class = Class::High;
                held.place = RAISED + self.raised;
            }
        }
    }

    fn pulse(&mut self) {
        let counts = (self.offered, self.shed);
        let pulse = self.slots.pulse(self.now_ns, &self.numbers, || counts);
        let pulse = pulse.expect("no other thread is at it");
        assert_eq!(pulse.inflight, self.inflight);
        assert_eq!(pulse.held, self.held.len() as u64);
        assert!(pulse.peak >= self.inflight);
        assert_eq!(pulse.overloaded == 0, pulse.overload_since_ns == 0);
        if pulse.overloaded != 0 {
            self.left("overloaded, at a pulse");
        }
    }

    /// A source has a success or a failure.
    fn fare(&mut self, seed: &mut Seed) {
        let number = seed.index(self.sources.len());
        let source = &mut self.sources[number];
        if seed.chance(3) {
            self.slots.succeeded(number as u16, self.now_ns);
            source.refused_in_row = 0;
            source.last_success_ns = Some(self.now_ns);
        } else {
            self.slots.refused(number as u16);
            source.refused_in_row += 1;
        }
    }

    /// So that its guard begins to hold meanwhile.
    fn refuse_one_that_waits(&mut self, seed: &mut Seed) {
        let Some((_, held)) = seed.pick(&self.held) else {
            return;
        };
        let number = held.offer.source;
        for _ in 0..held.offer.guard_after {
            self.slots.refused(number);
            self.sources[usize::from(number)].refused_in_row += 1;
        }
    }

    fn check(&self) {
        assert_eq!(self.slots.inflight(), self.inflight);
        assert_eq!(self.slots.held(), self.held.len() as u64);
        for class in Class::ALL {
            let of_class = self.held.values().filter(|held| held.class == class);
            let waiting = of_class.filter(|held| !held.offer.ring).count();
            assert_eq!(self.slots.waiting(class), waiting as u64, "{class:?}");
        }
        for (worker, admission) in self.workers.iter().enumerate() {
            for class in Class::ALL {
                let mine = |held: &&Held| held.worker == worker && held.class == class;
                let count = self.held.values().filter(mine).count();
                assert_eq!(admission.held_of(class) as usize, count);
            }
            let here = self.held.values().filter(|held| held.worker == worker);
            assert_eq!(admission.held(), here.count());
        }
        for (number, source) in self.sources.iter().enumerate() {
            let standing = self.slots.standing(number as u16);
            assert_eq!(standing.refused_in_row, source.refused_in_row);
            assert_eq!(
                standing.last_success_ns,
                source.last_success_ns.unwrap_or(0)
            );
        }
    }

    fn step(&mut self, seed: &mut Seed) {
        match seed.below(24) {
            0..=9 => self.offer(seed),
            10..=13 if self.inflight > 0 => {
                let worker = seed.index(WORKERS);
                self.inflight -= 1;
                self.workers[worker].release(&self.slots);
                let mut next = Some(worker);
                while let Some(worker) = next {
                    next = self.grant_all(worker);
                }
            }
            14 | 15 => self.now_ns += seed.below(30) * MS,
            16 => {
                self.refuse_one_that_waits(seed);
                self.expire(seed.index(WORKERS));
            }
            17 => {
                let Some((&token, &held)) = seed.pick(&self.held) else {
                    return;
                };
                let worker = &mut self.workers[held.worker];
                assert!(worker.cancel(held.ticket, &self.slots));
                assert!(!worker.cancel(held.ticket, &self.slots), "it left twice");
                self.held.remove(&token);
            }
            18 => {
                let worker = seed.index(WORKERS);
                self.paused[worker] = seed.chance(2);
                self.workers[worker].pause_ring(self.paused[worker]);
            }
            19 if seed.chance(3) => self.change_numbers(seed),
            19 if seed.chance(40) => self.now_ns += 20 * SECOND,
            20 | 21 => self.pulse(),
            22 => self.fare(seed),
            _ => {
                // Each time that all look, all of the lowest class can leave.
                for worker in (0..WORKERS).cycle().take(WORKERS * Class::COUNT) {
                    self.grant_all(worker);
                }
                let over = self.held.len() as u64 > self.numbers.max_held;
                assert!(!over, "more are held than may be when all have looked");
            }
        }
    }

    /// All that wait go away and all slots are given back.
    fn end(&mut self) {
        for held in self.held.values() {
            assert!(self.workers[held.worker].cancel(held.ticket, &self.slots));
        }
        self.held.clear();
        for _ in 0..std::mem::take(&mut self.inflight) {
            self.workers[0].release(&self.slots);
        }
        self.check();
        for worker in 0..WORKERS {
            self.named[worker] = false;
            assert_eq!(self.grant_all(worker), None);
        }
    }
}

#[test]
fn slots_classes_turns_and_bounds_hold_whatever_happens() {
    let mut seed = Seed::printed("slots_classes_turns_and_bounds_hold_whatever_happens");
    for mode in [Mode::Queue, Mode::Codel, Mode::Changing] {
        // Nobody is of a lower or a higher class when all are of one.
        let ways = if mode == Mode::Codel { 9 } else { 11 };
        let mut left = BTreeMap::new();
        let (least, mut round) = (rounds(20), 0);
        // Some ways are rare: it goes on until each was gone often enough.
        while round < least || left.len() < ways || left.values().any(|&count| count <= 3) {
            round += 1;
            assert!(
                round < 10 * least,
                "the driver hardly reaches one: {left:?}"
            );
            let mut world = World::new(&mut seed, mode);
            for _ in 0..1500 {
                world.step(&mut seed);
                world.check();
            }
            world.end();
            for (why, count) in world.left {
                *left.entry(why).or_insert(0) += count;
            }
        }
        assert_eq!(left.len(), ways, "a way that is not known: {left:?}");
    }
}
