//! Small safe wrappers around the calls the data plane needs besides its sockets' data path:
//! clocks, eventfds, addresses, descriptors passed over a Unix socket, limits, randomness, the
//! last words before a SIGBUS.
//!
//! No memory is mapped for lanes here, and nothing here blocks except where it says so.

mod clock;
mod eventfd;
mod fd_passing;
mod process;
mod sigbus;
mod socket;
mod stream;

pub use clock::{boot_ns, wall_ns};
pub use eventfd::EventFd;
pub use fd_passing::{FDS_MAX, inherit_fds, recv_fds, send_fds};
pub use process::{
    descriptor_limit, descriptor_limit_raise, kernel_release, memlock_limit, pin_thread, random,
};
pub use sigbus::report_sigbus;
pub use socket::{
    accept_queue, local_addr, peer_addr, peer_credentials, same_socket, set_linger_reset,
    set_nodelay, shutdown_write,
};
pub(crate) use socket::{connected_pair, loopback_listener, shutdown_both};
pub(crate) use stream::{accept, must_listen, receive, send, set_nonblocking};
