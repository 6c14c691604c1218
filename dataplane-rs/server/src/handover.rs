//! Hands this data plane's descriptors to a control plane that was started anew: listening sockets
//! and doorbells, in the order of the command line.

use crate::plane::Plane;
use sluice_kernel::sys;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// After how long a failed accept is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers every connection of our own user with `workers listeners` as text and the descriptors.
pub fn serve(
    plane: Arc<Plane>,
    socket: &Path,
    workers: usize,
    listeners: usize,
    fds: Vec<OwnedFd>,
) -> std::io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    let own_user = own_user();
    let message = format!("{workers} {listeners}");
    for stream in listener.incoming() {
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
        if !matches!(peer, Ok((_, user, _)) if user == own_user || user == 0) {
            plane.report(
                "warning",
                "descriptors asked for by another user: refused".into(),
            );
            continue;
        }
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        if let Err(error) = sys::send_fds(stream.as_fd(), message.as_bytes(), &borrowed) {
            plane.report("warning", format!("hand descriptors over: {error}"));
        }
    }
    Ok(())
}

/// Our own user, by way of the owner of our own process directory.
fn own_user() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").map_or(u32::MAX, |own| own.uid())
}
