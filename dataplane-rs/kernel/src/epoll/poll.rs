//! The epoll instance: registrations under our own names, and the wait.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::tag::Tag;
use crate::{Errno, Error, Wait};

/// Something can be received or accepted, or never will be again.
pub(super) const IN: u32 = libc::EPOLLIN as u32;
/// There is room to send, or sending failed.
pub(super) const OUT: u32 = libc::EPOLLOUT as u32;
/// Reported once for each change instead of for as long as it lasts. Alone: nothing but errors
/// and hang-ups, which cannot be switched off, and those once.
pub(super) const EDGE: u32 = libc::EPOLLET as u32;
/// Of all instances that wait for the same thing, a change wakes one. Only in [`Poll::add`].
pub(super) const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

/// The longest wait in one go; a longer one ends early, as after a signal.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// What is ready, and whose it is.
#[repr(transparent)]
pub(super) struct Event(libc::epoll_event);

impl Event {
    pub(super) fn bits(&self) -> u32 {
        self.0.events
    }

    pub(super) fn tag(&self) -> Tag {
        Tag::unpack(self.0.u64).expect("the kernel returns tags unchanged")
    }
}

/// The instance.
pub(super) struct Poll {
    epoll: OwnedFd,
    /// Events of one wait.
    most: usize,
    /// The kernel (or a sandbox) lacks epoll_pwait2.
    coarse: bool,
}

impl Poll {
    pub(super) fn new(most: usize) -> Result<Poll, Error> {
        // SAFETY: no pointers; the result is checked before it is owned.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last("epoll_create1"));
        }
        Ok(Poll {
            // SAFETY: `fd` was just created and nobody else knows it.
            epoll: unsafe { OwnedFd::from_raw_fd(fd) },
            most,
            coarse: false,
        })
    }

    /// Whether waits are rounded up to milliseconds.
    pub(super) fn is_coarse(&self) -> bool {
        self.coarse
    }

    /// Registers a descriptor. A state that is there already is reported, too.
    pub(super) fn add(&self, fd: BorrowedFd<'_>, bits: u32, tag: Tag) -> Result<(), Errno> {
        self.control(libc::EPOLL_CTL_ADD, fd, bits, tag.pack())
    }

    /// Changes what is reported, and reports the state of now anew.
    pub(super) fn change(&self, fd: BorrowedFd<'_>, bits: u32, tag: Tag) -> Result<(), Errno> {
        self.control(libc::EPOLL_CTL_MOD, fd, bits, tag.pack())
    }

    /// Ends a registration. That it was none is no error.
    pub(super) fn remove(&self, fd: BorrowedFd<'_>) {
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, 0);
    }

    fn control(&self, op: i32, fd: BorrowedFd<'_>, bits: u32, name: u64) -> Result<(), Errno> {
        let mut event = libc::epoll_event {
            events: bits,
            u64: name,
        };
        let (epoll, fd) = (self.epoll.as_raw_fd(), fd.as_raw_fd());
        // SAFETY: `event` is a valid epoll_event, which the kernel copies.
        match unsafe { libc::epoll_ctl(epoll, op, fd, &mut event) } {
            0 => Ok(()),
            _ => Err(Errno::last()),
        }
    }

    /// Waits and puts what is ready into `batch`. A signal leaves it empty and is no error.
    pub(super) fn wait(&mut self, batch: &mut Vec<Event>, wait: Wait) -> Result<(), Error> {
        batch.clear();
        batch.reserve(self.most);
        let at_most = wait.at_most.map(|limit| limit.min(WAIT_MAX));
        let ready = match self.ready(batch, at_most) {
            // EPERM is how older sandboxes answer to calls that they have never heard of.
            Err(Errno(libc::ENOSYS | libc::EPERM)) if !self.coarse => {
                self.coarse = true;
                self.ready(batch, at_most)
            }
            ready => ready,
        };
        match ready {
            Ok(count) => {
                // SAFETY: the kernel wrote that many events, no more than were reserved.
                unsafe { batch.set_len(count) };
                Ok(())
            }
            Err(Errno(libc::EINTR)) => Ok(()),
            Err(errno) => Err(Error::Syscall {
                call: "epoll_wait",
                errno,
            }),
        }
    }

    fn ready(&self, batch: &mut Vec<Event>, at_most: Option<Duration>) -> Result<usize, Errno> {
        let (fd, most) = (self.epoll.as_raw_fd(), self.most as libc::c_int);
        // An Event is an epoll_event in memory, too.
        let events = batch.as_mut_ptr().cast::<libc::epoll_event>();
        let count = if self.coarse {
            let milliseconds = at_most.map_or(-1, |limit| {
                limit.as_nanos().div_ceil(1_000_000) as libc::c_int
            });
            // SAFETY: `events` has room for `most`, which the caller reserved.
            let count = unsafe { libc::epoll_wait(fd, events, most, milliseconds) };
            i64::from(count)
        } else {
            let limit = at_most.map(|limit| libc::timespec {
                tv_sec: limit.as_secs() as libc::time_t,
                tv_nsec: limit.subsec_nanos().into(),
            });
            let limit = limit.as_ref().map_or(std::ptr::null(), |limit| limit);
            let no_mask = std::ptr::null::<libc::sigset_t>();
            // The bare call, because a C library of before 2021 has no function for it.
            // SAFETY: `events` has room for `most`, which the caller reserved; `limit` is null
            // or a valid timespec; no signal mask is given.
            unsafe { libc::syscall(libc::SYS_epoll_pwait2, fd, events, most, limit, no_mask, 0) }
        };
        usize::try_from(count).map_err(|_| Errno::last())
    }
}
