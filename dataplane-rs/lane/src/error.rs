//! What can go wrong with a lane, and whose fault it is.

use std::fmt;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a lane cannot be made or used.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operator's: a size that no ring can have.
    BadSize {
        /// Which size.
        what: &'static str,
        /// The number that was asked for.
        value: u64,
    },
    /// The control plane's: a word that cannot be right. The lane is to be retired.
    Corrupt {
        /// The word's name in `layout.abi`.
        word: &'static str,
        /// What was read.
        value: u64,
    },
    /// Another version's: the page was laid out by something else.
    Foreign {
        /// What differs.
        what: &'static str,
        /// The value found.
        found: u64,
        /// The value this program has.
        expected: u64,
    },
    /// The kernel's: a system call failed.
    Kernel {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::BadSize { what, value } => {
                write!(
                    f,
                    "{what} of {value} bytes: want a power of two of at least one page"
                )
            }
            Error::Corrupt { word, value } => {
                write!(
                    f,
                    "the control plane left {word} = {value:#x}, which cannot be"
                )
            }
            Error::Foreign {
                what,
                found,
                expected,
            } => write!(
                f,
                "{what} is {found:#x}, this program has {expected:#x}: made by another version"
            ),
            Error::Kernel { doing, source } => write!(f, "{doing}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Kernel { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl Error {
    pub(crate) fn kernel(doing: &'static str) -> Self {
        Error::Kernel {
            doing,
            source: std::io::Error::last_os_error(),
        }
    }
}
