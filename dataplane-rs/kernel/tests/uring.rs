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

/// As a kernel without the receive cap would be used.
fn make_uncapped(options: &Options) -> Option<Uring> {
    let mut caps = probe().ok()?;
    caps.recv_capped = false;
    Some(Uring::new(options, &caps).unwrap())
}

#[test]
fn running_out_of_buffers_is_counted_and_survived() {
    if let Some(stats) = conformance::pressure::starve(&make) {
        assert!(stats.recv_starved > 0, "{stats:?}");
    }
}

#[test]
fn running_out_of_buffers_is_survived_without_the_receive_cap() {
    if let Some(stats) = conformance::pressure::starve(&make_uncapped) {
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

/// What a multishot receive delivers after it was turned off is bounded, and costs the one that
/// sends so far ahead only.
#[test]
fn a_connection_beyond_the_bound_of_what_is_set_aside_breaks_alone() {
    use conformance::world::{World, small};
    use sluice_kernel::{Backend, Close, Errno};
    const SET_ASIDE: usize = 3 * 4096;
    let options = Options {
        stash_max: SET_ASIDE,
        ..small()
    };
    let Some(io) = make(&options) else { return };
    let mut world = World::new(io);
    let (mut client, conn) = world.pair();
    let (mut other, second) = world.pair();
    let body = vec![b'x'; 200_000];
    let mut said = client.write(&body);
    world.book.pause_on_awake = Some(conn); // when all of it lies in buffers
    world.until_quiet();
    assert!(said > SET_ASIDE, "{said} bytes say nothing");
    other.say(b"hello");
    world.until_data(second, b"hello");
    world.recv(conn, true);
    world.until("eof", |world| world.book.seen(conn).eof.is_some());
    assert_eq!(world.book.seen(conn).eof, Some(Some(Errno(libc::ENOBUFS))));
    let kept = world.book.seen(conn).data.len();
    assert!(kept <= SET_ASIDE && body.starts_with(&world.book.seen(conn).data));
    assert!(world.io.stats().bytes_stashed <= SET_ASIDE as u64);
    world.io.close(conn, Close::Now);
    world.until_closed(conn);

    // And what was kept has been given back: another may be as far ahead, and one that stops
    // receiving again and again has one buffer under way at most.
    let (mut client, conn) = world.pair();
    said = 0;
    for _ in 0..20 {
        said += client.write(&body[..2048]);
        world.book.pause_on_awake = Some(conn);
        world.until_quiet();
        world.recv(conn, true);
        world.until_data(conn, &body[..said]);
    }
    assert_eq!(world.book.seen(conn).eof, None);
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
