//! What a failed accept asks for, and how listeners live through a lack of descriptors.
//!
//! A listener whose accept lacked something is left alone for [`Options::fd_retry`] and then tried
//! again. When the lack has lasted for [`Options::fd_patience`], each try also refuses one of the
//! connections that wait, on a descriptor kept in reserve for this: its sender learns at once what
//! it would otherwise learn from its own timeout.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys::EventFd;
use crate::{Errno, ListenerId, Options, sys};

/// What an accept's failure asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Accept can never work on this socket.
    Hopeless,
    /// Something is lacking, or nobody knows: not again at once.
    Lacking,
    /// This connection is lost, the next may be fine.
    Once,
}

/// Sorts the errors of accept(2), among them those of the new connection itself.
pub(crate) fn judge(errno: Errno) -> Failure {
    match errno.0 {
        libc::EBADF | libc::EINVAL | libc::ENOTSOCK | libc::EOPNOTSUPP => Failure::Hopeless,
        libc::ECANCELED
        | libc::ECONNABORTED
        | libc::EHOSTDOWN
        | libc::EHOSTUNREACH
        | libc::EINTR
        | libc::ENETDOWN
        | libc::ENETUNREACH
        | libc::ENONET
        | libc::ENOPROTOOPT
        | libc::EPERM
        | libc::EPROTO => Failure::Once,
        _ => Failure::Lacking,
    }
}

/// A listener's lack of something, in nanoseconds of the boot clock.
#[derive(Default)]
pub(crate) struct Shortage {
    /// Not tried again before this time.
    retry_at: Option<u64>,
    /// Since when accepts have failed for lack of something, without a success between.
    since: Option<u64>,
}

impl Shortage {
    /// An accept lacked something. Says whether that has lasted for too long.
    pub(crate) fn met(&mut self, now: u64, options: &Options) -> bool {
        self.retry_at = Some(now + options.fd_retry.as_nanos() as u64);
        let since = *self.since.get_or_insert(now);
        now - since >= options.fd_patience.as_nanos() as u64
    }

    /// An accept succeeded.
    pub(crate) fn over(&mut self) {
        self.since = None;
    }

    /// Whether it is too early for another try.
    pub(crate) fn waits(&self) -> bool {
        self.retry_at.is_some()
    }
}

/// Ends the waits whose time has come. Says whose they were, and when the next one ends.
pub(crate) fn retries<'a>(
    now: u64,
    all: impl Iterator<Item = (ListenerId, &'a mut Shortage)>,
) -> (Vec<ListenerId>, Option<u64>) {
    let (mut due, mut next) = (Vec::new(), None::<u64>);
    for (id, shortage) in all {
        match shortage.retry_at {
            Some(at) if at <= now => {
                shortage.retry_at = None;
                due.push(id);
            }
            Some(at) => next = Some(next.map_or(at, |next| next.min(at))),
            None => {}
        }
    }
    (due, next)
}

/// A descriptor kept only to be given up when no other is left.
pub(crate) struct Spare(Option<OwnedFd>);

impl Spare {
    /// Empty when there is no descriptor left already.
    pub(crate) fn new() -> Spare {
        Spare(EventFd::new().ok().map(EventFd::into_fd))
    }

    /// Resets one connection that waits at `listener`, which must not block. Says whether there
    /// was one, and a descriptor to do it with.
    pub(crate) fn refuse_one(&mut self, listener: BorrowedFd<'_>) -> bool {
        if self.0.take().is_none() {
            *self = Spare::new();
            return false;
        }
        let refused = sys::accept(listener)
            .map(|socket| drop(sys::set_linger_reset(socket.as_fd())))
            .is_ok();
        *self = Spare::new();
        refused
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn patience_counts_from_the_first_failure_and_anew_after_a_success() {
        let options = Options {
            fd_patience: Duration::from_nanos(100),
            fd_retry: Duration::from_nanos(10),
            ..Options::default()
        };
        let mut shortage = Shortage::default();
        assert!(!shortage.met(1000, &options));
        assert!(!shortage.met(1099, &options));
        assert!(shortage.met(1100, &options));
        shortage.over();
        assert!(!shortage.met(1200, &options));
    }

    #[test]
    fn a_wait_ends_once_and_the_next_one_is_named() {
        let id = |index| ListenerId {
            index,
            generation: 0,
        };
        let at = |retry_at| Shortage {
            retry_at,
            since: None,
        };
        let mut all = [at(Some(10)), at(None), at(Some(30)), at(Some(20))];
        let mut retries_at = |now| retries(now, (0..).map(id).zip(&mut all));
        assert_eq!(retries_at(10), (vec![id(0)], Some(20)));
        assert_eq!(retries_at(10), (vec![], Some(20)));
        assert_eq!(retries_at(40), (vec![id(2), id(3)], None));
    }
}
