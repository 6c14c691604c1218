//! Time of one decision about a request.
//!
//! `cargo bench -p sluice-core --bench decision`. Prints the best and the middle of many runs: on a
//! shared machine the others measure the neighbours.

use std::hint::black_box;
use std::time::Instant;

use sluice_core::admission::{
    Admission, Grant, Numbers, Offer, Priority, RepeatFilter, Shed, Slots, Verdict,
};

const RUNS: usize = 200;
const CALLS: u64 = 2000;
const MS: u64 = 1_000_000;

/// What a limiter under load publishes.
const NUMBERS: Numbers = Numbers {
    limit: 100,
    floor_slots: 11,
    floor_rate_milli: 0,
    max_held: 60_000,
    hold_budget_ns: 2500 * MS,
    hold_bound_ns: 10 * MS,
    growing: false,
    service_time_ns: 5 * MS,
    repeat_share_milli: 800,
    share_rate_milli: 50_000,
    codel_target_ns: 0,
    codel_interval_ns: 0,
    pace_interval_ns: 0,
    pace_depth_ns: 0,
};

/// Who sends: the name, the number of sources and the priorities by turns.
const MIXES: [(&str, u64, &[Priority]); 3] = [
    ("1 source", 1, &[Priority::Default]),
    (
        "20 sources of all priorities",
        20,
        &[Priority::High, Priority::Default, Priority::Low],
    ),
    (
        "1000 sources of all priorities",
        1000,
        &[Priority::High, Priority::Default, Priority::Low],
    ),
];

/// `call` gets numbers that count up.
fn measure(name: &str, mut call: impl FnMut(u64)) {
    let mut count = 0;
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..CALLS {
                count += 1;
                call(count);
            }
            start.elapsed().as_nanos() as f64 / CALLS as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "  {name}: best {:.0} ns, middle {:.0} ns",
        times[0],
        times[RUNS / 2]
    );
}

fn main() {
    for (mix, sources, priorities) in MIXES {
        println!("{mix}");
        let offer = |number: u64| {
            // Sources in no order that a cache could guess.
            let source = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let source = (source * sources) >> 32;
            Offer {
                token: number,
                source: source as u16,
                priority: priorities[source as usize % priorities.len()],
                never_retries: source.is_multiple_of(4),
                repeat: false,
                handshake: false,
                probes: false,
                guard_after: 10,
                weight: 0,
                until_ns: u64::MAX,
                ring: false,
            }
        };
        let slots = Slots::new(2, 1024);
        let mut admission = Admission::new(0, 65_536);
        measure("offer and release", |number| {
            let now_ns = number * 10_000;
            let (_, verdict) = admission.offer(now_ns, &offer(number), &NUMBERS, &slots);
            assert_eq!(black_box(verdict), Verdict::Admit);
            admission.release(&slots);
        });

        // A queue of 4000 in which one leaves for each that comes.
        let slots = Slots::new(2, 1024);
        let mut admission = Admission::new(0, 65_536);
        for number in 0..NUMBERS.limit + 4000 {
            admission.offer(1, &offer(number), &NUMBERS, &slots);
        }
        measure("hold and grant, 4000 held", |number| {
            let held = admission.offer(1, &offer(number), &NUMBERS, &slots).1;
            assert!(matches!(black_box(held), Verdict::Hold { .. }));
            admission.release(&slots);
            let granted = admission.grant(2, &NUMBERS, &slots);
            assert!(matches!(black_box(granted), Grant::Admit(_)));
        });

        // Nobody lower waits, so all are refused.
        let slots = Slots::new(2, 1024);
        let mut admission = Admission::new(0, 65_536);
        let full = Numbers {
            max_held: 0,
            ..NUMBERS
        };
        for number in 0..NUMBERS.limit {
            admission.offer(1, &offer(number), &NUMBERS, &slots);
        }
        measure("shed", |number| {
            let (_, verdict) = admission.offer(number * 1000, &offer(number), &full, &slots);
            assert_eq!(black_box(verdict), Verdict::Shed(Shed::HeldFull));
        });
    }

    println!("once a turn");
    let slots = Slots::new(2, 1024);
    measure("pulse", |number| {
        black_box(slots.pulse(number * 10_000, &NUMBERS, Default::default));
    });
    let mut admission = Admission::new(0, 65_536);
    measure("grant, nobody waits", |number| {
        black_box(admission.grant(number * 10_000, &NUMBERS, &slots));
    });
    for number in 0..40_000 {
        let offer = Offer {
            token: number,
            source: (number % 1000) as u16,
            priority: Priority::Default,
            never_retries: false,
            repeat: false,
            handshake: false,
            probes: false,
            guard_after: 0,
            weight: 0,
            until_ns: u64::MAX,
            ring: false,
        };
        let none = Numbers {
            limit: 0,
            ..NUMBERS
        };
        admission.offer(1, &offer, &none, &slots);
    }
    measure("expire, 40000 held and none spent", |_| {
        admission.expire(2, &NUMBERS, &slots, |_| {})
    });

    println!("repeats");
    let filter = RepeatFilter::new(1 << 20, 1);
    measure("look for an id of 36 bytes", |number| {
        let mut id = *b"f41fcb28-e1ec-4229-aaa5-148c01a8c3f5";
        id[..8].copy_from_slice(&number.to_le_bytes());
        black_box(filter.seen_before(1, &id, 1));
    });
}
