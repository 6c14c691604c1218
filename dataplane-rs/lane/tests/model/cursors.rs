//! Bytes past `commit` are not read, bytes below `consume` are not needed any more.

use crate::world::{fails, holds};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;

const SLOTS: u64 = 2;
const FRAMES: u64 = 3;

/// The order of each access to the two cursors.
#[derive(Clone, Copy, Debug)]
struct Orders {
    commit_store: Ordering,
    commit_load: Ordering,
    consume_store: Ordering,
    consume_load: Ordering,
}

const KEPT: Orders = Orders {
    commit_store: Ordering::Release,
    commit_load: Ordering::Acquire,
    consume_store: Ordering::Release,
    consume_load: Ordering::Acquire,
};

struct Ring {
    commit: AtomicU64,
    consume: AtomicU64,
    slots: [UnsafeCell<u64>; SLOTS as usize],
}

// SAFETY: the checker reports every access to a slot that the cursors do not order.
unsafe impl Sync for Ring {}

/// Three frames through a ring of two, each side trying a bounded number of times.
fn model(orders: Orders) -> impl Fn() + Sync + Send + 'static {
    move || {
        let ring = Arc::new(Ring {
            commit: AtomicU64::new(0),
            consume: AtomicU64::new(0),
            slots: [UnsafeCell::new(0), UnsafeCell::new(0)],
        });
        let there = ring.clone();
        let producer = thread::spawn(move || {
            for frame in 0..FRAMES {
                if frame - there.consume.load(orders.consume_load) == SLOTS {
                    return;
                }
                // SAFETY: the checker reports an access that is not ordered by the cursors.
                there.slots[(frame % SLOTS) as usize].with_mut(|slot| unsafe { *slot = frame });
                there.commit.store(frame + 1, orders.commit_store);
            }
        });
        let mut consume = 0;
        for _ in 0..3 {
            let commit = ring.commit.load(orders.commit_load);
            assert!(
                consume <= commit && commit <= consume + SLOTS,
                "{consume} of {commit}"
            );
            while consume < commit {
                // SAFETY: as above.
                let found = ring.slots[(consume % SLOTS) as usize].with(|slot| unsafe { *slot });
                assert_eq!(
                    found, consume,
                    "another frame than the one at this position"
                );
                consume += 1;
            }
            ring.consume.store(consume, orders.consume_store);
        }
        producer.join().unwrap();
    }
}

#[test]
fn a_frame_is_whole_when_its_commit_is_seen_and_kept_until_consume() {
    holds(model(KEPT));
}

#[test]
fn each_order_is_needed() {
    let relaxed = Ordering::Relaxed;
    for orders in [
        Orders {
            commit_store: relaxed,
            ..KEPT
        },
        Orders {
            commit_load: relaxed,
            ..KEPT
        },
        Orders {
            consume_store: relaxed,
            ..KEPT
        },
        Orders {
            consume_load: relaxed,
            ..KEPT
        },
    ] {
        println!("{orders:?}");
        fails("causality", model(orders));
    }
}

#[test]
fn the_words_of_the_lane_have_the_orders_of_the_model() {
    let face = include_str!("../../../../shm-abi/rust/src/layout.rs");
    for word in ["commit", "reply_consume", "dp_ticket", "closed"] {
        let store = format!("self.{word}.store(v, Ordering::Release)");
        assert!(face.contains(&store), "no {store}");
    }
    for word in ["consume", "reply_commit", "cp_ticket", "retired"] {
        let load = format!("self.{word}.load(Ordering::Acquire)");
        assert!(face.contains(&load), "no {load}");
    }
}
