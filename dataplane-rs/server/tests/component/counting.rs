//! What the limiter reads: each slot's time is counted once, as a sample or as none.

use crate::control::Frame;
use crate::holding::{hold, one_slot};
use crate::sender::{Sender, post};
use crate::world::{LIMIT, MILLISECOND, SECOND, Setup, World, eventually, source};
use shm_abi::{REPLY_ACCEPTED, REPLY_DUPLICATE, REPLY_INLINE, REPLY_QUEUED, REPLY_REFUSED};
use sluice_core::admission::Class;
use sluice_proto as proto;

/// What was counted of the slots: samples, drops, and whether time went to either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    samples: u64,
    drops: u64,
    sampled: bool,
    void: bool,
}

const NOTHING: Counted = Counted {
    samples: 0,
    drops: 0,
    sampled: false,
    void: false,
};
const SAMPLE: Counted = Counted {
    samples: 1,
    sampled: true,
    ..NOTHING
};
const VOID: Counted = Counted {
    void: true,
    ..NOTHING
};
const DROP: Counted = Counted { drops: 1, ..VOID };

/// Runs, waits until no slot is taken, and says what that has added.
fn counted(world: &mut World, run: impl FnOnce(&mut World)) -> Counted {
    let read = |world: &World| {
        let worker = world.plane.counters.worker(0);
        let times = [worker.sample_sum_ns(), worker.void_ns()];
        (worker.samples(), worker.drops(), times)
    };
    let before = read(world);
    run(world);
    eventually("no slot is taken", || world.inflight() == 0);
    let after = read(world);
    Counted {
        samples: after.0 - before.0,
        drops: after.1 - before.1,
        sampled: after.2[0] > before.2[0],
        void: after.2[1] > before.2[1],
    }
}

/// Sources of each kind, and quick ones, whose senders have little patience.
fn sources() -> Vec<proto::Source> {
    use proto::Acknowledge::{Delivered, Durable, Ring};
    let kinds = [
        ("/durable", Durable, false),
        ("/delivered", Delivered, false),
        ("/ring", Ring, false),
        ("/quick-durable", Durable, true),
        ("/quick-delivered", Delivered, true),
        ("/quick-ring", Ring, true),
    ];
    let kinds = kinds.into_iter().zip(0..);
    kinds
        .map(|((path, acknowledge, is_quick), slot)| {
            let mut source = source(path, slot);
            source.acknowledge = acknowledge.into();
            if is_quick {
                source.budget_ns = 40 * MILLISECOND;
            }
            source
        })
        .collect()
}

fn start() -> Option<World> {
    World::start(Setup {
        sources: sources(),
        ..Setup::default()
    })
}

/// A request whose frame is in the lane.
fn send(world: &mut World, path: &str) -> (Sender, Frame) {
    let mut sender = world.connect(0);
    sender.send(&post(path, b"x"));
    let frame = world.control[0].frame();
    (sender, frame)
}

#[test]
fn a_slot_is_a_sample_only_if_its_frame_became_durable() {
    let Some(mut world) = start() else { return };
    for (kind, code, want) in [
        (REPLY_ACCEPTED, 200, SAMPLE),
        (REPLY_QUEUED, 202, SAMPLE),
        (REPLY_DUPLICATE, 200, VOID),
        (REPLY_INLINE, 200, VOID),
        (REPLY_REFUSED, 401, VOID),
        (REPLY_REFUSED, 404, VOID),
        (REPLY_REFUSED, 429, VOID),
        (REPLY_REFUSED, 503, DROP),
    ] {
        for (path, want) in [("/durable", want), ("/delivered", want), ("/ring", NOTHING)] {
            let got = counted(&mut world, |world| {
                let (mut sender, frame) = send(world, path);
                let entry = frame.answer(kind, code);
                world.control[0].reply(&entry);
                assert_eq!(sender.answer().status, code);
                // Said twice and given back as well, it counts no more.
                world.control[0].reply(&entry);
                world.control[0].consume(&frame);
            });
            assert_eq!(got, want, "reply {kind} of {code} at {path}");
        }
    }
}

#[test]
fn a_frame_whose_sender_went_away_is_a_sample_all_the_same() {
    let Some(mut world) = start() else { return };
    let closed = |world: &World| world.plane.counters.worker(0).closed();
    for (path, want) in [
        ("/durable", SAMPLE),
        ("/delivered", SAMPLE),
        ("/ring", NOTHING),
    ] {
        let got = counted(&mut world, |world| {
            let before = closed(world);
            let (sender, frame) = send(world, path);
            sender.reset();
            eventually("it is closed", || closed(world) == before + 1);
            world.control[0].accept(&frame);
            world.control[0].consume(&frame);
        });
        assert_eq!(got, want, "{path}");
    }
}

#[test]
fn room_that_is_given_back_before_the_reply_is_a_sample_where_the_reply_may_come_later() {
    let Some(mut world) = start() else { return };
    let got = counted(&mut world, |world| {
        let (mut sender, frame) = send(world, "/delivered");
        eventually("it sleeps", || world.control[0].waits_for_room());
        world.control[0].consume(&frame);
        eventually("the slot is given back", || world.inflight() == 0);
        world.control[0].reply(&frame.answer(REPLY_REFUSED, 503));
        assert_eq!(sender.answer().status, 503);
    });
    assert_eq!(got, SAMPLE);
    // A durable one without a reply is one that nobody has judged.
    let got = counted(&mut world, |world| {
        let (sender, frame) = send(world, "/durable");
        sender.reset();
        world.control[0].consume(&frame);
        world.plane.poke(0).ring().unwrap();
    });
    assert_eq!(got, VOID);
}

#[test]
fn who_waits_for_a_slot_in_vain_counts_once() {
    let Some(mut world) = start() else { return };
    for (path, kind, code, want) in [
        (
            "/quick-durable",
            REPLY_ACCEPTED,
            200,
            Counted { drops: 1, ..SAMPLE },
        ),
        ("/quick-durable", REPLY_REFUSED, 503, DROP),
        ("/quick-durable", REPLY_REFUSED, 401, DROP),
        (
            "/quick-delivered",
            REPLY_ACCEPTED,
            200,
            Counted { drops: 1, ..SAMPLE },
        ),
        ("/quick-ring", REPLY_REFUSED, 503, NOTHING),
    ] {
        let got = counted(&mut world, |world| {
            let (mut sender, frame) = send(world, path);
            assert_eq!(sender.answer().status, 503, "its budget is over");
            world.control[0].reply(&frame.answer(kind, code));
            world.control[0].consume(&frame);
        });
        assert_eq!(got, want, "{path}, then reply {kind} of {code}");
    }
    // One that is durable and waits for its destination says nothing of the journal.
    let got = counted(&mut world, |world| {
        let (mut sender, frame) = send(world, "/quick-delivered");
        world.control[0].consume(&frame);
        world.plane.poke(0).ring().unwrap();
        eventually("the slot is given back", || world.inflight() == 0);
        assert_eq!(sender.answer().status, 503);
    });
    assert_eq!(got, SAMPLE);
}

#[test]
fn ring_requests_take_no_slot() {
    let Some(mut world) = World::start(Setup {
        limit: 1,
        sources: sources(),
        ..Setup::default()
    }) else {
        return;
    };
    let mut open: Vec<_> = (0..20).map(|_| send(&mut world, "/ring")).collect();
    assert_eq!((world.inflight(), world.held()), (0, 0));
    // They keep none from others, and are kept from nothing by those.
    open.push(send(&mut world, "/durable"));
    let mut waits = hold(&world, 0, "/durable", b"waits");
    open.push(send(&mut world, "/ring"));
    assert_eq!((world.inflight(), world.held()), (1, 1));
    for (sender, frame) in &mut open {
        world.control[0].accept(frame);
        assert_eq!(sender.answer().status, 200);
    }
    let frame = world.control[0].frame();
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    assert_eq!(waits.answer().status, 200);
    assert_eq!(world.plane.counters.worker(0).samples(), 2);
    assert_eq!(
        world
            .plane
            .counters
            .worker(0)
            .class_offered(Class::Default as usize),
        23
    );
}

/// The dropped world looks whether slot times and area agree to the nanosecond, in every test.
#[test]
fn the_meter_tells_how_long_all_slots_were_taken() {
    let Some((mut world, first, mut sender)) = one_slot(Setup::default()) else {
        return;
    };
    let counters = world.plane.counters.clone();
    let header = counters.header();
    let turn = || world.plane.poke(0).ring().unwrap();
    eventually("time goes on", || {
        turn();
        header.area_ns() > 20 * MILLISECOND
    });
    assert_eq!((header.inflight(), header.peak()), (1, 1));
    assert_eq!(
        header.saturated_ns(),
        header.area_ns(),
        "the one slot of a limit of one"
    );
    world.control[0].accept(&first);
    world.control[0].consume(&first);
    assert_eq!(sender.answer().status, 200);
    eventually("the end of it is in sight", || header.inflight() == 0);
    let area_ns = header.area_ns();
    let metered_ns = header.metered_ns();
    let turn = || world.plane.poke(0).ring().unwrap();
    eventually("time goes on without it", || {
        turn();
        header.metered_ns() > metered_ns + 20 * MILLISECOND
    });
    assert_eq!(
        (header.area_ns(), header.saturated_ns()),
        (area_ns, area_ns)
    );
    assert_eq!(counters.worker(0).sample_sum_ns(), area_ns);
    eventually("the peak is over", || {
        turn();
        header.peak() == 0
    });
}

#[test]
fn time_under_the_old_limit_is_judged_by_that() {
    let Some((mut world, first, mut sender)) = one_slot(Setup::default()) else {
        return;
    };
    // The worker sleeps and hears of the new limit only with the reply.
    world.store(LIMIT, 1000);
    world.control[0].accept(&first);
    world.control[0].consume(&first);
    assert_eq!(sender.answer().status, 200);
    assert!(world.plane.counters.header().saturated_ns() > 0);
}

#[test]
fn slots_below_the_limit_do_not_saturate_it() {
    let Some(mut world) = start() else { return };
    let (mut sender, frame) = send(&mut world, "/durable");
    let counters = world.plane.counters.clone();
    let header = counters.header();
    eventually("time goes on", || {
        world.plane.poke(0).ring().unwrap();
        header.area_ns() > 5 * MILLISECOND
    });
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    assert_eq!(sender.answer().status, 200);
    assert_eq!(header.saturated_ns(), 0);
}

#[test]
fn a_queue_that_does_not_empty_is_an_overload_and_ends_when_it_does() {
    let Some((mut world, first, _sender)) = one_slot(Setup {
        max_held: 1,
        ..Setup::default()
    }) else {
        return;
    };
    let counters = world.plane.counters.clone();
    let header = counters.header();
    assert_eq!((header.overloaded(), header.overload_since_ns()), (0, 0));
    let mut waits = hold(&world, 0, "/a", b"waits");
    // Of the class and of all below it.
    let bits = !0 << Class::Default as u32 & 0xff;
    eventually("it is an overload", || header.overloaded() == bits);
    let since_ns = header.overload_since_ns();
    assert!(since_ns > 0);
    let grows = std::env::var("SLUICE_SOAK").is_ok_and(|soak| soak == "1");
    let age_s = if grows { 9 } else { 0 };
    eventually("it is so old", || {
        header.metered_ns() > since_ns + age_s * SECOND
    });
    let mut sender = world.connect(0);
    for _ in 0..50 {
        sender.send(&post("/a", b"shed"));
        let answer = sender.answer();
        assert_eq!(answer.status, 503);
        let bounds = if grows { 9..=80 } else { 5..=80 };
        assert!(bounds.contains(&answer.retry_after()), "{answer:?}");
    }
    world.control[0].accept(&first);
    let frame = world.control[0].frame();
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    assert_eq!(waits.answer().status, 200);
    eventually("it is over, whether or not anybody comes", || {
        (header.overloaded(), header.overload_since_ns()) == (0, 0)
    });
    let worker = counters.worker(0);
    let default = Class::Default as usize;
    let counts = [
        worker.class_offered(default),
        worker.class_admitted(default),
        worker.class_held(default),
        worker.class_shed(default),
    ];
    assert_eq!(counts, [52, 2, 1, 50]);
    assert_eq!(counters.source(0, 0).offered(), 52);
}

#[test]
fn whoever_is_offered_is_admitted_or_turned_away_or_gone() {
    let Some((mut world, first, _sender)) = one_slot(Setup {
        hold_budget_ns: 30 * MILLISECOND,
        ..Setup::default()
    }) else {
        return;
    };
    let mut spent = hold(&world, 0, "/a", b"waits too long");
    assert_eq!(spent.answer().status, 503);
    let gone = hold(&world, 0, "/a", b"goes away");
    gone.reset();
    eventually("nobody waits", || world.held() == 0);
    world.control[0].accept(&first);
    world.control[0].consume(&first);
    eventually("no slot is taken", || world.inflight() == 0);
    let worker = world.plane.counters.worker(0);
    let default = Class::Default as usize;
    assert_eq!(worker.class_offered(default), 3);
    assert_eq!(worker.class_held(default), 2);
    assert_eq!(worker.class_admitted(default), 1);
    // The one that went away may have met its bound before that was noticed.
    assert!((1..=2).contains(&worker.class_shed(default)));
}
