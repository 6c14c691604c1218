//! The io_uring backend without descriptors.

#[allow(dead_code, unused_imports, unused_macros)] // The rest of the suite is elsewhere.
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

conformance::descriptor_suite!(make);
