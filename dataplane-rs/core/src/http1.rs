//! Reads HTTP/1.1 requests from bytes as they come, strictly.
//!
//! It copies no byte of a head and keeps none: the caller owns the bytes, whole in a receive buffer
//! or put together in a buffer of its own, and gets ranges into them. It does not route, does not
//! bound a body by a route's size (the caller hands the bound in) and does not answer.
//!
//! Lenience is where two parsers disagree and requests are smuggled, so whatever RFC 9112 lets a
//! server refuse is refused: line ends other than CRLF, folding, two lengths, any coding but one
//! `chunked`. The outcome depends on the bytes alone, never on how they were cut.
//!
//! # Calls of one request
//!
//! ```
//! use sluice_core::http1::{ChunkedDecoder, Fields, Framing, HeadReader};
//!
//! let received: &[u8] = b"POST /hooks/github HTTP/1.1\r\nHost: a.test\r\n\
//!                         Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nPOST ";
//! let mut fields = Fields::new(); // one for a worker, used again for each request
//! let mut reader = HeadReader::new(32 * 1024); // one for a connection
//!
//! // On each read: all bytes since the request began. `None` means: keep them, read on.
//! let head = reader.read(received, &mut fields)?.expect("the head is whole");
//! assert_eq!(head.path(received), b"/hooks/github");
//! for field in fields.as_slice() {
//!     let block = head.block(received); // what goes into the frame, with `field` as its index
//!     assert!(!field.name(block).is_empty() && !field.value(block).is_empty());
//! }
//!
//! // The body begins at `head.length`; the rest of the buffer is the next request.
//! let rest = &received[head.length..];
//! let mut spill = Vec::with_capacity(64);
//! let taken = match head.framing {
//!     Framing::None => 0,
//!     Framing::Length(_) => unreachable!("copied into the frame as it is, once"),
//!     Framing::Chunked => {
//!         let mut decoder = ChunkedDecoder::new(1 << 20);
//!         let progress = decoder.decode(rest, &mut spill)?;
//!         assert!(progress.done);
//!         progress.consumed
//!     }
//! };
//! assert_eq!((spill.as_slice(), &rest[taken..]), (&b"abc"[..], &b"POST "[..]));
//! reader.restart(); // the next request begins behind the body
//! # Ok::<(), sluice_core::Refusal>(())
//! ```

mod characters;
mod chunked;
mod head;
mod judge;
mod method;
mod scan;
mod target;

pub use chunked::{ChunkedDecoder, Progress, Step};
pub use head::{Field, Fields, Framing, Head, HeadReader, Version};
pub use method::Method;
