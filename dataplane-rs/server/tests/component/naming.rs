//! The senders' own ids: whose request comes again, and what was turned away.

use crate::holding::one_slot;
use crate::sender::{Sender, post, post_with};
use crate::world::{
    LIMIT, MILLISECOND, REPEAT_SHARE_MILLI, STOPPING, Setup, WRITABLE, World, eventually, source,
};
use shm_abi::{
    CountersHeader, REFUSED_ENTRIES, Refused, SHED_BUDGET, SHED_CLASS, SHED_HELD_FULL, SHED_HOLD,
    SHED_JOURNAL, SHED_RATE, SHED_STOPPING, SOURCES_MAX, SourceCounters, SourceState,
    WorkerCounters,
};
use sluice_core::admission::Class;
use sluice_proto as proto;
use sluice_proto::id_place::Place;

fn place(place: Place) -> proto::IdPlace {
    proto::IdPlace { place: Some(place) }
}

/// One source whose ids are in a field, one whose ids are in the body, one with both.
fn sources() -> Vec<proto::Source> {
    let header = || place(Place::Header("X-Id".into()));
    let json = || place(Place::Json("/event/id".into()));
    let [mut head, mut body, mut both] =
        [("/head", 0), ("/body", 1), ("/both", 2)].map(|(p, s)| source(p, s));
    head.id_places = vec![header()];
    body.id_places = vec![json()];
    both.id_places = vec![header(), json()];
    vec![head, body, both, source("/a", 3)]
}

fn setup() -> Setup {
    Setup {
        sources: sources(),
        ..Setup::default()
    }
}

fn named(path: &str, id: &str) -> Vec<u8> {
    match path {
        "/body" => post(path, format!(r#"{{"event": {{"id": "{id}"}}}}"#).as_bytes()),
        _ => post_with(path, &format!("x-id: {id}\r\n"), b"{}"),
    }
}

fn ask(world: &mut World, sender: &mut Sender, bytes: &[u8]) {
    sender.send(bytes);
    let frame = world.control[0].frame();
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    assert_eq!(sender.answer().status, 200);
}

/// The entries of a worker's ring of refusals, the oldest first: reason, source, id.
fn refused(world: &World, worker: usize) -> Vec<(u16, u32, String)> {
    let workers = world.control.len();
    let states = size_of::<CountersHeader>()
        + workers * size_of::<WorkerCounters>()
        + workers * SOURCES_MAX as usize * size_of::<SourceCounters>();
    let ring = REFUSED_ENTRIES as usize * size_of::<Refused>();
    let ring_at = states + SOURCES_MAX as usize * size_of::<SourceState>() + worker * ring;
    let count = world.plane.counters.worker(worker).refused_entries();
    (count.saturating_sub(REFUSED_ENTRIES)..count)
        .map(|entry| {
            let place = (entry % REFUSED_ENTRIES) as usize;
            let bytes = world.counters_bytes(ring_at + place * size_of::<Refused>(), 128);
            let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            let at_ns = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert!(
                at_ns > 1_600_000_000 * 1_000_000_000,
                "a wall clock: {at_ns}"
            );
            let source_id = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
            let (id, rest) = bytes[32..].split_at(usize::from(word(14)));
            assert!(rest.iter().all(|&c| c == 0), "bytes of another id");
            (word(12), source_id, String::from_utf8(id.to_vec()).unwrap())
        })
        .collect()
}

#[test]
fn an_id_in_a_field_is_known_again_with_and_without_pressure() {
    let Some(mut world) = World::start(setup()) else {
        return;
    };
    let counters = world.plane.counters.clone();
    let repeats = |slot| counters.source(0, slot).repeats();
    let mut sender = world.connect(0);
    ask(&mut world, &mut sender, &named("/head", "one"));
    ask(&mut world, &mut sender, &named("/head", "two"));
    assert_eq!(repeats(0), 0);
    // The same id of another source is another event's.
    ask(&mut world, &mut sender, &named("/both", "one"));
    assert_eq!(repeats(2), 0);
    ask(&mut world, &mut sender, &named("/head", "one"));
    ask(&mut world, &mut sender, &named("/both", "one"));
    assert_eq!((repeats(0), repeats(2)), (1, 1));
    assert_eq!(counters.worker(0).class_offered(Class::Repeat as usize), 2);
    // Neither no id nor two of them is an id.
    for _ in 0..2 {
        ask(&mut world, &mut sender, &post("/head", b"x"));
        let twice = post_with("/head", "X-Id: one\r\nX-Id: one\r\n", b"x");
        ask(&mut world, &mut sender, &twice);
    }
    assert_eq!(repeats(0), 1);
}

#[test]
fn an_id_in_the_body_is_looked_for_only_under_pressure() {
    let Some(mut world) = World::start(Setup {
        words: vec![(REPEAT_SHARE_MILLI, 500)],
        ..setup()
    }) else {
        return;
    };
    let counters = world.plane.counters.clone();
    let repeats = || counters.source(0, 1).repeats();
    let mut sender = world.connect(0);
    for _ in 0..2 {
        ask(&mut world, &mut sender, &named("/body", "one"));
    }
    assert_eq!(repeats(), 0);
    // Half of the limit is taken: a repeat might have to wait.
    let mut open = world.connect(0);
    open.send(&post("/a", b"open"));
    let frame = world.control[0].frame();
    world.store(LIMIT, 2);
    sender.send(&named("/body", "one"));
    let first = world.control[0].frame();
    world.control[0].accept(&first);
    assert_eq!(sender.answer().status, 200);
    assert_eq!(repeats(), 0, "it is the first time that anybody looks");
    sender.send(&named("/body", "one"));
    eventually("it waits as a repeat", || {
        (world.held(), repeats()) == (1, 1)
    });
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    let frame = world.control[0].frame();
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    assert_eq!(sender.answer().status, 200);
    drop(open);
}

#[test]
fn a_request_that_was_turned_away_comes_again_as_a_repeat() {
    let Some((mut world, first, _first)) = one_slot(Setup {
        sources: sources().into_iter().chain([source("/open", 4)]).collect(),
        max_held: 0,
        ..Setup::default()
    }) else {
        return;
    };
    let mut sender = world.connect(0);
    for path in ["/head", "/body", "/both"] {
        sender.send(&named(path, "again"));
        assert_eq!(sender.answer().status, 503);
    }
    world.control[0].accept(&first);
    world.control[0].consume(&first);
    world.store(LIMIT, 1);
    eventually("there is room", || world.inflight() == 0);
    // With a limit of one the part that repeats may use is taken at once.
    world.store(REPEAT_SHARE_MILLI, 1);
    for (path, slot) in [("/head", 0), ("/both", 2)] {
        ask(&mut world, &mut sender, &named(path, "again"));
        assert_eq!(world.plane.counters.source(0, slot).repeats(), 1, "{path}");
    }
}

#[test]
fn what_is_turned_away_is_named_with_its_reason() {
    let mut sources = sources();
    let mut rated = source("/rated", 4);
    (rated.rate, rated.id_places) = (0.001, sources[1].id_places.clone());
    let mut quick = source("/quick", 5);
    quick.budget_ns = 40 * MILLISECOND;
    quick.id_places = sources[0].id_places.clone();
    let mut high = source("/high", 6);
    high.priority = proto::Priority::High.into();
    sources.extend([rated, quick, high]);
    let Some((mut world, first, _first)) = one_slot(Setup {
        sources,
        max_held: 1,
        ..Setup::default()
    }) else {
        return;
    };
    let shed = |world: &World, bytes: &[u8]| {
        let mut sender = world.connect(0);
        sender.send(bytes);
        let status = sender.answer().status;
        assert!([429, 503].contains(&status), "{status}");
    };
    let mut want = Vec::new();
    let body = |id: &str| format!(r#"{{"event": {{"id": "{id}"}}}}"#).into_bytes();

    // One waits until its budget is spent, one is pushed out by a higher class.
    shed(&world, &named("/quick", "held"));
    want.push((SHED_HOLD, 105, "held"));
    let mut low = world.connect(0);
    low.send(&named("/body", "pushed out"));
    eventually("it is held", || world.held() == 1);
    let high = hold_in_place(&world, "/high");
    assert_eq!(low.answer().status, 503);
    want.push((SHED_CLASS, 101, "pushed out"));
    shed(&world, &named("/head", "queue full"));
    want.push((SHED_HELD_FULL, 100, "queue full"));
    shed(&world, &named("/body", "queue full, too"));
    want.push((SHED_HELD_FULL, 101, "queue full, too"));
    // Its sender names it nowhere, and so does this one.
    shed(&world, &post("/a", b"nameless"));
    shed(&world, &post("/both", b"{}"));
    let mut rated = world.connect(0);
    rated.send(&post("/rated", &body("first")));
    assert_eq!(rated.answer().status, 503); // the queue is full
    want.push((SHED_HELD_FULL, 104, "first"));
    shed(&world, &post("/rated", &body("too often")));
    want.push((SHED_RATE, 104, "too often"));
    world.store(WRITABLE, 0);
    shed(&world, &named("/both", "journal"));
    want.push((SHED_JOURNAL, 102, "journal"));
    shed(&world, &post("/both", &body("journal, in the body")));
    want.push((SHED_JOURNAL, 102, "journal, in the body"));
    world.store(WRITABLE, 1);

    world.control[0].accept(&first);
    let frame = world.control[0].frame();
    world.control[0].accept(&frame);
    world.store(LIMIT, 2);
    let mut quick = world.connect(0);
    quick.send(&named("/quick", "lies in the lane"));
    let frame = world.control[0].frame();
    assert_eq!(quick.answer().status, 503);
    want.push((SHED_BUDGET, 105, "lies in the lane"));
    // What was judged is not among them.
    let mut judged = world.connect(0);
    judged.send(&named("/head", "wrong signature"));
    let last = world.control[0].frame();
    world.control[0].refuse(&last, 401);
    assert_eq!(judged.answer().status, 401);
    world.control[0].accept(&frame);
    world.control[0].consume(&last);
    let long = "i".repeat(200);
    world.store(STOPPING, 1);
    shed(&world, &named("/head", &long));
    want.push((SHED_STOPPING, 100, &long[..96]));
    let want: Vec<_> = want
        .into_iter()
        .map(|(reason, source, id)| (reason, source, id.to_owned()))
        .collect();
    assert_eq!(refused(&world, 0), want);
    drop(high);
}

/// One that is held in the place of another one.
fn hold_in_place(world: &World, path: &str) -> Sender {
    let held = |class: Class| world.plane.counters.worker(0).class_held(class as usize);
    let before = held(Class::High);
    let mut sender = world.connect(0);
    sender.send(&post(path, b"high"));
    eventually("it is held", || held(Class::High) == before + 1);
    sender
}

#[test]
fn the_newest_refusals_stay_when_there_are_too_many() {
    let Some(world) = World::start(Setup {
        limit: 0,
        max_held: 0,
        ..setup()
    }) else {
        return;
    };
    let count = REFUSED_ENTRIES + 100;
    let mut sender = world.connect(0);
    for i in 0..count {
        sender.send(&named("/head", &i.to_string()));
        assert_eq!(sender.answer().status, 503);
    }
    let ids = refused(&world, 0).into_iter().map(|(_, _, id)| id);
    let want = (100..count).map(|i| i.to_string());
    assert!(ids.eq(want));
}

#[test]
fn a_request_that_came_in_pieces_is_named_as_well() {
    let Some((world, _first, _sender)) = one_slot(Setup {
        max_held: 0,
        ..setup()
    }) else {
        return;
    };
    let mut sender = world.connect(0);
    for (path, id) in [("/head", "h"), ("/body", "b")] {
        for byte in named(path, id) {
            sender.send(&[byte]);
        }
        assert_eq!(sender.answer().status, 503);
    }
    let chunks = "5\r\n{\"eve\r\n15\r\nnt\": {\"id\": \"chunk\"}}\r\n0\r\n\r\n";
    let head = "POST /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    sender.send(format!("{head}{chunks}").as_bytes());
    assert_eq!(sender.answer().status, 503);
    let ids: Vec<_> = refused(&world, 0).into_iter().map(|(.., id)| id).collect();
    assert_eq!(ids, ["h", "b", "chunk"]);
}

#[test]
fn a_config_that_names_what_cannot_be_is_refused_with_the_fields_name() {
    let with = |change: fn(&mut proto::Source)| {
        let mut source = source("/a", 0);
        change(&mut source);
        let snapshot = proto::Snapshot {
            config_version: 1,
            http: Some(Setup::default().http),
            sources: vec![source],
            ..proto::Snapshot::default()
        };
        let host = sluice_dataplane::Host {
            ring_size: 1 << 20,
            workers: 1,
            rows: 1,
            tickets: &std::sync::Arc::default(),
        };
        sluice_dataplane::Config::new(snapshot, &host)
    };
    assert!(with(|s| s.id_places = sources()[2].id_places.clone()).is_ok());
    for (change, part) in [
        (
            (|s| s.id_places = vec![proto::IdPlace { place: None }]) as fn(&mut proto::Source),
            "id_places",
        ),
        (
            |s| s.id_places = vec![place(Place::Header("X Id".into()))],
            "id_places: \"X Id\"",
        ),
        (
            |s| s.id_places = vec![place(Place::Json("id".into()))],
            "id_places: \"id\"",
        ),
        (
            |s| s.id_places = vec![place(Place::Json("/id".into())); 9],
            "id_places: 9",
        ),
        (
            |s| s.retry_headers = vec!["X-Retry:".into()],
            "retry_headers: \"X-Retry:\"",
        ),
        (
            |s| s.retry_headers = vec!["X-Retry".into(); 9],
            "retry_headers: 9",
        ),
        (
            |s| s.handshakes = vec![proto::Handshake::default()],
            "handshakes",
        ),
        (|s| s.handshakes = handshakes(17, |_| {}), "handshakes: 17"),
        (
            |s| s.handshakes = handshakes(1, |h| h.method = "BREW".into()),
            "handshakes.method: \"BREW\"",
        ),
        (
            |s| s.handshakes = handshakes(1, |h| h.query_keys = vec![String::new()]),
            "handshakes.query_keys",
        ),
        (
            |s| s.handshakes = handshakes(1, |h| h.query_keys = vec!["k".into(); 9]),
            "handshakes.query_keys: 9",
        ),
        (
            |s| s.handshakes = handshakes(1, |h| h.headers = vec!["é".into()]),
            "handshakes.headers: \"é\"",
        ),
    ] {
        let fault = with(change).unwrap_err();
        assert!(fault.contains("source a: "), "{fault}");
        assert!(fault.contains(part), "{fault}");
    }
}

fn handshakes(count: usize, change: fn(&mut proto::Handshake)) -> Vec<proto::Handshake> {
    let mut handshake = proto::Handshake {
        method: "POST".into(),
        max_body: 4096,
        ..proto::Handshake::default()
    };
    change(&mut handshake);
    vec![handshake; count]
}
