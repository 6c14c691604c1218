//! The doorbell: a counter in the kernel that wakes whoever watches it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::{Errno, Error};

/// An eventfd, non-blocking and closed on exec.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// A new one with count 0.
    pub fn new() -> Result<EventFd, Error> {
        // SAFETY: no pointers; the result is checked before it is owned.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last("eventfd"));
        }
        // SAFETY: `fd` was just created and nobody else knows it.
        Ok(EventFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Takes over a descriptor that came from elsewhere. Whether it is an eventfd shows at the
    /// first use.
    pub fn from_fd(fd: OwnedFd) -> EventFd {
        EventFd(fd)
    }

    /// Adds one to the count and so wakes the watchers. A count at its limit is a bell that
    /// rings already, not an error.
    pub fn ring(&self) -> Result<(), Error> {
        let one = 1u64.to_ne_bytes();
        loop {
            // SAFETY: `one` is eight readable bytes.
            let n = unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
            if n == 8 {
                return Ok(());
            }
            match Errno::last() {
                Errno(libc::EINTR) => {}
                Errno(libc::EAGAIN) => return Ok(()),
                errno => {
                    return Err(Error::Syscall {
                        call: "write to an eventfd",
                        errno,
                    });
                }
            }
        }
    }

    /// Takes the count and leaves 0; 0 if there is none. Never blocks.
    pub fn take(&self) -> Result<u64, Error> {
        let mut count = [0u8; 8];
        loop {
            // SAFETY: `count` is eight writable bytes.
            let n =
                unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
            if n == 8 {
                return Ok(u64::from_ne_bytes(count));
            }
            match Errno::last() {
                Errno(libc::EINTR) => {}
                Errno(libc::EAGAIN) => return Ok(0),
                errno => {
                    return Err(Error::Syscall {
                        call: "read from an eventfd",
                        errno,
                    });
                }
            }
        }
    }

    /// Another descriptor of the same counter.
    pub fn duplicate(&self) -> Result<EventFd, Error> {
        match self.0.try_clone() {
            Ok(fd) => Ok(EventFd(fd)),
            Err(error) => Err(Error::io("duplicate an eventfd", &error)),
        }
    }

    /// The bare descriptor.
    pub fn into_fd(self) -> OwnedFd {
        self.0
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_add_up_and_one_take_empties_them() {
        let bell = EventFd::new().unwrap();
        let twin = bell.duplicate().unwrap();
        assert_eq!(bell.take().unwrap(), 0);
        bell.ring().unwrap();
        twin.ring().unwrap();
        assert_eq!(bell.take().unwrap(), 2);
        assert_eq!(twin.take().unwrap(), 0);
    }

    #[test]
    fn a_full_counter_is_a_bell_that_rings_already() {
        let bell = EventFd::new().unwrap();
        let most = (u64::MAX - 1).to_ne_bytes();
        // SAFETY: eight readable bytes.
        let n = unsafe { libc::write(bell.0.as_raw_fd(), most.as_ptr().cast(), 8) };
        assert_eq!(n, 8);
        bell.ring().unwrap();
        assert_eq!(bell.take().unwrap(), u64::MAX - 1);
    }
}
