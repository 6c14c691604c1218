//! Why a request is not taken, as far as its sender is at fault.

use std::fmt;

use crate::routes::Methods;

/// A fault of the peer, found before anything was stored.
///
/// Each one has its status and tells whether the connection can go on: it cannot when nobody knows
/// any more where the next request begins, or when the peer has shown that it should not try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A chunk's size line or its end breaks RFC 9112 §7.1.
    BadChunk,
    /// `Content-Length` is not one number.
    BadContentLength,
    /// A header line breaks RFC 9112 §5.
    BadField,
    /// `Content-Length` beside `Transfer-Encoding`, or a transfer coding in HTTP/1.0.
    BadFraming,
    /// `Host` is missing, comes twice, or is no host and port.
    BadHost,
    /// A line ends otherwise than with CRLF.
    BadLineEnd,
    /// The first line is no request line.
    BadRequestLine,
    /// The request target is neither origin-form nor absolute-form.
    BadTarget,
    /// A trailer line breaks RFC 9112 §5.
    BadTrailer,
    /// The body is longer than the route takes.
    BodyTooLarge {
        /// What it takes.
        bytes_max: u64,
    },
    /// A body where none belongs (GET, HEAD).
    BodyUnexpected,
    /// Chunk extensions or trailers beyond their bound.
    ChunkOverhead,
    /// `Expect` asks for something other than `100-continue`.
    ExpectationUnknown,
    /// The peer is outside the route's allow list.
    Forbidden,
    /// The head is longer than the bound.
    HeadTooLarge {
        /// The bound.
        bytes_max: usize,
    },
    /// The method is known and not one of the route's.
    MethodNotAllowed {
        /// The route's methods, for `Allow`.
        allow: Methods,
    },
    /// The method is not known, or not served at all.
    MethodUnknown,
    /// No route has this path.
    NotFound,
    /// The head or the body did not come within its time.
    TooSlow,
    /// More fields than the bound.
    TooManyFields {
        /// The bound.
        count_max: usize,
    },
    /// A transfer coding other than `chunked`.
    TransferCodingUnknown,
    /// HTTP/2 or another version that is not spoken here.
    VersionUnsupported,
}

impl Refusal {
    /// The status that the sender gets.
    pub fn status(&self) -> u16 {
        match self {
            Refusal::BadChunk
            | Refusal::BadContentLength
            | Refusal::BadField
            | Refusal::BadFraming
            | Refusal::BadHost
            | Refusal::BadLineEnd
            | Refusal::BadRequestLine
            | Refusal::BadTarget
            | Refusal::BadTrailer
            | Refusal::BodyUnexpected
            | Refusal::ChunkOverhead => 400,
            Refusal::Forbidden => 403,
            Refusal::NotFound => 404,
            Refusal::MethodNotAllowed { .. } => 405,
            Refusal::TooSlow => 408,
            Refusal::BodyTooLarge { .. } => 413,
            Refusal::ExpectationUnknown => 417,
            Refusal::HeadTooLarge { .. } | Refusal::TooManyFields { .. } => 431,
            Refusal::MethodUnknown | Refusal::TransferCodingUnknown => 501,
            Refusal::VersionUnsupported => 505,
        }
    }

    /// Whether the connection ends with the answer. The others go on once the body was read.
    pub fn closes(&self) -> bool {
        !matches!(self, Refusal::NotFound | Refusal::MethodNotAllowed { .. })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Refusal::BadChunk => "sender: chunk framing is broken",
            Refusal::BadContentLength => "sender: Content-Length is not one number",
            Refusal::BadField => "sender: a header line is broken",
            Refusal::BadFraming => "sender: two framings at once",
            Refusal::BadHost => "sender: Host is missing, double or no host",
            Refusal::BadLineEnd => "sender: a line does not end with CRLF",
            Refusal::BadRequestLine => "sender: the request line is broken",
            Refusal::BadTarget => "sender: the request target is broken",
            Refusal::BadTrailer => "sender: a trailer line is broken",
            Refusal::BodyTooLarge { bytes_max } => {
                return write!(f, "sender: body over {bytes_max} bytes");
            }
            Refusal::BodyUnexpected => "sender: a body where none belongs",
            Refusal::ChunkOverhead => "sender: chunk extensions or trailers over their bound",
            Refusal::ExpectationUnknown => "sender: unknown expectation",
            Refusal::Forbidden => "sender: address outside allow_from",
            Refusal::HeadTooLarge { bytes_max } => {
                return write!(f, "sender: head over {bytes_max} bytes");
            }
            Refusal::MethodNotAllowed { allow } => {
                return write!(f, "sender: method not among {allow}");
            }
            Refusal::MethodUnknown => "sender: unknown method",
            Refusal::NotFound => "sender: no source has this path",
            Refusal::TooSlow => "sender: too slow",
            Refusal::TooManyFields { count_max } => {
                return write!(f, "sender: more than {count_max} header fields");
            }
            Refusal::TransferCodingUnknown => "sender: unknown transfer coding",
            Refusal::VersionUnsupported => "sender: HTTP version is not spoken here",
        };
        f.write_str(text)
    }
}

impl std::error::Error for Refusal {}
