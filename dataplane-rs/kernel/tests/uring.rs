//! The io_uring backend against the suite, and what only it can show.

#[allow(dead_code, unused_imports, unused_macros)] // A part needs a binary of its own.
mod conformance;

use sluice_kernel::{Options, Refusal, Uring, probe};

fn make(options: &Options) -> Option<Uring> {
    match probe() {
        Ok(caps) => Some(Uring::new(options, &caps).unwrap()),
        // Offered but not working is no reason to skip: it is what these tests are for.
        Err(refusal @ Refusal::SelfTest { .. }) => panic!("{refusal}"),
        Err(refusal) => {
            println!("skipped: {refusal}");
            None
        }
    }
}

conformance::whole_suite!(make);

#[test]
fn running_out_of_buffers_is_counted_and_survived() {
    if let Some(stats) = conformance::pressure::starve(&make) {
        assert!(stats.recv_starved > 0, "{stats:?}");
    }
}

#[test]
fn an_overflown_completion_queue_ends_multishots_that_are_armed_again() {
    if let Some(stats) = conformance::pressure::overflow(&make) {
        assert!(
            stats.cq_overflows > 0 && stats.recv_rearmed > 0,
            "{stats:?}"
        );
    }
}

#[test]
fn an_answer_that_goes_well_completes_nothing() {
    use conformance::world::{World, small};
    use sluice_kernel::{Backend, Wait};
    let Some(io) = make(&small()) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    world.until_quiet();
    let before = world.io.stats().completions;
    world.send(conn, b"well");
    world.turn_for(Wait::none());
    assert_eq!(world.book.seen(conn).sent, [(4, Ok(()))]);
    assert_eq!(world.io.stats().completions, before);
    world.until("answer", |_| client.listen().heard == b"well");
}

/// A connection that stops receiving again and again has one buffer under way at most.
#[test]
fn one_buffer_at_most_is_set_aside_for_a_paused_connection() {
    use conformance::world::{World, small};
    use sluice_kernel::Backend;
    let options = small();
    let Some(io) = make(&options) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    let body = vec![b'x'; 100_000];
    let mut said = 0;
    for pauses in 1..=20u64 {
        said += client.write(&body);
        world.book.pause_on_awake = Some(conn); // when bytes lie in a buffer
        world.until_quiet();
        let aside = world.io.stats().bytes_stashed;
        assert!(aside <= pauses * u64::from(options.buffer_size), "{aside}");
        world.recv(conn, true);
        world.until("all of it", |world| {
            world.book.seen(conn).data.len() == said
        });
    }
    assert!(world.io.stats().bytes_stashed > 0, "it says nothing");
    assert_eq!(world.book.seen(conn).eof, None);
}

/// What is set aside for all connections is bounded, and costs those beyond the bound only.
#[test]
fn a_connection_beyond_the_bound_of_what_is_set_aside_breaks_alone() {
    use conformance::world::{World, small};
    use sluice_kernel::{Backend, Close, Errno};
    let options = Options {
        stash_max: 2048,
        ..small()
    };
    let Some(io) = make(&options) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    let (mut other, second) = world.pair();
    let body = vec![b'x'; 100_000];
    assert!(client.write(&body) > 2048);
    world.book.pause_on_awake = Some(conn);
    world.until_quiet();
    other.say(b"hello");
    world.until_data(second, b"hello");
    world.recv(conn, true);
    world.until("eof", |world| world.book.seen(conn).eof.is_some());
    assert_eq!(world.book.seen(conn).eof, Some(Some(Errno(libc::ENOBUFS))));
    world.io.close(conn, Close::Now);
    world.until_closed(conn);
}

/// A ring that takes only the operations that the backend uses.
mod restricted {
    use super::{Options, Uring, conformance};
    use sluice_kernel::Backend;

    fn make(options: &Options) -> Option<Uring> {
        let ring = super::make(&Options {
            restrict: true,
            ..options.clone()
        })?;
        assert!(ring.caps().restricted, "{}", ring.caps());
        Some(ring)
    }

    conformance::whole_suite!(make);
}

/// A ring with room for next to nothing, and a single buffer.
mod tiny {
    use super::{Options, Uring, conformance};

    fn make(options: &Options) -> Option<Uring> {
        super::make(&Options {
            buffers: 1,
            cq_entries: 2,
            sq_entries: 1,
            ..options.clone()
        })
    }

    conformance::whole_suite!(make);
}
