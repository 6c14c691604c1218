//! Requests and numbers that tests of admission begin with.

#![allow(dead_code)] // Each test file uses its own part.

use sluice_core::admission::{
    Admission, Class, Grant, Numbers, Offer, Priority, Shed, Slots, Verdict,
};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;

/// A slot, room to wait for it, and nothing else in force.
pub const NUMBERS: Numbers = Numbers {
    limit: 1,
    floor_slots: 0,
    floor_rate_milli: 0,
    max_held: 100,
    hold_budget_ns: 2500 * MS,
    hold_bound_ns: 0,
    growing: false,
    service_time_ns: 0,
    repeat_share_milli: 0,
    share_rate_milli: 0,
    codel_target_ns: 0,
    codel_interval_ns: 0,
    pace_interval_ns: 0,
    pace_depth_ns: 0,
};

/// A first try of a sender that does retry, acknowledged when durable.
pub fn offer(token: u64, priority: Priority, source: u16) -> Offer {
    Offer {
        token,
        source,
        priority,
        never_retries: false,
        repeat: false,
        handshake: false,
        probes: false,
        guard_after: 0,
        weight: 0,
        until_ns: u64::MAX,
        ring: false,
    }
}

/// An offer of each class, given that its source is over its share where the class says so.
pub fn of_class(class: Class, token: u64) -> Offer {
    let (priority, never_retries, repeat) = match class {
        Class::High => (Priority::High, false, false),
        Class::NeverRetries | Class::NeverRetriesOverShare => (Priority::Default, true, false),
        Class::Default | Class::DefaultOverShare => (Priority::Default, false, false),
        Class::Low | Class::LowOverShare => (Priority::Low, false, false),
        Class::Repeat => (Priority::Default, false, true),
    };
    Offer {
        never_retries,
        repeat,
        ..offer(token, priority, class as u16)
    }
}

/// How often a random test goes round: more of it with `SLUICE_SOAK=1`.
pub fn rounds(short: u64) -> u64 {
    match std::env::var("SLUICE_SOAK").is_ok_and(|soak| soak == "1") {
        true => 20 * short,
        false => short,
    }
}

/// One worker and its slots.
pub struct Sole {
    pub slots: Slots,
    pub admission: Admission,
    pub numbers: Numbers,
    pub offered: [u64; Class::COUNT],
    pub shed: [u64; Class::COUNT],
}

impl Sole {
    pub fn new(numbers: Numbers) -> Sole {
        Sole {
            slots: Slots::new(1, 64),
            admission: Admission::new(0, 4096),
            numbers,
            offered: [0; Class::COUNT],
            shed: [0; Class::COUNT],
        }
    }

    /// With all slots taken by requests of a source that nothing else uses.
    pub fn busy(numbers: Numbers) -> Sole {
        let mut sole = Sole::new(numbers);
        for _ in 0..numbers.limit {
            let mut first = offer(u64::MAX, Priority::High, 63);
            first.until_ns = u64::MAX;
            let unbounded = Numbers {
                share_rate_milli: 0,
                codel_target_ns: 0,
                pace_interval_ns: 0,
                ..numbers
            };
            let verdict = sole.admission.offer(0, &first, &unbounded, &sole.slots);
            assert_eq!(verdict, (Class::High, Verdict::Admit));
        }
        sole
    }

    pub fn offer(&mut self, now_ns: u64, offer: &Offer) -> (Class, Verdict) {
        let (class, verdict) = self
            .admission
            .offer(now_ns, offer, &self.numbers, &self.slots);
        self.offered[class as usize] += 1;
        match verdict {
            Verdict::Shed(_) => self.shed[class as usize] += 1,
            Verdict::Hold {
                pushed_out: Some(waiter),
                ..
            } => self.shed[waiter.class as usize] += 1,
            _ => {}
        }
        (class, verdict)
    }

    /// Offers what must be held.
    pub fn hold(&mut self, now_ns: u64, offer: &Offer) -> Class {
        let (class, verdict) = self.offer(now_ns, offer);
        assert!(matches!(verdict, Verdict::Hold { .. }), "{verdict:?}");
        class
    }

    pub fn grant(&mut self, now_ns: u64) -> Grant {
        let grant = self.admission.grant(now_ns, &self.numbers, &self.slots);
        if let Grant::Shed(waiter, _) = grant {
            self.shed[waiter.class as usize] += 1;
        }
        grant
    }

    pub fn release(&mut self) {
        self.admission.release(&self.slots);
    }

    /// The tokens that leave because they waited for too long.
    pub fn expire(&mut self, now_ns: u64) -> Vec<u64> {
        let mut spent = Vec::new();
        let (shed, slots) = (&mut self.shed, &self.slots);
        self.admission
            .expire(now_ns, &self.numbers, slots, |waiter| {
                shed[waiter.class as usize] += 1;
                spent.push(waiter.token);
            });
        spent
    }

    /// The classes that are overloaded, and since when.
    pub fn pulse(&mut self, now_ns: u64) -> (u64, u64) {
        let counts = (self.offered, self.shed);
        let pulse = self.slots.pulse(now_ns, &self.numbers, || counts).unwrap();
        assert_eq!(pulse.overloaded, self.slots.overloaded());
        assert_eq!(pulse.overload_since_ns, self.slots.overload_since_ns());
        (pulse.overloaded, pulse.overload_since_ns)
    }

    /// The order in which slots that become free one by one are given out.
    pub fn order(&mut self, now_ns: u64) -> Vec<u64> {
        let mut tokens = Vec::new();
        while self.slots.inflight() > 0 {
            self.release();
            match self.grant(now_ns) {
                Grant::Admit(waiter) => tokens.push(waiter.token),
                Grant::Shed(waiter, Shed::HoldSpent) => tokens.push(waiter.token + 1_000_000),
                other => assert_eq!(other, Grant::Idle),
            }
        }
        tokens
    }
}
