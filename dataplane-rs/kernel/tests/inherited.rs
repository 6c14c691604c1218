//! Descriptors that were handed down. A process of its own, because they can be taken over once.

use std::io::Read;
use std::os::fd::IntoRawFd;

use sluice_kernel::sys::inherit_fds;

#[test]
fn descriptors_are_taken_over_once() {
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let number = theirs.into_raw_fd();
    let fds = inherit_fds(number, 1).unwrap();
    assert_eq!(fds.len(), 1);
    assert!(inherit_fds(number, 1).is_err(), "a second owner");
    drop(fds);
    // It was the only one: its end is seen here.
    assert_eq!(ours.read(&mut [0; 1]).unwrap(), 0);
}
