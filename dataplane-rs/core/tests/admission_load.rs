//! Who is shed under load: a store of eight servers in virtual time behind a fixed limit.

mod offers;
mod seed;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use offers::{MS, NUMBERS, SECOND, Sole, offer};
use seed::Seed;
use sluice_core::admission::{Class, Grant, Numbers, Offer, Priority, Verdict, Waiter};

const SERVERS: u64 = 8;
const SERVICE_NS: u64 = 4 * MS;
const LIMIT: u64 = 12;
/// Events a second that the store can take.
const CAPACITY: f64 = SERVERS as f64 * 1000.0 / 4.0;
const STEP_NS: u64 = MS / 4;

struct Load {
    sole: Sole,
    /// When each server is free.
    servers: BinaryHeap<Reverse<u64>>,
    /// When each admitted request is answered, and what its sender's budget ends with.
    answers: BinaryHeap<Reverse<(u64, u64)>>,
    until_ns: HashMap<u64, u64>,
    answered: u64,
    tokens: u64,
}

impl Load {
    fn new(share_rate_milli: u64) -> Load {
        // W of a store in which all slots of the limit are taken.
        let service_time_ns = SERVICE_NS * LIMIT / SERVERS;
        Load {
            sole: Sole::new(Numbers {
                limit: LIMIT,
                max_held: 4000,
                hold_bound_ns: 10 * MS,
                service_time_ns,
                repeat_share_milli: 800,
                share_rate_milli,
                ..NUMBERS
            }),
            servers: (0..SERVERS).map(|_| Reverse(0)).collect(),
            answers: BinaryHeap::new(),
            until_ns: HashMap::new(),
            answered: 0,
            tokens: 0,
        }
    }

    fn admit(&mut self, now_ns: u64, token: u64) {
        let Reverse(free_ns) = self.servers.pop().unwrap();
        let answer_ns = free_ns.max(now_ns) + SERVICE_NS;
        self.servers.push(Reverse(answer_ns));
        let until_ns = self.until_ns.remove(&token).unwrap();
        self.answers.push(Reverse((answer_ns, until_ns)));
    }

    fn grant_all(&mut self, now_ns: u64) {
        loop {
            match self.sole.grant(now_ns) {
                Grant::Admit(Waiter { token, .. }) => self.admit(now_ns, token),
                Grant::Shed(..) => {}
                other => return assert_eq!(other, Grant::Idle),
            }
        }
    }

    fn step(&mut self, now_ns: u64) {
        self.sole.pulse(now_ns);
        while let Some(&Reverse((answer_ns, until_ns))) = self.answers.peek()
            && answer_ns <= now_ns
        {
            self.answers.pop();
            assert!(answer_ns < until_ns, "an answer after its sender's budget");
            self.answered += 1;
            self.sole.release();
        }
        self.grant_all(now_ns);
        if now_ns.is_multiple_of(5 * MS) {
            self.sole.expire(now_ns);
        }
    }

    fn offer(&mut self, now_ns: u64, mut request: Offer) {
        self.tokens += 1;
        request.token = self.tokens;
        self.until_ns.insert(self.tokens, request.until_ns);
        if self.sole.offer(now_ns, &request).1 == Verdict::Admit {
            self.admit(now_ns, request.token);
        }
    }

    /// Runs for so long at `rate(time)` events a second, of what `kind` makes.
    fn run(
        &mut self,
        seed: &mut Seed,
        for_ns: u64,
        rate: impl Fn(u64) -> f64,
        kind: impl Fn(&mut Seed) -> Offer,
    ) {
        let mut next_ns = 0.0;
        for now_ns in (SECOND..SECOND + for_ns).step_by(STEP_NS as usize) {
            self.step(now_ns);
            let age_ns = now_ns - SECOND;
            while next_ns < age_ns as f64 {
                let mut request = kind(seed);
                request.until_ns = now_ns + seed.between(200, 5000) * MS;
                self.offer(now_ns, request);
                let even = (seed.next() >> 11) as f64 / (1u64 << 53) as f64;
                // Nothing comes while the rate is nothing.
                let rate = rate(age_ns).max(1e-3);
                next_ns = (next_ns - (1.0 - even).ln() / rate * SECOND as f64)
                    .min(age_ns as f64 + 10.0 * MS as f64);
            }
        }
        let end_ns = SECOND + for_ns;
        for now_ns in (end_ns..end_ns + 10 * SECOND).step_by(STEP_NS as usize) {
            self.step(now_ns);
        }
        assert_eq!((self.sole.slots.inflight(), self.sole.slots.held()), (0, 0));
        assert_eq!(self.sole.pulse(end_ns + 10 * SECOND), (0, 0));
        let shed: u64 = self.sole.shed.iter().sum();
        assert_eq!(self.answered + shed, self.tokens);
    }

    fn shed_part(&self, class: Class) -> f64 {
        let (offered, shed) = (self.sole.offered, self.sole.shed);
        shed[class as usize] as f64 / offered[class as usize].max(1) as f64
    }
}

fn mixed(seed: &mut Seed) -> Offer {
    let part = seed.below(100);
    let (priority, never_retries, repeat) = match part {
        0..20 => (Priority::High, false, false),
        20..35 => (Priority::Default, true, false),
        35..60 => (Priority::Default, false, false),
        60..70 => (Priority::Default, false, true),
        _ => (Priority::Low, false, false),
    };
    Offer {
        never_retries,
        repeat,
        ..offer(0, priority, seed.below(8) as u16)
    }
}

#[test]
fn at_twice_the_capacity_the_lower_class_is_shed_first_and_no_slot_is_idle() {
    let mut seed = Seed::printed("at_twice_the_capacity_the_lower_class_is_shed_first");
    for _ in 0..3 {
        let mut load = Load::new(0);
        load.run(&mut seed, 4 * SECOND, |_| 2.0 * CAPACITY, mixed);
        let order = [
            Class::High,
            Class::NeverRetries,
            Class::Default,
            Class::Low,
            Class::Repeat,
        ];
        let parts = order.map(|class| load.shed_part(class));
        assert!(parts.is_sorted(), "{parts:?}");
        assert!(parts[0] <= 0.002, "{parts:?}");
        assert!(parts[4] > 0.9, "{parts:?}");
        let could = CAPACITY * 4.0;
        assert!(load.answered as f64 > 0.97 * could, "{}", load.answered);
    }
}

#[test]
fn one_source_at_fifty_times_the_others_takes_no_slot_from_them() {
    let mut seed = Seed::printed("one_source_at_fifty_times_the_others_takes_no_slot");
    // Twenty sources, nineteen of which ask for less than their share.
    let mut load = Load::new(90_000);
    let kind = |seed: &mut Seed| {
        let source = seed.below(69).saturating_sub(49);
        offer(0, Priority::Default, source as u16)
    };
    load.run(&mut seed, 4 * SECOND, |_| 2.2 * CAPACITY, kind);
    let within = load.sole.offered[Class::Default as usize] as f64;
    assert!(load.shed_part(Class::Default) < 0.02);
    assert!(load.shed_part(Class::DefaultOverShare) > 0.5);
    assert!(within > 0.5 * CAPACITY * 4.0);
}

#[test]
fn below_the_capacity_nobody_is_shed() {
    let mut seed = Seed::printed("below_the_capacity_nobody_is_shed");
    let kind = |seed: &mut Seed| Offer {
        never_retries: false,
        repeat: false,
        ..mixed(seed)
    };
    for (mean, bursts) in [(0.0025, false), (0.5, false), (0.7, true)] {
        let mut load = Load::new(0);
        let rate = |age_ns: u64| match (bursts, age_ns / (50 * MS) % 2) {
            (false, _) => mean * CAPACITY,
            (true, 0) => 2.0 * mean * CAPACITY,
            (true, _) => 0.0,
        };
        load.run(&mut seed, 5 * SECOND, rate, kind);
        assert!(load.tokens > 10);
        assert_eq!(load.sole.shed, [0; Class::COUNT], "{mean}");
    }
}
