//! The epoll backend without descriptors.

#[allow(dead_code, unused_imports, unused_macros)] // The rest of the suite is elsewhere.
mod conformance;

use sluice_kernel::{Epoll, Options};

fn make(options: &Options) -> Option<Epoll> {
    Some(Epoll::new(options, None).unwrap())
}

conformance::descriptor_suite!(make);
