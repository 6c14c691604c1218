//! Who goes first, who may go beyond the limit, and whom that is taken from.

use crate::control::Frame;
use crate::holding::{hold, one_slot};
use crate::sender::{Sender, get, post, post_with};
use crate::world::{
    FLOOR_RATE_MILLI, FLOOR_SLOTS, LIMIT, MILLISECOND, REPEAT_SHARE_MILLI, SHARE_RATE_MILLI, Setup,
    World, eventually, source,
};
use sluice_core::admission::Class;
use sluice_proto as proto;
use std::collections::BTreeMap;

/// One source of each kind, by path.
fn sources() -> Vec<proto::Source> {
    let [open, mut high, mut never, default, mut low, mut again] = [
        ("/a", 0),
        ("/high", 1),
        ("/never", 2),
        ("/default", 3),
        ("/low", 4),
        ("/again", 5),
    ]
    .map(|(path, slot)| source(path, slot));
    high.priority = proto::Priority::High.into();
    never.never_retries = true;
    low.priority = proto::Priority::Low.into();
    for source in [&mut again, &mut never, &mut high] {
        source.retry_headers = vec!["X-Retry".into()];
    }
    vec![open, high, never, default, low, again]
}

fn setup(words: &[(u64, u64)]) -> Setup {
    Setup {
        sources: sources(),
        words: words.into(),
        ..Setup::default()
    }
}

fn hold_bytes(world: &World, bytes: &[u8]) -> Sender {
    let before = world.held();
    let mut sender = world.connect(0);
    sender.send(bytes);
    eventually("it is held", || world.held() == before + 1);
    sender
}

/// It is held before it is counted.
fn eventually_held(world: &World, class: Class, count: u64) {
    let worker = world.plane.counters.worker(0);
    eventually("it is counted", || {
        worker.class_held(class as usize) == count
    });
}

fn repeat(path: &str, body: &[u8]) -> Vec<u8> {
    post_with(path, "x-retry: 1\r\n", body)
}

/// Ends frame after frame, and says what the bodies of those behind it were.
fn served(world: &mut World, mut open: Frame, count: usize) -> Vec<String> {
    let mut bodies = Vec::new();
    for _ in 0..count {
        world.control[0].accept(&open);
        world.control[0].consume(&open);
        open = world.control[0].frame();
        bodies.push(String::from_utf8(open.body.clone()).unwrap());
    }
    world.control[0].accept(&open);
    world.control[0].consume(&open);
    bodies
}

fn by_class(count: impl Fn(usize) -> u64) -> BTreeMap<&'static str, u64> {
    let counts = Class::ALL.map(|class| (class.name(), count(class as usize)));
    counts.into_iter().filter(|&(_, count)| count > 0).collect()
}

#[test]
fn every_class_waits_for_those_above_it() {
    // So small a share that a source has its first two events and no more; a low one has one.
    let Some((mut world, open, _first)) = one_slot(setup(&[(SHARE_RATE_MILLI, 1)])) else {
        return;
    };
    let mut waiting = vec![
        hold(&world, 0, "/low", b"low"),
        hold(&world, 0, "/low", b"low over share"),
        hold_bytes(&world, &repeat("/again", b"repeat")),
    ];
    for path in ["/default", "/never"] {
        let name = &path[1..];
        for body in [name, name, &format!("{name} over share")] {
            waiting.push(hold(&world, 0, path, body.as_bytes()));
        }
    }
    // High is never over its share and no repeat lowers it; who never retries has no repeats.
    for _ in 0..4 {
        waiting.push(hold_bytes(&world, &repeat("/high", b"high")));
    }
    let bodies = served(&mut world, open, waiting.len());
    let order = [
        vec!["high"; 4],
        vec!["never"; 2],
        vec!["default"; 2],
        vec![
            "low",
            "never over share",
            "default over share",
            "repeat",
            "low over share",
        ],
    ];
    assert_eq!(bodies, order.concat());
    for sender in &mut waiting {
        assert_eq!(sender.answer().status, 200);
    }
    let worker = world.plane.counters.worker(0);
    let held = BTreeMap::from([
        ("high", 4),
        ("never_retries", 2),
        ("default", 2),
        ("low", 1),
        ("never_retries_over_share", 1),
        ("default_over_share", 1),
        ("repeat", 1),
        ("low_over_share", 1),
    ]);
    assert_eq!(by_class(|class| worker.class_held(class)), held);
    let mut all = held;
    *all.get_mut("default").unwrap() += 1; // the first one
    assert_eq!(by_class(|class| worker.class_offered(class)), all);
    assert_eq!(by_class(|class| worker.class_admitted(class)), all);
    assert_eq!(by_class(|class| worker.class_shed(class)), BTreeMap::new());
    let of = |slot| {
        let source = world.plane.counters.source(0, slot);
        (source.offered(), source.over_share(), source.repeats())
    };
    let counts = [0, 1, 2, 3, 4, 5].map(of);
    let want = [
        (1, 0, 0),
        (4, 0, 4),
        (3, 1, 0),
        (3, 1, 0),
        (2, 1, 0),
        (1, 0, 1),
    ];
    assert_eq!(counts, want);
}

#[test]
fn a_repeat_that_never_retrying_senders_mark_is_none() {
    let Some((mut world, open, _first)) = one_slot(setup(&[])) else {
        return;
    };
    let _waits = hold_bytes(&world, &repeat("/never", b"never"));
    eventually_held(&world, Class::NeverRetries, 1);
    assert_eq!(world.plane.counters.source(0, 2).repeats(), 0);
    served(&mut world, open, 1);
}

#[test]
fn repeats_leave_a_part_of_the_limit_to_others() {
    let words = [(REPEAT_SHARE_MILLI, 500)];
    let Some(mut world) = World::start(Setup {
        limit: 4,
        ..setup(&words)
    }) else {
        return;
    };
    let mut senders: Vec<_> = (0..2).map(|_| world.connect(0)).collect();
    let mut frames = Vec::new();
    for sender in &mut senders {
        sender.send(&repeat("/again", b"repeat"));
        frames.push(world.control[0].frame());
    }
    let waits = hold_bytes(&world, &repeat("/again", b"waits"));
    let mut first = world.connect(0);
    first.send(&post("/again", b"first attempt"));
    frames.push(world.control[0].frame());
    assert_eq!((world.inflight(), world.held()), (3, 1));
    for frame in frames.drain(..2) {
        world.control[0].accept(&frame);
        world.control[0].consume(&frame);
    }
    let frame = world.control[0].frame();
    assert_eq!(frame.body, b"waits");
    world.control[0].accept(&frames[0]);
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    drop((senders, waits, first));
}

/// Sources that may use the floor for one reason each.
fn floor_sources() -> Vec<proto::Source> {
    let [mut challenged, mut probed, plain] =
        [("/challenged", 1), ("/probed", 2), ("/a", 0)].map(|(p, s)| source(p, s));
    challenged.handshakes = vec![proto::Handshake {
        method: "GET".into(),
        query_keys: vec!["hub.mode".into()],
        ..proto::Handshake::default()
    }];
    probed.probes = true;
    vec![plain, challenged, probed]
}

/// Lets each source have a success, so that none is without one.
fn succeed(world: &mut World, paths: &[&str]) {
    for path in paths {
        let mut sender = world.connect(0);
        sender.send(&post(path, b"success"));
        let frame = world.control[0].frame();
        world.control[0].accept(&frame);
        world.control[0].consume(&frame);
        assert_eq!(sender.answer().status, 200);
    }
}

#[test]
fn a_handshake_and_a_probe_get_a_slot_beyond_the_limit() {
    let words = [(FLOOR_SLOTS, 3), (FLOOR_RATE_MILLI, 1000 * 1000)];
    let Some(mut world) = World::start(Setup {
        sources: floor_sources(),
        words: words.into(),
        ..Setup::default()
    }) else {
        return;
    };
    succeed(&mut world, &["/a", "/challenged", "/probed"]);
    world.store(LIMIT, 1);
    let mut open = world.connect(0);
    open.send(&post("/a", b"open"));
    let mut frames = vec![world.control[0].frame()];
    // Neither an ordinary event of the same source nor a source without any reason.
    let waiting = [
        hold(&world, 0, "/challenged", b"an event"),
        hold(&world, 0, "/a", b"an event"),
    ];
    let mut senders = [world.connect(0), world.connect(0)];
    senders[0].send(&get("/challenged?a=1&hub.mode=subscribe"));
    frames.push(world.control[0].frame());
    senders[1].send(&post("/probed", b"wrong signature"));
    frames.push(world.control[0].frame());
    assert_eq!(world.inflight(), 3);
    assert_eq!(frames[1].target, "/challenged?a=1&hub.mode=subscribe");
    for (frame, sender) in frames[1..].iter().zip(&mut senders) {
        world.control[0].refuse(frame, 401);
        assert_eq!(sender.answer().status, 401);
    }
    let counters = &world.plane.counters;
    let floored = [0, 1, 2].map(|slot| counters.source(0, slot).floored());
    assert_eq!((floored, counters.worker(0).floored()), ([0, 1, 1], 2));
    // A slot beyond the limit frees nothing for those that wait.
    assert_eq!((world.inflight(), world.held()), (1, 2));
    let rest = frames.swap_remove(0);
    served(&mut world, rest, 2);
    drop(waiting);
}

#[test]
fn a_source_without_a_success_uses_the_floor_until_it_has_had_one() {
    let words = [(FLOOR_SLOTS, 3), (FLOOR_RATE_MILLI, 1000 * 1000)];
    let Some((mut world, open, _first)) = one_slot(Setup {
        sources: vec![source("/a", 0), source("/new", 1)],
        words: words.into(),
        ..Setup::default()
    }) else {
        return;
    };
    let mut new = world.connect(0);
    new.send(&post("/new", b"new"));
    let frame = world.control[0].frame();
    assert_eq!(world.inflight(), 2);
    world.control[0].accept(&frame);
    assert_eq!(new.answer().status, 200);
    let waits = hold(&world, 0, "/new", b"waits");
    assert_eq!(world.plane.counters.worker(0).floored(), 1);
    assert_eq!(served(&mut world, open, 1), ["waits"]);
    drop(waits);
}

#[test]
fn a_source_near_its_providers_threshold_goes_first_until_it_has_had_a_success() {
    let mut frail = source("/frail", 1);
    (frail.guard_after, frail.budget_ns) = (3, 40 * MILLISECOND);
    let Some((mut world, open, _first)) = one_slot(Setup {
        sources: vec![source("/a", 0), frail],
        ..Setup::default()
    }) else {
        return;
    };
    for refused in 1..=3 {
        let mut sender = world.connect(0);
        sender.send(&post("/frail", b"in vain"));
        assert_eq!(sender.answer().status, 503);
        assert_eq!(world.plane.slots.standing(1).refused_in_row, refused);
    }
    let counters = world.plane.counters.clone();
    let state = counters.state(1);
    eventually("it is published", || {
        world.plane.poke(0).ring().unwrap();
        (state.refused_in_row(), state.guarded()) == (3, 1)
    });
    assert_eq!(state.last_success_ns(), 0);
    // From now on it waits before those that came first.
    let budget_ns = 60_000 * MILLISECOND;
    let http = Setup::default().http;
    let mut patient = source("/frail", 1);
    (patient.guard_after, patient.budget_ns) = (3, budget_ns);
    world.configure(2, http, vec![source("/a", 0), patient]);
    let before = hold(&world, 0, "/a", b"came first");
    let mut frail = hold(&world, 0, "/frail", b"frail");
    eventually_held(&world, Class::High, 1);
    assert_eq!(served(&mut world, open, 2), ["frail", "came first"]);
    assert_eq!(frail.answer().status, 200);
    eventually("its success is published", || {
        world.plane.poke(0).ring().unwrap();
        (state.refused_in_row(), state.guarded()) == (0, 0) && state.last_success_ns() > 0
    });
    drop(before);
}

#[test]
fn refusals_that_an_earlier_data_plane_counted_go_on_counting() {
    let mut frail = source("/frail", 1);
    (frail.guard_after, frail.refused_in_row) = (3, 3);
    let sources = vec![source("/a", 0), frail];
    let Some((mut world, open, _first)) = one_slot(Setup {
        sources: sources.clone(),
        ..Setup::default()
    }) else {
        return;
    };
    assert_eq!(world.plane.slots.standing(1).refused_in_row, 3);
    let waits = hold(&world, 0, "/frail", b"frail");
    eventually_held(&world, Class::High, 1);
    served(&mut world, open, 1);
    eventually("it has its success", || {
        world.plane.slots.standing(1).refused_in_row == 0
    });
    // What was counted here stands, whatever a later snapshot carries over.
    world.configure(2, Setup::default().http, sources);
    assert_eq!(world.plane.slots.standing(1).refused_in_row, 0);
    drop(waits);
}

#[test]
fn requests_that_take_long_to_judge_are_bounded_and_keep_nobody_else_waiting() {
    let (mut heavy, mut ring) = (source("/heavy", 1), source("/ring", 2));
    (heavy.verify_weight, ring.verify_weight) = (1, 1);
    heavy.priority = proto::Priority::High.into();
    ring.acknowledge = proto::Acknowledge::Ring.into();
    let Some(mut world) = World::start(Setup {
        sources: vec![source("/a", 0), heavy, ring],
        ..Setup::default()
    }) else {
        return;
    };
    let mut first = world.connect(0);
    first.send(&post("/heavy", b"1"));
    let mut second = world.connect(0);
    second.send(&post("/ring", b"2"));
    let frames = [world.control[0].frame(), world.control[0].frame()];
    let mut third = hold(&world, 0, "/heavy", b"3");
    let mut fourth = hold(&world, 0, "/ring", b"4");
    let mut light = world.connect(0);
    light.send(&post("/a", b"light"));
    let frame = world.control[0].frame();
    assert_eq!(frame.body, b"light");
    world.control[0].accept(&frame);
    assert_eq!(light.answer().status, 200);
    for (frame, sender) in frames.iter().zip([&mut first, &mut second]) {
        world.control[0].accept(frame);
        assert_eq!(sender.answer().status, 200);
    }
    let frames = [world.control[0].frame(), world.control[0].frame()];
    for (frame, sender) in frames.iter().zip([&mut third, &mut fourth]) {
        world.control[0].accept(frame);
        assert_eq!(sender.answer().status, 200);
    }
    eventually("no slot is left taken", || {
        world.plane.slots.inflight() == 0
    });
}
