//! Descriptors over a Unix socket (SCM_RIGHTS): how a new control plane gets the listening
//! sockets and doorbells of a data plane that outlived the old one.
//!
//! The bytes that travel along are the caller's own message. Both calls block as the socket
//! does; they are for the control thread, not for a worker.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Errno, Error};

/// The most descriptors one message may carry (SCM_MAX_FD of the kernel).
pub const FDS_MAX: usize = 253;

/// Whether [`inherit_fds`] was called.
static INHERITED: AtomicBool = AtomicBool::new(false);

/// Takes over `count` descriptors from `first` on, which whoever started this process left open for
/// it, and closes them on exec. Works once in a process; call it before anything is opened, or a
/// number that was not handed down may be somebody else's by then.
pub fn inherit_fds(first: RawFd, count: usize) -> Result<Vec<OwnedFd>, Error> {
    let refused = |errno| Error::Syscall {
        call: "take inherited descriptors over",
        errno,
    };
    if INHERITED.swap(true, Ordering::AcqRel) {
        return Err(refused(Errno(libc::EALREADY)));
    }
    let mut fds = Vec::with_capacity(count);
    for fd in (first..).take(count) {
        // SAFETY: a plain call; a number that is no descriptor gives EBADF.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
            return Err(refused(Errno::last()));
        }
        // SAFETY: it is open, as just seen, and this function hands each one out once.
        fds.push(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    Ok(fds)
}

/// Room for one control message with [`FDS_MAX`] descriptors, aligned as cmsghdr wants it.
#[repr(C, align(8))]
struct Control([u8; 1040]);

/// Sends `message` (at least one byte) with `fds` in one piece.
pub fn send_fds(
    socket: BorrowedFd<'_>,
    message: &[u8],
    fds: &[BorrowedFd<'_>],
) -> Result<(), Error> {
    if message.is_empty() || fds.len() > FDS_MAX {
        return Err(Error::Syscall {
            call: "send descriptors",
            errno: Errno(libc::EINVAL),
        });
    }
    let mut control = Control([0; 1040]);
    let mut iov = libc::iovec {
        iov_base: message.as_ptr().cast_mut().cast(),
        iov_len: message.len(),
    };
    let mut header = empty_header(&mut iov);
    if !fds.is_empty() {
        let bytes = size_of_val(fds) as libc::c_uint;
        header.msg_control = (&raw mut control).cast();
        // SAFETY: plain arithmetic; FDS_MAX descriptors fit (asserted below).
        header.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as _;
        // SAFETY: msg_control has room for the header and `bytes` of data, and is aligned; a
        // BorrowedFd is its raw descriptor, so `fds` is an array of c_int.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(bytes) as _;
            let data = libc::CMSG_DATA(first);
            std::ptr::copy_nonoverlapping(fds.as_ptr().cast::<u8>(), data, bytes as usize);
        }
    }
    loop {
        // SAFETY: `header` points at live memory of the stated lengths.
        let n = unsafe { libc::sendmsg(socket.as_raw_fd(), &header, libc::MSG_NOSIGNAL) };
        if n == message.len() as isize {
            return Ok(());
        }
        if n >= 0 {
            // A stream took a part; a message this small is only cut when its buffer is full.
            return Err(Error::Syscall {
                call: "send descriptors",
                errno: Errno(libc::EMSGSIZE),
            });
        }
        if Errno::last() != Errno(libc::EINTR) {
            return Err(Error::last("send descriptors"));
        }
    }
}

/// Receives one message into `message` and up to `fds_max` descriptors, closed on exec. Says
/// how long the message is; 0 is the peer's end. A cut message or cut descriptors are an error,
/// and then no descriptor is kept.
pub fn recv_fds(
    socket: BorrowedFd<'_>,
    message: &mut [u8],
    fds_max: usize,
) -> Result<(usize, Vec<OwnedFd>), Error> {
    let mut control = Control([0; 1040]);
    let mut iov = libc::iovec {
        iov_base: message.as_mut_ptr().cast(),
        iov_len: message.len(),
    };
    let mut header = empty_header(&mut iov);
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = size_of::<Control>() as _;
    let n = loop {
        // SAFETY: `header` points at live, writable memory of the stated lengths.
        let n = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC) };
        if n >= 0 {
            break n as usize;
        }
        if Errno::last() != Errno(libc::EINTR) {
            return Err(Error::last("receive descriptors"));
        }
    };
    let fds = take_fds(&header);
    let cut = header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    if cut || fds.len() > fds_max {
        return Err(Error::Syscall {
            call: "receive descriptors",
            errno: Errno(libc::EMSGSIZE),
        });
    }
    Ok((n, fds))
}

fn empty_header(iov: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: msghdr is plain data, for which zero is valid (null pointers, no lengths).
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = iov;
    header.msg_iovlen = 1;
    header
}

/// Owns every descriptor in the control messages, so that none leaks whatever follows.
fn take_fds(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: the kernel filled `header`'s control buffer; the macros stay inside of its length.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !at.is_null() {
        // SAFETY: `at` is a whole control message inside the buffer.
        let (level, kind, length) =
            unsafe { ((*at).cmsg_level, (*at).cmsg_type, (*at).cmsg_len as usize) };
        if level == libc::SOL_SOCKET && kind == libc::SCM_RIGHTS {
            // SAFETY: plain arithmetic.
            let head = unsafe { libc::CMSG_LEN(0) } as usize;
            for position in 0..(length - head) / size_of::<libc::c_int>() {
                // SAFETY: inside the data of this message; read unaligned. Each number is a
                // descriptor that the kernel made for us just now.
                fds.push(unsafe {
                    let data = libc::CMSG_DATA(at).cast::<libc::c_int>();
                    OwnedFd::from_raw_fd(data.add(position).read_unaligned())
                });
            }
        }
        // SAFETY: as for CMSG_FIRSTHDR.
        at = unsafe { libc::CMSG_NXTHDR(header, at) };
    }
    fds
}

// CMSG_SPACE(FDS_MAX * 4) is a 16-byte header plus 1012 bytes, rounded up to 8.
const _: () = assert!(size_of::<Control>() >= 16 + (FDS_MAX * 4).next_multiple_of(8));

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::sys::EventFd;

    #[test]
    fn a_doorbell_rings_on_the_other_side() {
        let (near, far) = UnixStream::pair().unwrap();
        let bell = EventFd::new().unwrap();
        send_fds(near.as_fd(), b"bell", &[bell.as_fd(), bell.as_fd()]).unwrap();
        let mut message = [0; 16];
        let (n, fds) = recv_fds(far.as_fd(), &mut message, 2).unwrap();
        assert_eq!((&message[..n], fds.len()), (&b"bell"[..], 2));
        bell.ring().unwrap();
        for fd in fds {
            // SAFETY: F_GETFD takes no pointer.
            let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFD) };
            assert_ne!(flags & libc::FD_CLOEXEC, 0);
            EventFd::from_fd(fd).ring().unwrap();
        }
        assert_eq!(bell.take().unwrap(), 3);
    }

    #[test]
    fn as_many_as_the_kernel_takes_go_in_one_message() {
        let (near, far) = UnixStream::pair().unwrap();
        let bell = EventFd::new().unwrap();
        send_fds(near.as_fd(), b"x", &[bell.as_fd(); FDS_MAX]).unwrap();
        let (_, fds) = recv_fds(far.as_fd(), &mut [0; 1], FDS_MAX).unwrap();
        assert_eq!(fds.len(), FDS_MAX);
    }

    #[test]
    fn more_descriptors_than_asked_for_are_refused_and_closed() {
        let (near, far) = UnixStream::pair().unwrap();
        let (held, probe) = UnixStream::pair().unwrap();
        send_fds(near.as_fd(), b"x", &[held.as_fd(), held.as_fd()]).unwrap();
        drop(held);
        assert!(recv_fds(far.as_fd(), &mut [0; 1], 1).is_err());
        // All copies are closed exactly if the other end sees the end of it.
        assert_eq!(recv_fds(probe.as_fd(), &mut [0; 1], 0).unwrap().0, 0);
    }

    #[test]
    fn the_end_of_the_peer_is_an_empty_message() {
        let (near, far) = UnixStream::pair().unwrap();
        drop(near);
        let (n, fds) = recv_fds(far.as_fd(), &mut [0; 4], 4).unwrap();
        assert_eq!((n, fds.len()), (0, 0));
        assert!(send_fds(far.as_fd(), b"", &[]).is_err());
    }
}
