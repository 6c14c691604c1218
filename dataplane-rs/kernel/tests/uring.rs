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
