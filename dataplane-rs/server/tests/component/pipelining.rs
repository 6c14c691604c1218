//! Bytes that come in pieces, or several requests at once.

use crate::sender::post;
use crate::world::{Setup, World, eventually, source};
use std::time::{Duration, Instant};

#[test]
fn pipelined_requests_are_answered_in_order() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let mut sender = world.connect(0);
    let bodies: Vec<Vec<u8>> = (0..40usize).map(|i| vec![i as u8; i * 37]).collect();
    let requests: Vec<Vec<u8>> = bodies.iter().map(|body| post("/a?q", body)).collect();
    sender.send(&requests.concat());
    for (i, body) in bodies.iter().enumerate() {
        let frame = world.control[0].frame();
        assert_eq!((frame.line.source_id, frame.target.as_str()), (100, "/a?q"));
        assert_eq!(frame.line.seq as usize, i + 1);
        assert!(frame.body == *body, "body {i}");
        assert!(!world.control[0].has_frame(), "one request at a time");
        world.control[0].refuse(&frame, 400 + i as u16);
        world.control[0].consume(&frame);
        assert_eq!(sender.answer().status as usize, 400 + i);
    }
}

#[test]
fn many_pipelined_requests_that_nobody_takes_all_get_their_answer() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let mut sender = world.connect(0);
    let nowhere = post("/nowhere", b"x");
    let requests = [nowhere.repeat(300), post("/a", b"last")].concat();
    sender.send(&requests);
    for _ in 0..300 {
        assert_eq!(sender.answer().status, 404);
    }
    let frame = world.control[0].frame();
    assert_eq!(frame.body, b"last");
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    assert_eq!(sender.answer().status, 200);
    assert_eq!(world.plane.counters.worker(0).unrouted(), 300);
}

#[test]
fn an_answer_behind_another_waits_for_nothing_else_to_happen() {
    let Some(world) = World::start(Setup::default()) else {
        return;
    };
    let mut sender = world.connect(0);
    let requests = post("/nowhere", b"x").repeat(3);
    let began = Instant::now();
    for _ in 0..20 {
        sender.send(&requests);
        for _ in 0..3 {
            assert_eq!(sender.answer().status, 404);
        }
    }
    // Of the belt on a worker's sleep, each of these would have waited for a second.
    assert!(began.elapsed() < Duration::from_secs(15));
}

#[test]
fn a_sender_that_reads_no_answers_is_served_no_further_and_holds_nobody_up() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let (mut deaf, mut other) = (world.connect(0), world.connect(0));
    let request = post("/nowhere", b"");
    let requests = request.repeat(200);
    let (mut sent, mut others, mut still) = (0, 0, 0);
    let mut served = 0;
    // Until the sockets, the answers and what may be sent ahead are full, so that nothing moves
    // while its neighbour is served fifty times.
    while still < 50 {
        let count = deaf.send_some(&requests[sent % requests.len()..]);
        sent += count;
        assert!(sent < 256 << 20, "it is served without end");
        other.send(&post("/a", b"hello"));
        let frame = world.control[0].frame();
        world.control[0].refuse(&frame, 401);
        world.control[0].consume(&frame);
        assert_eq!(other.answer().status, 401);
        others += 1;
        let now = world.plane.counters.worker(0).requests() - others;
        still = if count == 0 && now == served {
            still + 1
        } else {
            0
        };
        served = now;
    }
    assert!(
        served < (sent / request.len()) as u64,
        "all of {served} were served"
    );
    // What it is owed is still there once it reads.
    for _ in 0..served {
        assert_eq!(deaf.answer().status, 404);
    }
}

#[test]
fn a_sender_that_closes_its_half_still_gets_every_answer() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let mut sender = world.connect(0);
    let requests = [
        post("/a", b"1"),
        post("/a", b"2"),
        post("/nowhere", b""),
        post("/a", b"3"),
    ];
    sender.send(&requests.concat());
    sender.send(b"POST /a HTTP/1.1\r\nHost: half a head");
    sender.finish();
    for (body, status) in [("1", 200), ("2", 200), ("3", 200)] {
        let frame = world.control[0].frame();
        assert_eq!(frame.body, body.as_bytes());
        world.control[0].accept(&frame);
        world.control[0].consume(&frame);
        assert_eq!(sender.answer().status, status);
        if body == "2" {
            assert_eq!(sender.answer().status, 404);
        }
    }
    sender.expect_end();
}

#[test]
fn half_a_body_and_a_fin_end_the_connection_at_once() {
    let Some(world) = World::start(Setup::default()) else {
        return;
    };
    for part in [
        &b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"[..],
        b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
        b"POST /n",
    ] {
        let mut sender = world.connect(0);
        sender.send(part);
        sender.finish();
        sender.expect_end();
    }
}

#[test]
fn a_large_request_behind_one_that_waits_is_received_whole() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let mut sender = world.connect(0);
    let body: Vec<u8> = (0..128 * 1024u32).map(|i| (i / 7) as u8).collect();
    sender.send(&post("/a", b"first"));
    let first = world.control[0].frame();
    sender.send(&post("/a", &body));
    // All of it that may come ahead has come, and receiving is off.
    let ahead = || world.plane.counters.worker(0).bytes_in();
    eventually("much comes ahead", || ahead() > 65 * 1024);
    world.control[0].accept(&first);
    world.control[0].consume(&first);
    assert_eq!(sender.answer().status, 200);
    let second = world.control[0].frame();
    assert!(second.body == body);
    world.control[0].accept(&second);
    world.control[0].consume(&second);
    assert_eq!(sender.answer().status, 200);
}

#[test]
fn a_request_cut_anywhere_is_the_same_request() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let chunked = b"POST /a HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n\
                    4\r\nabcd\r\n1;x=y\r\ne\r\n0\r\nX-Trailer: z\r\n\r\n";
    let plain = post("/a", b"abcde");
    for request in [&chunked[..], &plain] {
        for cut in 1..request.len() {
            let mut sender = world.connect(0);
            let before = world.plane.counters.worker(0).bytes_in();
            sender.send(&request[..cut]);
            eventually("the first part came", || {
                world.plane.counters.worker(0).bytes_in() - before == cut as u64
            });
            sender.send(&request[cut..]);
            let frame = world.control[0].frame();
            assert_eq!(frame.body, b"abcde", "cut at {cut}");
            world.control[0].accept(&frame);
            world.control[0].consume(&frame);
            assert_eq!(sender.answer().status, 200);
        }
    }
}

#[test]
fn a_chunked_request_and_the_one_behind_it_both_come_whole() {
    let Some(mut world) = World::start(Setup {
        limit: 1,
        ..Setup::default()
    }) else {
        return;
    };
    let mut blocker = world.connect(0);
    blocker.send(&post("/a", b"takes the only slot"));
    let taken = world.control[0].frame();
    // Held, so that its bytes are kept beside those of the next one.
    let mut sender = world.connect(0);
    sender.send(
        b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    );
    eventually("it is held", || world.held() == 1);
    sender.send(&post("/a", b"behind"));
    world.control[0].accept(&taken);
    for body in [&b"abc"[..], b"behind"] {
        let frame = world.control[0].frame();
        assert_eq!(frame.body, body);
        world.control[0].accept(&frame);
        world.control[0].consume(&frame);
        assert_eq!(sender.answer().status, 200);
    }
}

#[test]
fn who_asks_first_is_told_to_go_on_and_who_has_sent_is_not() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let head = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    let mut patient = world.connect(0);
    patient.send(head);
    assert_eq!(patient.answer().status, 100);
    patient.send(b"abc");
    let mut hasty = world.connect(0);
    hasty.send(&[&head[..], b"abc"].concat());
    for _ in 0..2 {
        let frame = world.control[0].frame();
        assert_eq!(frame.body, b"abc");
        world.control[0].accept(&frame);
        world.control[0].consume(&frame);
    }
    assert_eq!(patient.answer().status, 200);
    assert_eq!(hasty.answer().status, 200);
}

#[test]
fn an_interim_answer_keeps_its_place_behind_the_answers_before_it() {
    let Some(mut world) = World::start(Setup::default()) else {
        return;
    };
    let mut sender = world.connect(0);
    let nowhere = post("/nowhere", b"").repeat(20);
    let head = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    sender.send(&[&nowhere[..], head].concat());
    for _ in 0..20 {
        assert_eq!(sender.answer().status, 404);
    }
    assert_eq!(sender.answer().status, 100);
    sender.send(b"abc");
    let frame = world.control[0].frame();
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    assert_eq!(sender.answer().status, 200);
}

#[test]
fn the_bodies_of_refused_requests_are_read_and_the_connection_goes_on() {
    let mut only_post = source("/post", 1);
    only_post.methods = vec!["POST".into()];
    let setup = Setup {
        sources: vec![source("/a", 0), only_post],
        ..Setup::default()
    };
    let Some(mut world) = World::start(setup) else {
        return;
    };
    let mut sender = world.connect(0);
    sender.send(&post("/nowhere", &vec![b'x'; 100_000]));
    sender.send(b"GET /post HTTP/1.1\r\nHost: x\r\n\r\n");
    sender.send(
        b"POST /no HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    );
    sender.send(&post("/a", b"good"));
    assert_eq!(sender.answer().status, 404);
    let wrong = sender.answer();
    assert_eq!((wrong.status, wrong.header("Allow")), (405, Some("POST")));
    assert_eq!(sender.answer().status, 404);
    let frame = world.control[0].frame();
    assert_eq!(frame.body, b"good");
    world.control[0].accept(&frame);
    world.control[0].consume(&frame);
    let answer = sender.answer();
    assert_eq!((answer.status, answer.closes()), (200, false));
}
