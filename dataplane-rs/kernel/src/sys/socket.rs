//! Questions to sockets and the few settings that do not come from the listener.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::{Errno, Error};

/// The other end's address.
pub fn peer_addr(socket: BorrowedFd<'_>) -> Result<SocketAddr, Error> {
    // SAFETY: getpeername fills at most `length` bytes of the storage it is given.
    address("getpeername", |storage, length| unsafe {
        libc::getpeername(socket.as_raw_fd(), storage, length)
    })
}

/// This end's address.
pub fn local_addr(socket: BorrowedFd<'_>) -> Result<SocketAddr, Error> {
    // SAFETY: getsockname fills at most `length` bytes of the storage it is given.
    address("getsockname", |storage, length| unsafe {
        libc::getsockname(socket.as_raw_fd(), storage, length)
    })
}

fn address(
    call: &'static str,
    ask: impl FnOnce(*mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int,
) -> Result<SocketAddr, Error> {
    // SAFETY: sockaddr_storage is plain data, for which zero is valid.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&storage) as libc::socklen_t;
    if ask((&raw mut storage).cast(), &raw mut length) != 0 {
        return Err(Error::last(call));
    }
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that the storage, which is aligned for every address
            // type, holds a sockaddr_in.
            let v4 = unsafe { (&raw const storage).cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Ok(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above, with sockaddr_in6.
            let v6 = unsafe { (&raw const storage).cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Ok(SocketAddr::new(IpAddr::V6(ip), u16::from_be(v6.sin6_port)))
        }
        _ => Err(Error::Syscall {
            call,
            errno: Errno(libc::EAFNOSUPPORT),
        }),
    }
}

/// Process, user and group at the other end of a Unix socket when it was connected.
pub fn peer_credentials(socket: BorrowedFd<'_>) -> Result<(i32, u32, u32), Error> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    get_option(
        socket,
        libc::SOL_SOCKET,
        libc::SO_PEERCRED,
        &mut peer,
        "getsockopt(SO_PEERCRED)",
    )?;
    Ok((peer.pid, peer.uid, peer.gid))
}

/// How many connections wait to be accepted on a listening socket, and how many may.
pub fn accept_queue(listener: BorrowedFd<'_>) -> Result<(u32, u32), Error> {
    // SAFETY: tcp_info is plain data, for which zero is valid.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    get_option(
        listener,
        libc::IPPROTO_TCP,
        libc::TCP_INFO,
        &mut info,
        "getsockopt(TCP_INFO)",
    )?;
    // For a listening socket these two fields have their own meaning (tcp_diag.c).
    Ok((info.tcpi_unacked, info.tcpi_sacked))
}

/// Whether both descriptors are one and the same socket, however each was come by (inherited,
/// passed, duplicated): every socket has an inode of its own in the kernel's socket file system.
/// `false`, too, if one of them cannot be asked.
pub fn same_socket(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    inode(one).is_some_and(|inode_of_one| inode(other) == Some(inode_of_one))
}

fn inode(socket: BorrowedFd<'_>) -> Option<(libc::dev_t, libc::ino_t)> {
    // SAFETY: stat is plain data, for which zero is valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is a valid struct for the call to fill in.
    let result = unsafe { libc::fstat(socket.as_raw_fd(), &mut stat) };
    (result == 0).then_some((stat.st_dev, stat.st_ino))
}

/// Sends small segments at once. Listeners hand this on to what they accept.
pub fn set_nodelay(socket: BorrowedFd<'_>) -> Result<(), Error> {
    set_option(
        socket,
        libc::IPPROTO_TCP,
        libc::TCP_NODELAY,
        &1i32,
        "setsockopt(TCP_NODELAY)",
    )
}

/// Makes the last close of the socket a reset that drops what is unsent.
pub fn set_linger_reset(socket: BorrowedFd<'_>) -> Result<(), Error> {
    let reset = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    set_option(
        socket,
        libc::SOL_SOCKET,
        libc::SO_LINGER,
        &reset,
        "setsockopt(SO_LINGER)",
    )
}

/// Sends FIN. What is unsent goes out before it.
pub fn shutdown_write(socket: BorrowedFd<'_>) -> Result<(), Error> {
    shutdown(socket, libc::SHUT_WR)
}

/// Sends FIN and makes every pending receive end.
pub(crate) fn shutdown_both(socket: BorrowedFd<'_>) -> Result<(), Error> {
    shutdown(socket, libc::SHUT_RDWR)
}

fn shutdown(socket: BorrowedFd<'_>, how: libc::c_int) -> Result<(), Error> {
    // SAFETY: no pointers.
    match unsafe { libc::shutdown(socket.as_raw_fd(), how) } {
        0 => Ok(()),
        _ => Err(Error::last("shutdown")),
    }
}

pub(super) fn get_option<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &mut T,
    call: &'static str,
) -> Result<(), Error> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is a plain C struct of `length` bytes, writable; the callers above pass
    // the type that the option is documented with.
    let result = unsafe {
        let value = (&raw mut *value).cast();
        libc::getsockopt(socket.as_raw_fd(), level, name, value, &mut length)
    };
    if result == 0 {
        Ok(())
    } else {
        Err(Error::last(call))
    }
}

fn set_option<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
    call: &'static str,
) -> Result<(), Error> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is a plain C struct of `length` bytes, readable.
    let result = unsafe {
        let value = (&raw const *value).cast();
        libc::setsockopt(socket.as_raw_fd(), level, name, value, length)
    };
    if result == 0 {
        Ok(())
    } else {
        Err(Error::last(call))
    }
}

/// A TCP listener on a loopback port of the kernel's choice, for self-tests.
pub(crate) fn loopback_listener() -> Result<(OwnedFd, SocketAddr), Error> {
    let bound = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr().map(|address| (listener, address)));
    match bound {
        Ok((listener, address)) => Ok((listener.into(), address)),
        Err(error) => Err(Error::io("bind to loopback", &error)),
    }
}

/// Connects to a loopback listener; completes without an accept, for the backlog takes it.
pub(crate) fn connected_pair(address: SocketAddr) -> Result<std::net::TcpStream, Error> {
    std::net::TcpStream::connect(address)
        .map_err(|error| Error::io("connect over loopback", &error))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn both_ends_agree_on_their_addresses_in_both_families() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(loopback) else {
                println!("no {loopback} on this host");
                continue;
            };
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (far, _) = listener.accept().unwrap();
            assert_eq!(peer_addr(far.as_fd()).unwrap(), near.local_addr().unwrap());
            assert_eq!(local_addr(far.as_fd()).unwrap(), near.peer_addr().unwrap());
        }
    }

    #[test]
    fn a_socket_that_is_not_connected_has_no_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = peer_addr(listener.as_fd()).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Syscall {
                    errno: Errno(libc::ENOTCONN),
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn a_duplicate_is_the_same_socket_and_one_on_the_same_port_is_not() {
        let (listener, address) = loopback_listener().unwrap();
        let twin = listener.try_clone().unwrap();
        assert!(same_socket(listener.as_fd(), twin.as_fd()));
        let (other, _) = loopback_listener().unwrap();
        assert!(!same_socket(listener.as_fd(), other.as_fd()));
        let near = connected_pair(address).unwrap();
        let far = TcpListener::from(twin).accept().unwrap().0;
        assert!(!same_socket(near.as_fd(), far.as_fd()));
        assert!(!same_socket(listener.as_fd(), far.as_fd()));
    }

    #[test]
    fn the_accept_queue_shows_who_waits() {
        let (listener, address) = loopback_listener().unwrap();
        let _waiting = [
            connected_pair(address).unwrap(),
            connected_pair(address).unwrap(),
        ];
        let (waiting, backlog) = accept_queue(listener.as_fd()).unwrap();
        assert_eq!(waiting, 2);
        assert!(backlog >= 2);
    }
}
