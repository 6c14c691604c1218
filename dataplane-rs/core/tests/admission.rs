//! Two workers with one set of slots, driven at random, against what must always hold; then each
//! rule by itself.

mod seed;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use seed::Seed;
use sluice_core::admission::{
    Admission, Class, Grant, Numbers, Offer, Shared, Shed, SoleWorker, Ticket, Verdict, Waiter,
};

const MS: u64 = 1_000_000;

/// A slot and room to wait for it.
const NUMBERS: Numbers = Numbers {
    limit: 1,
    floor_slots: 0,
    max_held: 100,
    hold_budget_ns: 2500 * MS,
    hold_bound_ns: 0,
    overloaded: 0,
    service_time_ns: 0,
    low_share_milli: 0,
};

/// The numbers that two workers share.
#[derive(Clone, Default)]
struct Host(Rc<RefCell<SoleWorker>>);

impl Shared for Host {
    fn take(&mut self, bound: u64) -> bool {
        self.0.borrow_mut().take(bound)
    }
    fn give(&mut self) {
        self.0.borrow_mut().give();
    }
    fn inflight(&self) -> u64 {
        self.0.borrow().inflight()
    }
    fn wait(&mut self, class: Class, count: u64) {
        self.0.borrow_mut().wait(class, count);
    }
    fn leave(&mut self, class: Class, count: u64) {
        self.0.borrow_mut().leave(class, count);
    }
    fn waiting(&self, class: Class) -> u64 {
        self.0.borrow().waiting(class)
    }
    fn hold(&mut self) {
        self.0.borrow_mut().hold();
    }
    fn unhold(&mut self) {
        self.0.borrow_mut().unhold();
    }
    fn held(&self) -> u64 {
        self.0.borrow().held()
    }
}

/// A held request as the test knows it; the key is its token, which grows with time.
#[derive(Clone, Copy, Debug)]
struct Held {
    worker: usize,
    offer: Offer,
    ticket: Ticket,
    since_ns: u64,
}

struct Model {
    workers: [Admission; 2],
    host: Host,
    numbers: Numbers,
    paused: [bool; 2],
    held: BTreeMap<u64, Held>,
    inflight: u64,
    /// Source served last, by worker and class.
    last: [[Option<u16>; Class::COUNT]; 2],
    now_ns: u64,
    offered: u64,
    left: BTreeMap<&'static str, u64>,
}

impl Model {
    fn new(capacity: usize) -> Model {
        Model {
            workers: [Admission::new(capacity), Admission::new(capacity)],
            host: Host::default(),
            numbers: Numbers {
                limit: 4,
                max_held: 12,
                ..NUMBERS
            },
            paused: [false; 2],
            held: BTreeMap::new(),
            inflight: 0,
            last: [[None; Class::COUNT]; 2],
            now_ns: 1,
            offered: 0,
            left: BTreeMap::new(),
        }
    }

    fn can_use_a_slot(&self, held: &Held) -> bool {
        !(held.offer.ring && self.paused[held.worker])
    }

    /// The first class in which anybody waits that could use a slot.
    fn first_class(&self) -> Option<Class> {
        self.held
            .values()
            .filter(|held| self.can_use_a_slot(held))
            .map(|h| h.offer.class)
            .min()
    }

    fn limit_of(&self, class: Class) -> u64 {
        if class == Class::Low && self.numbers.low_share_milli > 0 {
            (self.numbers.limit * self.numbers.low_share_milli / 1000).max(1)
        } else {
            self.numbers.limit
        }
    }

    fn is_spent(&self, held: &Held) -> bool {
        let numbers = &self.numbers;
        let end = held
            .offer
            .until_ns
            .saturating_sub(2 * numbers.service_time_ns);
        let mut spent = self.now_ns >= end.min(held.since_ns + numbers.hold_budget_ns);
        let class = held.offer.class;
        if numbers.overloaded & class.bit() != 0 && numbers.hold_bound_ns > 0 {
            let slots = if class == Class::High { 3 } else { 1 };
            let bound = numbers.hold_bound_ns.max(slots * numbers.service_time_ns);
            spent |= self.now_ns - held.since_ns >= bound;
        }
        spent
    }

    /// The oldest of the lowest class below `class` at a worker.
    fn outranked(&self, worker: usize, class: Class) -> Option<u64> {
        let below = |(_, held): &(&u64, &Held)| held.worker == worker && held.offer.class > class;
        let lowest = self
            .held
            .iter()
            .filter(below)
            .map(|(_, held)| held.offer.class)
            .max()?;
        let of_lowest =
            |(_, held): &(&u64, &Held)| held.worker == worker && held.offer.class == lowest;
        self.held.iter().find(of_lowest).map(|(&token, _)| token)
    }

    fn forget(&mut self, waiter: &Waiter, why: &'static str) -> Held {
        *self.left.entry(why).or_default() += 1;
        let held = self
            .held
            .remove(&waiter.token)
            .expect("left twice, or never held");
        assert_eq!(
            (waiter.class, waiter.source),
            (held.offer.class, held.offer.source)
        );
        held
    }

    fn offer(&mut self, seed: &mut Seed) {
        let worker = seed.index(2);
        self.offered += 1;
        let offer = Offer {
            token: self.offered,
            class: Class::ALL[seed.index(4)],
            source: seed.below(3) as u16,
            until_ns: self.now_ns + seed.below(400) * MS,
            ring: seed.chance(3),
            floor: seed.chance(20),
        };
        let inflight = self.host.inflight();
        let first = self.first_class();
        let must_push = self.held.values().filter(|h| h.worker == worker).count() == 10
            || self.held.len() as u64 >= self.numbers.max_held;
        let paused = offer.ring && self.paused[worker];
        let verdict =
            self.workers[worker].offer(self.now_ns, &offer, &self.numbers, &mut self.host);
        let by_floor = offer.floor && inflight < self.numbers.limit + self.numbers.floor_slots;
        let by_slot = !paused
            && first.is_none_or(|first| first > offer.class)
            && inflight < self.limit_of(offer.class);
        assert_eq!(verdict == Verdict::Admit, by_floor || by_slot);
        match verdict {
            Verdict::Admit => {
                self.inflight += 1;
                *self.left.entry("admitted at once").or_default() += 1;
            }
            Verdict::Hold { ticket, pushed_out } => {
                let outranked = if must_push {
                    self.outranked(worker, offer.class)
                } else {
                    None
                };
                assert_eq!(pushed_out.map(|waiter| waiter.token), outranked);
                assert_eq!(must_push, pushed_out.is_some());
                if let Some(waiter) = pushed_out {
                    self.forget(&waiter, "outranked");
                }
                let held = Held {
                    worker,
                    offer,
                    ticket,
                    since_ns: self.now_ns,
                };
                assert!(!self.is_spent(&held) || self.numbers.overloaded != 0);
                self.held.insert(offer.token, held);
            }
            Verdict::Shed(Shed::HeldFull) => {
                assert!(must_push && self.outranked(worker, offer.class).is_none());
                *self.left.entry("held full").or_default() += 1;
            }
            Verdict::Shed(why) => {
                assert_eq!(why, Shed::HoldSpent);
                let reserve = 2 * self.numbers.service_time_ns;
                assert!(offer.until_ns.saturating_sub(reserve) <= self.now_ns);
                *self.left.entry("no budget").or_default() += 1;
            }
        }
    }

    /// Grants at one worker until it has nothing to do; says whether others should be woken.
    fn grant_all(&mut self, worker: usize) -> bool {
        loop {
            let first = self.first_class();
            let is_full = |m: &Model, class| m.host.inflight() >= m.limit_of(class);
            match self.workers[worker].grant(self.now_ns, &self.numbers, &mut self.host) {
                Grant::Idle => {
                    assert!(
                        first.is_none_or(|class| is_full(self, class)),
                        "a slot is left idle"
                    );
                    return false;
                }
                Grant::Elsewhere => {
                    let class = first.expect("nobody waits elsewhere");
                    assert!(!is_full(self, class));
                    let here = self.held.values().filter(|h| h.worker == worker);
                    let mut here = here.filter(|h| self.can_use_a_slot(h));
                    assert!(
                        here.all(|h| h.offer.class > class),
                        "one of the class waits here"
                    );
                    return true;
                }
                Grant::Shed(waiter, why) => {
                    assert_eq!(why, Shed::HoldSpent);
                    let held = self.forget(&waiter, "spent at its turn");
                    assert!(self.is_spent(&held));
                }
                Grant::Admit(waiter) => {
                    let held = self.forget(&waiter, "granted");
                    self.inflight += 1;
                    assert_eq!(Some(waiter.class), first, "a lower class went first");
                    assert!(self.can_use_a_slot(&held) && !self.is_spent(&held));
                    self.check_turn(worker, &waiter);
                    self.last[worker][waiter.class as usize] = Some(waiter.source);
                }
            }
        }
    }

    fn check_turn(&self, worker: usize, served: &Waiter) {
        let newest_first = self.numbers.overloaded & served.class.bit() != 0;
        let rivals = || {
            let line = self.held.iter().map(move |(&token, held)| (token, held));
            line.filter(move |(_, h)| h.worker == worker && h.offer.class == served.class)
        };
        let could_go =
            |source: u16| rivals().any(|(_, h)| h.offer.source == source && self.can_use_a_slot(h));
        if self.last[worker][served.class as usize] == Some(served.source) {
            let others = (0..3).filter(|&source| source != served.source);
            let waits: Vec<u16> = others.filter(|&s| could_go(s)).collect();
            assert!(
                waits.is_empty(),
                "{} twice in a row before {waits:?}",
                served.source
            );
        }
        let same = |h: &Held| h.offer.source == served.source && h.offer.ring == served.ring;
        for (token, held) in rivals().filter(|(_, held)| same(held)) {
            let in_order = if newest_first {
                token < served.token
            } else {
                token > served.token
            };
            assert!(in_order, "{held:?} was overtaken by {served:?}");
        }
    }

    fn expire(&mut self, worker: usize) {
        let mut shed = Vec::new();
        let Model {
            workers,
            host,
            numbers,
            now_ns,
            ..
        } = self;
        workers[worker].expire(*now_ns, numbers, host, |waiter| shed.push(waiter));
        let order = |w: &Waiter| (std::cmp::Reverse(w.class), w.token);
        assert!(shed.is_sorted_by_key(order), "out of order: {shed:?}");
        for waiter in &shed {
            let held = self.forget(waiter, "expired");
            assert!(self.is_spent(&held) && held.worker == worker);
        }
        let mut rest = self.held.values().filter(|held| held.worker == worker);
        assert!(
            rest.all(|held| !self.is_spent(held)),
            "one beyond its bound stays"
        );
    }

    fn change_numbers(&mut self, seed: &mut Seed) {
        self.numbers = Numbers {
            limit: seed.between(1, 6),
            floor_slots: seed.below(3),
            max_held: seed.between(4, 16),
            hold_budget_ns: seed.between(20, 300) * MS,
            hold_bound_ns: seed.below(3) * 20 * MS,
            overloaded: seed.below(16),
            service_time_ns: seed.below(20) * MS,
            low_share_milli: [0, 500, 800][seed.index(3)],
        };
    }

    fn check(&self) {
        assert_eq!(self.host.inflight(), self.inflight);
        assert_eq!(self.host.held(), self.held.len() as u64);
        for class in Class::ALL {
            let of_class = self.held.values().filter(|held| held.offer.class == class);
            let visible = of_class.filter(|held| self.can_use_a_slot(held)).count();
            assert_eq!(self.host.waiting(class), visible as u64, "{class:?}");
        }
        for (worker, admission) in self.workers.iter().enumerate() {
            let here = self
                .held
                .values()
                .filter(|held| held.worker == worker)
                .count();
            assert_eq!(admission.held(), here);
        }
    }

    fn step(&mut self, seed: &mut Seed) {
        match seed.below(20) {
            0..=8 => self.offer(seed),
            9..=12 if self.inflight > 0 => {
                let worker = seed.index(2);
                self.inflight -= 1;
                self.workers[worker].release(&mut self.host);
                if self.grant_all(worker) {
                    self.grant_all(1 - worker);
                }
            }
            13 | 14 => self.now_ns += seed.below(30) * MS,
            15 => self.expire(seed.index(2)),
            16 => {
                let Some((&token, &held)) = seed.pick(&self.held) else {
                    return;
                };
                let worker = &mut self.workers[held.worker];
                assert!(worker.cancel(held.ticket, &mut self.host));
                assert!(!worker.cancel(held.ticket, &mut self.host), "it left twice");
                self.held.remove(&token);
            }
            17 => {
                let worker = seed.index(2);
                self.paused[worker] = seed.chance(2);
                self.workers[worker].pause_ring(self.paused[worker], &mut self.host);
            }
            18 if seed.chance(3) => self.change_numbers(seed),
            _ => {
                for worker in [0, 1] {
                    self.grant_all(worker);
                }
            }
        }
    }
}

#[test]
fn slots_classes_turns_and_bounds_hold_whatever_happens() {
    let mut seed = Seed::printed("slots_classes_turns_and_bounds_hold_whatever_happens");
    let mut left = BTreeMap::new();
    for _ in 0..60 {
        let mut model = Model::new(10);
        for _ in 0..1500 {
            model.step(&mut seed);
            model.check();
        }
        for (why, count) in model.left {
            *left.entry(why).or_insert(0) += count;
        }
    }
    assert_eq!(left.len(), 7, "the driver misses a way: {left:?}");
    assert!(
        left.values().all(|&count| count > 50),
        "the driver hardly reaches one: {left:?}"
    );
}

fn offer(token: u64, class: Class, source: u16) -> Offer {
    Offer {
        token,
        class,
        source,
        until_ns: u64::MAX,
        ring: false,
        floor: false,
    }
}

/// One slot, taken, and these requests held in order.
fn held(offers: &[Offer], numbers: &Numbers) -> (Admission, SoleWorker) {
    let (mut admission, mut shared) = (Admission::new(64), SoleWorker::default());
    while shared.take(numbers.limit) {}
    for (i, offer) in offers.iter().enumerate() {
        let verdict = admission.offer(i as u64, offer, numbers, &mut shared);
        assert!(matches!(verdict, Verdict::Hold { .. }), "{verdict:?}");
    }
    (admission, shared)
}

/// The order in which slots that become free one by one are given out.
fn order(mut admission: Admission, mut shared: SoleWorker, numbers: &Numbers) -> Vec<u64> {
    let mut tokens = Vec::new();
    loop {
        admission.release(&mut shared);
        match admission.grant(1000, numbers, &mut shared) {
            Grant::Admit(waiter) => tokens.push(waiter.token),
            other => {
                assert_eq!(other, Grant::Idle);
                return tokens;
            }
        }
    }
}

#[test]
fn sources_of_a_class_take_turns_and_a_flood_waits_behind_itself() {
    let numbers = NUMBERS;
    let mut offers: Vec<_> = (0..5).map(|i| offer(i, Class::Default, 7)).collect();
    offers.extend([offer(10, Class::Default, 8), offer(20, Class::Default, 9)]);
    offers.extend([offer(11, Class::Default, 8), offer(30, Class::High, 7)]);
    let (admission, shared) = held(&offers, &numbers);
    assert_eq!(
        order(admission, shared, &numbers),
        [30, 0, 10, 20, 1, 11, 2, 3, 4]
    );
}

#[test]
fn newest_goes_first_only_in_a_class_that_is_overloaded() {
    let overloaded = Class::Default.bit();
    let numbers = Numbers {
        limit: 1,
        overloaded,
        ..NUMBERS
    };
    let mut offers: Vec<_> = (0..3).map(|i| offer(i, Class::Default, 0)).collect();
    offers.extend((10..13).map(|i| offer(i, Class::Low, 0)));
    let (admission, shared) = held(&offers, &numbers);
    assert_eq!(order(admission, shared, &numbers), [2, 1, 0, 10, 11, 12]);
}

#[test]
fn an_arrival_waits_behind_its_own_class_even_when_a_slot_is_free() {
    let numbers = NUMBERS;
    let (mut admission, mut shared) = held(&[offer(1, Class::Default, 0)], &numbers);
    admission.release(&mut shared);
    let later = admission.offer(5, &offer(2, Class::Default, 1), &numbers, &mut shared);
    assert!(matches!(later, Verdict::Hold { .. }));
    let high = admission.offer(5, &offer(3, Class::High, 1), &numbers, &mut shared);
    assert_eq!(high, Verdict::Admit);
}

#[test]
fn a_worker_with_a_free_slot_leaves_it_to_the_higher_class_of_another() {
    let numbers = NUMBERS;
    let mut host = Host::default();
    let (mut first, mut second) = (Admission::new(4), Admission::new(4));
    assert_eq!(
        first.offer(0, &offer(1, Class::Low, 0), &numbers, &mut host),
        Verdict::Admit
    );
    first.offer(0, &offer(2, Class::Default, 0), &numbers, &mut host);
    second.offer(0, &offer(3, Class::High, 0), &numbers, &mut host);
    assert_eq!(first.grant(1, &numbers, &mut host), Grant::Idle);
    first.release(&mut host);
    assert_eq!(first.grant(1, &numbers, &mut host), Grant::Elsewhere);
    assert!(matches!(second.grant(1, &numbers, &mut host), Grant::Admit(w) if w.token == 3));
}

#[test]
fn ring_requests_wait_while_their_lane_is_half_full_and_hold_up_nobody() {
    let numbers = NUMBERS;
    let (mut admission, mut shared) = (Admission::new(4), SoleWorker::default());
    admission.pause_ring(true, &mut shared);
    let ring = Offer {
        ring: true,
        ..offer(1, Class::High, 0)
    };
    let verdict = admission.offer(0, &ring, &numbers, &mut shared);
    assert!(matches!(verdict, Verdict::Hold { .. }));
    let durable = admission.offer(0, &offer(2, Class::Low, 0), &numbers, &mut shared);
    assert_eq!(durable, Verdict::Admit);
    admission.release(&mut shared);
    assert_eq!(admission.grant(1, &numbers, &mut shared), Grant::Idle);
    admission.pause_ring(false, &mut shared);
    let granted = admission.grant(1, &numbers, &mut shared);
    assert!(matches!(granted, Grant::Admit(waiter) if waiter.token == 1));
}

#[test]
fn a_budget_without_room_for_a_slots_time_is_shed_at_once() {
    let numbers = Numbers {
        limit: 0,
        service_time_ns: 30 * MS,
        ..NUMBERS
    };
    let (mut admission, mut shared) = (Admission::new(4), SoleWorker::default());
    let mut short = offer(1, Class::High, 0);
    short.until_ns = 60 * MS;
    let verdict = admission.offer(0, &short, &numbers, &mut shared);
    assert_eq!(verdict, Verdict::Shed(Shed::HoldSpent));
    short.until_ns = 60 * MS + 1;
    let verdict = admission.offer(0, &short, &numbers, &mut shared);
    assert!(matches!(verdict, Verdict::Hold { .. }));
}
