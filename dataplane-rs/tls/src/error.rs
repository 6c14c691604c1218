//! What can go wrong, and whose fault it is.

use std::fmt;

/// Why a listener cannot be set up or a session is over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operator's fault: this certificate cannot be used.
    Certificate {
        /// Its place in the settings, from 0.
        index: usize,
        /// What is wrong and how to mend it.
        problem: String,
    },
    /// The operator's fault: no client could be verified with this.
    ClientAuthority {
        /// What is wrong and how to mend it.
        problem: String,
    },
    /// The operator's fault: so many certificates are none, or too many.
    Count {
        /// Certificates that the settings have.
        certificates: usize,
    },
    /// The peer's fault: it broke the protocol, nothing that it offers is acceptable, its
    /// certificate is refused, or it says in an alert that it gives up.
    Peer(rustls::Error),
    /// Nobody's: TLS 1.2 has no new keys for a session that has used its own up, which takes 2^24
    /// records.
    Spent,
    /// The caller's fault: the handshake is not complete, or the session is over.
    Unready,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Certificate { index, problem } => write!(f, "certificates[{index}]: {problem}"),
            Error::ClientAuthority { problem } => write!(f, "client_ca: {problem}"),
            Error::Count { certificates: 0 } => f.write_str("certificates: there must be one"),
            Error::Count { certificates } => write!(
                f,
                "certificates: {certificates} are more than {}",
                crate::limits::CERTIFICATES_MAX
            ),
            Error::Peer(error) => write!(f, "the peer's TLS: {error}"),
            Error::Spent => f.write_str("the session's keys have protected all that they may"),
            Error::Unready => f.write_str("the session is not ready to send, or over"),
        }
    }
}

impl std::error::Error for Error {}
