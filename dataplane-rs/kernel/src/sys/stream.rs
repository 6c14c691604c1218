//! What is done to sockets that are asked rather than waited for: nothing in here blocks.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::socket::get_option;
use crate::{Errno, Error};

/// Makes accepts on a listening socket fail with EAGAIN instead of waiting.
///
/// The flag belongs to the socket and not to the descriptor, so every process that shares it sees
/// it; io_uring's accept waits all the same (Linux 6.0 and later). Accepted sockets do not inherit
/// it.
pub(crate) fn set_nonblocking(listener: BorrowedFd<'_>) -> Result<(), Error> {
    let fd = listener.as_raw_fd();
    // SAFETY: no pointers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: no pointers.
    if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(Error::last("fcntl(O_NONBLOCK)"));
    }
    Ok(())
}

/// Fails on what is no listening socket, as an accept on it would.
pub(crate) fn must_listen(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut listens: libc::c_int = 0;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ACCEPTCONN);
    match get_option(
        socket,
        level,
        name,
        &mut listens,
        "getsockopt(SO_ACCEPTCONN)",
    ) {
        Ok(()) if listens != 0 => Ok(()),
        Ok(()) => Err(Errno(libc::EINVAL)),
        Err(_) => Err(Errno::last()),
    }
}

/// Takes one connection that waits at a listener made by [`set_nonblocking`].
pub(crate) fn accept(listener: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let nowhere = std::ptr::null_mut();
    // SAFETY: no address is asked for.
    let fd = unsafe {
        let (fd, flags) = (listener.as_raw_fd(), libc::SOCK_CLOEXEC);
        libc::accept4(fd, nowhere, nowhere.cast(), flags)
    };
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: just made, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes what is there, up to the length of `buffer`; 0 is the peer's FIN.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: `buffer` is writable for its length.
    let n = unsafe {
        let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
        libc::recv(socket.as_raw_fd(), start, length, flags)
    };
    usize::try_from(n).map_err(|_| Errno::last())
}

/// Gives the kernel what it has room for. Says how much that was.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `bytes` is readable for its length.
    let n = unsafe {
        let (start, length) = (bytes.as_ptr().cast(), bytes.len());
        libc::send(socket.as_raw_fd(), start, length, flags)
    };
    usize::try_from(n).map_err(|_| Errno::last())
}
