//! The epoll backend against the suite, and what only it can show.

#[allow(dead_code, unused_imports, unused_macros)] // A part needs a binary of its own.
mod conformance;

use sluice_kernel::{Backend, Epoll, Options, Refusal, Wait};

use conformance::world::{Client, World, small};

fn make(options: &Options) -> Option<Epoll> {
    Some(Epoll::new(options, None).unwrap())
}

conformance::whole_suite!(make);

/// Two events in one turn, and two connections of one listener.
mod two_at_a_time {
    use super::{Epoll, Options, conformance};

    fn make(options: &Options) -> Option<Epoll> {
        super::make(&Options {
            cq_entries: 2,
            ..options.clone()
        })
    }

    conformance::whole_suite!(make);
}

#[test]
fn the_report_names_what_it_is() {
    let refusal = Refusal::SwitchedOff { value: 2 };
    let epoll = Epoll::new(&Options::default(), Some(refusal.clone())).unwrap();
    let caps = epoll.caps();
    println!("{caps}\n{}", caps.to_json());
    assert_eq!((caps.backend, caps.buffers), ("epoll", 1));
    assert_eq!(caps.refusal, Some(refusal));
    assert!(caps.to_json().starts_with("{\"backend\":\"epoll\","));
}

/// However much is there, so that others are served in between.
#[test]
fn a_turn_takes_one_piece_of_each_connection() {
    let mut world = World::new(make(&small()).unwrap());
    let (_listener, address, _) = world.listen();
    let mut pairs: Vec<_> = (0..3).map(|_| world.connect(address)).collect();
    let body = vec![7; 100_000];
    for (client, _) in &mut pairs {
        assert!(client.write(&body) > 4 * 4096);
    }
    for turn in 1..=4 {
        world.turn_for(Wait::none());
        for (_, conn) in &pairs {
            let seen = world.book.seen(*conn);
            assert_eq!((seen.pieces, seen.data.len()), (turn, turn * 4096));
        }
    }
}

/// So that a burst of new connections does not hold up those that are there.
#[test]
fn a_turn_takes_a_bounded_number_of_new_connections() {
    let options = Options {
        cq_entries: 8,
        ..small()
    };
    let mut world = World::new(make(&options).unwrap());
    let (_listener, address, _) = world.listen();
    let _clients: Vec<_> = (0..20).map(|_| Client::connect(address)).collect();
    for accepted in [8, 16, 20] {
        world.turn_for(Wait::none());
        assert_eq!(world.book.accepted.len(), accepted);
    }
}

/// The answer leaves inside the order, and one turn tells of the request and of the answer.
#[test]
fn an_answer_that_fits_costs_no_turn() {
    let mut world = World::echoing(make(&small()).unwrap());
    let (mut client, conn) = world.pair();
    client.say(b"request");
    world.turn_for(Wait::none());
    assert_eq!(world.book.seen(conn).sent, [(7, Ok(()))]);
    assert_eq!(client.listen().heard, b"request");
    world.until_quiet();
}
