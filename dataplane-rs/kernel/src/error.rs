//! Errors: whose fault it is, and the kernel's number.

use std::fmt;

use crate::caps::Refusal;

/// An errno value as the kernel gave it, positive.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// The errno of the last failed libc call of this thread.
    pub(crate) fn last() -> Errno {
        Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    pub(crate) fn of(error: &std::io::Error) -> Errno {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What can go wrong for a whole backend. Trouble of one connection is no error: it arrives as
/// [`crate::Sink::on_eof`] or with [`crate::Sink::on_sent`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operator's: a value in [`crate::Options`] cannot be.
    BadOption {
        /// Which one.
        option: &'static str,
        /// What it must be.
        must: &'static str,
    },
    /// The operator's: this kernel, or the sandbox around us, does not give what is needed.
    Refused(Refusal),
    /// The kernel's: a call failed that has no reason to fail.
    Syscall {
        /// What was called, and for what.
        call: &'static str,
        /// What it said.
        errno: Errno,
    },
    /// The operator's: a table named in [`crate::Options`] is full.
    TableFull {
        /// Which table.
        table: &'static str,
        /// How many it holds.
        capacity: usize,
    },
}

impl Error {
    pub(crate) fn last(call: &'static str) -> Error {
        Error::Syscall {
            call,
            errno: Errno::last(),
        }
    }

    pub(crate) fn io(call: &'static str, error: &std::io::Error) -> Error {
        Error::Syscall {
            call,
            errno: Errno::of(error),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::BadOption { option, must } => write!(f, "option {option} must be {must}"),
            Error::Refused(refusal) => write!(f, "io_uring refused: {refusal}"),
            Error::Syscall { call, errno } => write!(f, "{call}: {errno}"),
            Error::TableFull { table, capacity } => {
                write!(f, "table of {table} is full at {capacity}")
            }
        }
    }
}

impl std::error::Error for Error {}
