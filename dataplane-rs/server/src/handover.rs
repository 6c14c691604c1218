//! Hands this data plane's descriptors to a control plane that was started anew: listening sockets
//! and doorbells, in the order of the command line.

use crate::plane::Plane;
use sluice_kernel::sys;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::Duration;

/// After how long a failed accept is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is handed over, and to whom.
pub struct Handover {
    /// Where it is asked for.
    pub listener: UnixListener,
    /// The user that started this process: it, and root, may ask. The user that the process became
    /// may not.
    pub owner: u32,
    /// Worker threads.
    pub workers: usize,
    /// Listening addresses.
    pub listeners: usize,
    /// The descriptors, in the order of the command line.
    pub fds: Vec<OwnedFd>,
}

/// Answers every connection of the owner with `workers listeners` as text and the descriptors,
/// until the process ends.
pub fn serve(plane: &Plane, handover: &Handover) {
    let (workers, listeners) = (handover.workers, handover.listeners);
    let message = format!("{workers} {listeners}");
    for stream in handover.listener.incoming() {
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => {
                // Most likely descriptors are short, and they stay so for a while.
                plane.report("warning", format!("hand descriptors over: {error}"));
                std::thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        let peer = sys::peer_credentials(stream.as_fd());
        if !matches!(peer, Ok((_, user, _)) if user == handover.owner || user == 0) {
            plane.report(
                "warning",
                "descriptors asked for by another user: refused".into(),
            );
            continue;
        }
        let borrowed: Vec<_> = handover.fds.iter().map(AsFd::as_fd).collect();
        if let Err(error) = sys::send_fds(stream.as_fd(), message.as_bytes(), &borrowed) {
            plane.report("warning", format!("hand descriptors over: {error}"));
        }
    }
}
